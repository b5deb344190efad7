"""Fixtures of tests in a real browser."""

from __future__ import annotations

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
    """Open pages, each in a context of its own; at the end, no page may have complained."""
    opened = []

    def new_page(**options):
        watched = watched_page(browser, **options)
        page, complaints = watched.__enter__()
        opened.append((watched, complaints))
        return page

    yield new_page
    for watched, _ in opened:
        watched.__exit__(None, None, None)
    assert [complaint for _, complaints in opened for complaint in complaints] == []
