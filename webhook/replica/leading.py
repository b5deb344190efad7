"""What the leader does for all replicas, and how often."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from webhook.controllers.policy_status import PolicyStatus
from webhook.controllers.run import PeriodicTask
from webhook.controllers.templates import TemplateRepair, TemplateSweep

if TYPE_CHECKING:
    from collections.abc import Sequence

    from policies.view import ClusterView
    from webhook.cluster.client import APIClient
    from webhook.cluster.live_settings import LiveSettings
    from webhook.controllers.metrics import ControllerMetrics
    from webhook.server.effects import TemplateKeeper

__all__ = ["leading_tasks"]

_REPAIR_SECONDS = 30.0
_SWEEP_SECONDS = 600.0
_GRACE = timedelta(hours=1)
"""For how long a template stays that nothing needs: a Job that is created again within the hour finds it there."""
_STATUS_SECONDS = 5.0
_AUDIT_SECONDS = 600.0


def leading_tasks(
    client: APIClient, view: ClusterView, settings: LiveSettings, keeper: TemplateKeeper, metrics: ControllerMetrics
) -> Sequence[PeriodicTask]:
    """The tasks of a replica for as long as it leads."""
    repair = TemplateRepair(keeper, view, settings, metrics)
    sweep = TemplateSweep(client, view, settings, metrics, _GRACE)
    status = PolicyStatus(client, settings, lambda: None)
    return (
        PeriodicTask("policy-status", status.round, _STATUS_SECONDS),
        PeriodicTask("templates-repair", repair.round, _REPAIR_SECONDS),
        PeriodicTask("templates-sweep", sweep.round, _SWEEP_SECONDS),
    )
