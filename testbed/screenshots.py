"""Takes the screenshots of the documentation in Chromium; run by `make screenshots`."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

from testbed.browser import chromium, watched_page

_ROOT = Path(__file__).parents[1]
_CLUSTERS = ("cluster", "cluster-in-use", "cluster-with-quota", "cluster-busy")
_FILES = tuple(argument for name in _CLUSTERS for argument in ("--cluster", f"examples/{name}"))
_REPORT = ("report", *_FILES, "-o", "-")
_CEL = (
    "cel",
    "--cluster",
    "examples/cluster",
    "--edit",
    "examples/cel/edit.cel",
    "examples/cel/claim.yaml",
    "-o",
    "html",
)


class _Screenshot(NamedTuple):
    name: str
    command: tuple[str, ...]
    """Prints the page."""
    part: str
    """A selector of the element at the top of the image; empty for the top of the page."""
    scheme: str = "light"


_SCREENSHOTS = (
    _Screenshot("report", _REPORT, ""),
    _Screenshot("report-nodes", _REPORT, "#nodes"),
    _Screenshot("report-quotas", _REPORT, "#quotas", "dark"),
    _Screenshot("cel", _CEL, ""),
)


def main() -> None:
    """Write the images into docs/images."""
    program = Path(sys.executable).parent / "gpu-admission"
    with tempfile.TemporaryDirectory() as folder, chromium() as browser:
        for each in _SCREENSHOTS:
            file = Path(folder) / f"{each.name}.html"
            # A selector of the examples matches nothing before its edit, which is exit code 1.
            done = subprocess.run([str(program), *each.command], cwd=_ROOT, capture_output=True, check=False)
            file.write_bytes(done.stdout)
            with watched_page(browser, color_scheme=each.scheme, viewport={"width": 1280, "height": 900}) as (page, _):
                page.goto(file.as_uri())
                if each.part:
                    page.locator(each.part).evaluate("element => element.scrollIntoView()")
                page.screenshot(path=str(_ROOT / "docs" / "images" / f"{each.name}.png"))


if __name__ == "__main__":
    main()
