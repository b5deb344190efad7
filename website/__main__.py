"""`python -m website [FOLDER]`: build the site into build/site, or into a folder; every warning is an error."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from sphinx.cmd.build import build_main

from website.sources import ROOT, write_sources


def build_site(target: Path) -> int:
    """Build the site; returns the exit code of Sphinx, which prints the warnings."""
    with tempfile.TemporaryDirectory() as folder:
        sources, cache = Path(folder) / "sources", Path(folder) / "cache"
        sources.mkdir()
        write_sources(sources)
        options = ["--conf-dir", str(Path(__file__).parent), "--doctree-dir", str(cache), "--jobs", "auto"]
        return build_main(
            ["--builder", "html", "--fail-on-warning", "--keep-going", "--quiet", *options, str(sources), str(target)]
        )


if __name__ == "__main__":
    sys.exit(build_site(Path(sys.argv[1]) if sys.argv[1:] else ROOT / "build" / "site"))
