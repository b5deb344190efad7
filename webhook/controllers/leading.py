"""The tasks of the leader, and when another replica should lead; the status of the GPUAdmissionPolicy."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from operator import itemgetter
from typing import TYPE_CHECKING, Any, TypeVar, TypeVarTuple

from policies.kubernetes.objects import lookup, with_conditions
from policies.kubernetes.view import PassingView
from policies.rules.messages import short_sentence
from webhook.cluster.answers import APIError
from webhook.cluster.client import MERGE_PATCH
from webhook.cluster.clockwork import Clockwork, rfc3339
from webhook.cluster.live import generation_of
from webhook.cluster.resources import RESOURCES
from webhook.controllers.audit_round import AUDIT_SECONDS, AuditRound, DeviceRound
from webhook.controllers.group_upkeep import GroupUpkeep
from webhook.controllers.metrics import ControllerMetrics, PeriodicTask, QuotaMetrics, WaitingMetrics, run_tasks
from webhook.controllers.quota_round import QuotaRound
from webhook.controllers.template_upkeep import TemplateRepair, TemplateSweep
from webhook.controllers.waiting_round import WaitingExplainer, WaitingRound, WaitingWriter
from webhook.server.template_keeper import FIELD_MANAGER

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import datetime

    from prometheus_client import CollectorRegistry

    from policies.kubernetes.objects import Object
    from policies.kubernetes.view import ClusterView, Digest
    from webhook.cluster.client import APIClient
    from webhook.cluster.live import LiveSettings, SettingsState
    from webhook.cluster.sync import Sync
    from webhook.controllers.presence import Presences
    from webhook.ledger import LedgerWriter
    from webhook.server.template_keeper import TemplateKeeper


ACCEPTED = "Accepted"
"""The type of our condition."""

_POLICY = RESOURCES["GPUAdmissionPolicy"]
_NAME = "default"
_MOST_PROBLEMS = 20
_LONGEST_PROBLEM = 1000
"""Characters; `_MOST_PROBLEMS` of this length fit into a condition, which allows 32768."""

_INSTEAD = (
    "Until this is fixed, each replica keeps the settings that it accepted last, and a new replica uses the "
    "built-in defaults"
)
"""The same text for every replica, so that a new leader does not write a different one."""


@dataclass(frozen=True, slots=True)
class PolicyStatus:
    """Writes the status of the stored settings if it changes."""

    client: APIClient
    """Talks to the API server."""
    settings: LiveSettings
    """Validates the settings."""
    audit_summary: Callable[[], Mapping[str, Any] | None]
    """Returns `status.audit` of the last audit; None before the first one, which keeps the old."""
    clockwork: Clockwork = field(default_factory=Clockwork)
    """The time of day."""

    async def round(self) -> None:
        """Write the status if it changes; after a conflict, the next round tries again.

        Raises:
            ClusterError: The API server refused, or did not answer.
        """
        state = self.settings.state
        if not isinstance(state.stored, dict) or not self._change(state, state.stored):
            return
        try:
            # The view may not show our own last write yet, or newer settings, which are not validated yet.
            stored: Object = await self.client.get(_POLICY.path(name=_NAME))
            change = self._change(state, stored)
            if change and _identity(stored) == _identity(state.stored):
                guard = {"resourceVersion": lookup(stored, ("metadata", "resourceVersion"))}
                path, body = _POLICY.path(name=_NAME, subresource="status"), {"metadata": guard, "status": change}
                await self.client.patch(path, body, FIELD_MANAGER, content_type=MERGE_PATCH)
        except APIError as error:
            if not (error.is_not_found or error.is_conflict):
                raise

    def _change(self, state: SettingsState, stored: Object) -> dict[str, Any]:
        """The merge patch to the wanted status; empty if nothing changes."""
        before = stored.get("status")
        status = before if isinstance(before, dict) else {}
        audit = self.audit_summary()
        wanted = {
            **status,
            "observedGeneration": _generation(state),
            "conditions": _conditions(status.get("conditions"), state, self.clockwork.now()),
            **({} if audit is None else {"audit": dict(audit)}),
        }
        return _merge_patch(status, wanted)


def _generation(state: SettingsState) -> int:
    return generation_of(state.stored) if isinstance(state.stored, dict) else 0


def _identity(stored: Object) -> tuple[Any, int]:
    return lookup(stored, ("metadata", "uid")), generation_of(stored)


def _conditions(before: Any, state: SettingsState, now: datetime) -> list[Any]:
    """The conditions with ours in its new state."""
    condition = {
        "type": ACCEPTED,
        "status": "False" if state.problems else "True",
        "reason": "Invalid" if state.problems else "Valid",
        "message": _message(state),
    }
    listed = before if isinstance(before, list) else []
    return with_conditions(listed, [condition], _generation(state), rfc3339(now))


def _message(state: SettingsState) -> str:
    remarks = state.problems or state.remarks
    lines = [
        short_sentence(each.path, each.message, each.remedy or "", _LONGEST_PROBLEM, with_path=True)
        for each in remarks[:_MOST_PROBLEMS]
    ]
    if len(remarks) > _MOST_PROBLEMS:
        lines.append(f"And {len(remarks) - _MOST_PROBLEMS} more; gpu-admission review shows them all")
    sentences = [*lines, _INSTEAD] if state.problems else ["These settings are in use", *lines]
    return " ".join(f"{sentence}." for sentence in sentences)


def _merge_patch(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    """The JSON Merge Patch (RFC 7386) from one mapping to another."""
    patch: dict[str, Any] = {key: None for key in before if key not in after}
    for key, value in after.items():
        old = before.get(key)
        if isinstance(value, dict) and isinstance(old, dict):
            if inner := _merge_patch(old, value):
                patch[key] = inner
        elif key not in before or value != old:
            patch[key] = value
    return patch


_GRACE = timedelta(hours=1)
"""For how long an unused template is kept, so that a Job that is created again within the hour finds it."""


T = TypeVar("T")
Ts = TypeVarTuple("Ts")


class _TaskView(PassingView):
    """A view that records which kinds are read."""

    def __init__(self, view: ClusterView) -> None:
        super().__init__(view)
        self.kinds: set[str] = set()

    def digest(self, function: Callable[[ClusterView], T]) -> Digest[T]:
        digest = super().digest(function)
        self.kinds.update(digest.generations)
        return digest

    def _ask(self, kind: str, question: Callable[[*Ts], T], *args: *Ts) -> T:
        self.kinds.add(kind)
        return super()._ask(kind, question, *args)


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
        inherited: Callable[[], Mapping[str, str]] = dict,
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
            inherited: Returns the annotations of the leader's Lease when this replica took it.
        """
        self._sync, self._presences, self._identity = sync, presences, identity
        view = _TaskView(view)
        self.kinds_read = view.kinds
        """The kinds that the tasks have read."""
        self.better_leader = ""
        """The reason for another replica to lead; empty if this one should."""
        self.metrics = ControllerMetrics(registry)
        self.audit = AuditRound(client, view, settings)
        registry.register(self.audit.metrics)
        self._devices = DeviceRound(view, settings)
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
            inherited,
        )
        clockwork, waiting_metrics = Clockwork(), WaitingMetrics(registry)
        self._waiting = WaitingRound(
            view,
            settings,
            WaitingExplainer(view, clockwork.clock),
            WaitingWriter(client, waiting_metrics, identity, clockwork),
            waiting_metrics,
            clockwork,
            self.audit.count_missing_pods,
        )
        sweep = TemplateSweep(client, view, settings, self.metrics, _GRACE)
        self._tasks = (
            PeriodicTask("policy-status", status.round, every=5.0),
            PeriodicTask("templates-repair", repair.round, every=30.0),
            PeriodicTask("templates-sweep", sweep.round, every=600.0),
            PeriodicTask("audit", self.audit.round, every=AUDIT_SECONDS),
            PeriodicTask("quota-groups", GroupUpkeep(client, view, clockwork).round, every=1.0),
            PeriodicTask("quotas", self._quotas.round, every=1.0),
            PeriodicTask("waiting-pods", self._waiting.round, every=5.0),
            PeriodicTask("devices", self._devices.round, every=60.0),
            PeriodicTask("better-leader", self.look_for_better_leader, every=5.0),
        )

    def annotations(self) -> Mapping[str, str]:
        """The annotations of the Lease, for the next leader."""
        return self._quotas.counted

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
            self.better_leader = ""

    async def look_for_better_leader(self) -> None:
        """Find a replica that hears of the kinds that the tasks read, while this one does not.

        If none does, this one goes on: it writes nothing that rests on unknown kinds.
        """
        silent = {kind: age for kind, age in self._sync.silent_kinds().items() if kind in self.kinds_read}
        self.better_leader = ""
        if not silent:
            return
        await self._presences.look()
        if other := self._presences.replica_that_hears(silent.keys(), self._identity):
            kind, age = max(silent.items(), key=itemgetter(1))
            self.better_leader = f"nothing was heard of {kind}s for {age:.0f} s, and {other} is up to date"
