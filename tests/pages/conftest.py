"""A cluster with everything that a report shows, and its page."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from policies.audit import Survey, audit
from policies.overview import overview
from policies.settings import DEFAULTS
from tests.browsers import browser, new_page
from tests.pages.shown_cluster import shown_objects
from webhook.cluster.manifests import ManifestsView
from webhook.pages.report import render_report

__all__ = ["browser", "new_page"]

NOW = datetime(2026, 11, 28, 12, 0, tzinfo=UTC)


@pytest.fixture(scope="session")
def overview_of():
    """The overview of some objects, and of an earlier cluster."""

    def overview_of(objects, before=None):
        view = ManifestsView(objects)
        survey = Survey(view, DEFAULTS)
        survey.add(objects)
        earlier = None if before is None else ManifestsView(before)
        return overview(view, DEFAULTS, NOW, audit(view, DEFAULTS, survey), earlier)

    return overview_of


@pytest.fixture(scope="session")
def report_page(overview_of):
    """The page of some objects; of the shown cluster by default."""

    def report_page(objects=None, before=None):
        found = overview_of(shown_objects() if objects is None else objects, before)
        return render_report(found, title="GPUs of test", moment="2026-11-28 12:00 UTC")

    return report_page
