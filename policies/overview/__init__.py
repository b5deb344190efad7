"""Overviews: GPUs, quotas, migration and findings of a cluster, for people who look.

`overview` puts together what the usage report, the quota reports and the audit know; nothing is computed twice, and nothing
is decided here. `visible_overview` is what one audience may see of it. Overviews are data; pages render them.
"""

from __future__ import annotations

from policies.overview.limited import limited_overview
from policies.overview.overview import NodeOverview, Overview, QuotaOverview, overview
from policies.overview.visible import HIDDEN, visible_overview

__all__ = ["HIDDEN", "NodeOverview", "Overview", "QuotaOverview", "limited_overview", "overview", "visible_overview"]
