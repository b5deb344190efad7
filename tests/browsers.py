"""Fixtures of tests in a real browser."""

from __future__ import annotations

from contextlib import ExitStack

import pytest

from testbed.browser import chromium, watched_page
from testbed.debian_packages import NoPackageError

__all__ = ["browser", "new_page"]


@pytest.fixture(scope="module")
def browser():
    """A headless Chromium; skips where there is none.

    Only for one module: Playwright runs an event loop in this thread, in which no asynchronous test could run.
    """
    try:
        with chromium() as started:
            yield started
    except NoPackageError as error:
        pytest.skip(str(error))


@pytest.fixture
def new_page(browser):
    """Open pages, each in its own context; at the end, no page may have complained."""
    complaints_of_pages = []
    with ExitStack() as stack:

        def new_page(**options):
            page, complaints = stack.enter_context(watched_page(browser, **options))
            complaints_of_pages.append(complaints)
            return page

        yield new_page
    assert [complaint for complaints in complaints_of_pages for complaint in complaints] == []
