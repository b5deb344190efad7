"""Takes the screenshots of the documentation in Chromium; run by `make screenshots`."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

from testbed.browser import chromium, watched_page

_ROOT = Path(__file__).parents[1]
_CLUSTERS = ("cluster", "cluster-in-use", "cluster-with-quota", "cluster-busy")
_FILES = [argument for name in _CLUSTERS for argument in ("--cluster", f"examples/{name}")]


def main() -> None:
    """Write the images into docs/images."""
    with tempfile.TemporaryDirectory() as folder, chromium() as browser:
        page_file = Path(folder) / "report.html"
        command = [str(Path(sys.executable).parent / "gpu-admission"), "report", *_FILES, "-o", str(page_file)]
        subprocess.run(command, cwd=_ROOT, check=True)
        for scheme, part in (("light", "#nodes"), ("dark", "#quotas")):
            options = {"color_scheme": scheme, "viewport": {"width": 1280, "height": 900}}
            with watched_page(browser, **options) as (page, _):
                page.goto(page_file.as_uri())
                page.evaluate("document.querySelector('h1').textContent = 'GPUs of the examples'")
                page.evaluate(f"document.querySelector('{part}').scrollIntoView()")
                page.screenshot(path=str(_ROOT / "docs" / "images" / f"report-{part[1:]}.png"))


if __name__ == "__main__":
    main()
