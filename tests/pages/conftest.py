"""A cluster with everything that a report shows, and its page."""

from __future__ import annotations

import pytest

from tests.browsers import browser, new_page
from tests.pages.shown_cluster import overview_of, shown_objects
from webhook.pages.report import render_report

__all__ = ["browser", "new_page"]


@pytest.fixture(scope="session", name="overview_of")
def overview_of_objects():
    """The function that makes the overview of some objects, compared with an earlier cluster."""
    return overview_of


@pytest.fixture(scope="session")
def report_page():
    """The page of some objects; of the shown cluster by default."""

    def report_page(objects=None, before=None):
        found = overview_of(shown_objects() if objects is None else objects, before)
        return render_report(found, title="GPUs of test", moment="2026-11-28 12:00 UTC")

    return report_page
