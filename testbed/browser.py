"""A real browser for tests: Debian's Chromium, installed or unpacked, driven by Playwright."""

from __future__ import annotations

import os
import shutil
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from playwright.sync_api import sync_playwright

from testbed.debian_packages import package_folder_with_libraries

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from playwright.sync_api import Browser, Page


_ARGUMENTS = (
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-quic",
    "--disable-sync",
    "--no-first-run",
)


@contextmanager
def chromium() -> Iterator[Browser]:
    """A headless Chromium.

    Raises:
        NoPackageError: It is neither installed nor to be had.
    """
    installed = shutil.which("chromium")
    folder = None if installed else package_folder_with_libraries("chromium")
    program = installed or str(folder and folder / "usr" / "lib" / "chromium" / "chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=program,
            args=[*_ARGUMENTS],
            # Chromium has no sandbox for root, and unpacked it has none at all; the pages are ours.
            chromium_sandbox=os.geteuid() != 0 and installed is not None,
            env=_environment(folder),
        )
        yield browser
        browser.close()


def _environment(folder: Path | None) -> dict[str, str | float | bool]:
    environment: dict[str, str | float | bool] = dict(os.environ)
    if folder is not None:
        libraries = sorted({str(found.parent) for found in folder.rglob("*.so*")})
        environment["LD_LIBRARY_PATH"] = ":".join(libraries)
        environment["FONTCONFIG_PATH"] = str(folder / "etc" / "fonts")
    return environment


@contextmanager
def watched_page(browser: Browser, **options: Any) -> Iterator[tuple[Page, list[str]]]:
    """A page with nothing stored, and the errors of its console and its scripts.

    Args:
        browser: The browser.
        options: Of the context, such as `color_scheme`, `viewport` and `ignore_https_errors`.
    """
    context = browser.new_context(**options)
    try:
        page = context.new_page()
        complaints: list[str] = []
        page.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        yield page, complaints
    finally:
        context.close()
