"""Overviews: GPUs, quotas, migration and findings of a cluster, as data that pages render.

`overview` combines the usage report, the quota reports and the audit; it decides nothing itself. `visible_overview` returns
the part that an audience may see, and `limited_overview` the part that fits on a page.
"""

from __future__ import annotations

from policies.analyses.report.overview import (
    HIDDEN,
    NodeOverview,
    Overview,
    QuotaOverview,
    limited_overview,
    overview,
    visible_overview,
)

__all__ = ["HIDDEN", "NodeOverview", "Overview", "QuotaOverview", "limited_overview", "overview", "visible_overview"]
