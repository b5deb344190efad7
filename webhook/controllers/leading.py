"""The tasks of the leader, and their periods."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from webhook.cluster.clockwork import Clockwork
from webhook.controllers.audit_round import AUDIT_SECONDS, AuditRound, DeviceRound
from webhook.controllers.metrics import ControllerMetrics, QuotaMetrics, WaitingMetrics
from webhook.controllers.policy_status import PolicyStatus
from webhook.controllers.quota_round import QuotaRound
from webhook.controllers.run import PeriodicTask, run_tasks
from webhook.controllers.template_upkeep import TemplateRepair, TemplateSweep
from webhook.controllers.waiting_round import WaitingExplainer, WaitingRound
from webhook.controllers.waiting_writes import WaitingWriter

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

    from policies.kubernetes.view import ClusterView
    from webhook.cluster.client import APIClient
    from webhook.cluster.live_settings import LiveSettings
    from webhook.cluster.sync import Sync
    from webhook.controllers.presence import Presences
    from webhook.ledger.writer import LedgerWriter
    from webhook.server.template_keeper import TemplateKeeper

__all__ = ["Leading"]


_STATUS_SECONDS = 5.0
_REPAIR_SECONDS = 30.0
_SWEEP_SECONDS = 600.0
_GRACE = timedelta(hours=1)
"""For how long an unused template is kept, so that a Job that is created again within the hour finds it."""
_QUOTA_SECONDS = 1.0
_WAITING_SECONDS = 5.0
_DEVICES_SECONDS = 60.0


class Leading:
    """The tasks of a replica while it leads."""

    def __init__(
        self,
        client: APIClient,
        view: ClusterView,
        settings: LiveSettings,
        keeper: TemplateKeeper,
        ledger: LedgerWriter,
        presences: Presences,
        sync: Sync,
        registry: CollectorRegistry,
        identity: str,
    ) -> None:
        """Prepare.

        Args:
            client: Talks to the API server.
            view: The cluster.
            settings: The administrator's current settings.
            keeper: Creates templates.
            ledger: Writes the ledgers of quotas; reviews use the same one.
            presences: Says which replicas have seen a GPUQuota.
            sync: Keeps the caches of the view.
            registry: Exports metrics.
            identity: The name of this replica.
        """
        self.metrics = ControllerMetrics(registry)
        self.audit = AuditRound(client, view, settings)
        registry.register(self.audit.metrics)
        self._devices = DeviceRound(view)
        registry.register(self._devices)
        status = PolicyStatus(client, settings, self.audit.summary)
        repair = TemplateRepair(keeper, view, settings, self.metrics)
        self._quotas = QuotaRound(
            client,
            view,
            settings,
            ledger,
            lambda: {cache.watched.kind: cache.store for cache in sync.caches},
            QuotaMetrics(registry),
            presences,
        )
        clockwork, waiting_metrics = Clockwork(), WaitingMetrics(registry)
        self._waiting = WaitingRound(
            view,
            settings,
            WaitingExplainer(view, clockwork.clock),
            WaitingWriter(client, waiting_metrics, identity, clockwork),
            waiting_metrics,
            clockwork,
        )
        sweep = TemplateSweep(client, view, settings, self.metrics, _GRACE)
        self._tasks = (
            PeriodicTask("policy-status", status.round, _STATUS_SECONDS),
            PeriodicTask("templates-repair", repair.round, _REPAIR_SECONDS),
            PeriodicTask("templates-sweep", sweep.round, _SWEEP_SECONDS),
            PeriodicTask("audit", self.audit.round, AUDIT_SECONDS),
            PeriodicTask("quotas", self._quotas.round, _QUOTA_SECONDS),
            PeriodicTask("waiting-pods", self._waiting.round, _WAITING_SECONDS),
            PeriodicTask("devices", self._devices.round, _DEVICES_SECONDS),
        )

    def notes(self) -> list[str]:
        """Sentences on what the leader's tasks may not do."""
        return self._waiting.notes()

    async def run(self) -> None:
        """Run all tasks until cancelled."""
        try:
            await run_tasks(self._tasks, self.metrics)
        finally:
            # The next leader exports these metrics; otherwise two replicas would.
            self.audit.forget()
            self._quotas.forget()
            self._waiting.forget()
            self._devices.forget()
