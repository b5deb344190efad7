"""Periodic tasks of the leader, each with its own period; none of them ends by itself."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Literal

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from certs.rotation import CHANGES
from policies.analyses.wait_reasons import WaitReason
from policies.quota.ledger.open_charges import ZERO
from policies.quota.limits.cluster_quota import loans
from webhook.cluster.answers import ClusterError
from webhook.cluster.clockwork import Clockwork
from webhook.server.metrics import MetricFactory

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
    from datetime import datetime

    from prometheus_client import CollectorRegistry
    from prometheus_client.core import Metric

    from certs.rotation import ChangeKind
    from policies.quota.ledger.gpu_hours import GPUKind, GPUs
    from policies.quota.ledger.ledger import Ledger
    from policies.quota.limits.quota import Quota
    from webhook.ledger import LedgerKey


_BUCKETS = (0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 30.0, 60.0, 300.0, 600.0)


class ControllerMetrics:
    """Metrics of the leader's tasks; all label values are fixed by the program."""

    def __init__(self, registry: CollectorRegistry) -> None:
        new = MetricFactory(registry)
        self._leader = new.gauge("leader", "1 if this replica leads.")
        self._rounds = new.counter(
            "controller_rounds", "Rounds of the leader's tasks, by how they ended.", "task", "outcome"
        )
        self._duration = new.histogram(
            "controller_round_duration_seconds", "How long rounds of the leader's tasks took.", _BUCKETS, "task"
        )
        self._last = new.gauge(
            "controller_last_round_timestamp_seconds", "When a round of the leader's tasks was last done.", "task"
        )
        actions = ("repaired", "marked", "unmarked", "deleted", "foreign")
        changed = "ResourceClaimTemplates that the leader changed, by action."
        self._templates = new.counters("template_upkeep", changed, "action", actions)

    def watch_leader(self, leading: Callable[[], bool]) -> None:
        """Export whether this replica leads; `leading` is called at every scrape."""
        self._leader.set_function(leading)

    def count_round(self, task: str, outcome: str, seconds: float) -> None:
        """Count a round of a task: `done` or `failed`."""
        self._rounds.labels(task, outcome).inc()
        self._duration.labels(task).observe(seconds)

    def set_last(self, task: str, moment: datetime) -> None:
        """Record the time of the last complete round of a task."""
        self._last.labels(task).set(moment.timestamp())

    def count_template(self, action: str) -> None:
        """Count a template: `repaired`, `marked` or `unmarked` as unused, `deleted`, or `foreign`."""
        self._templates[action].inc()


Failure = Literal["cluster", "secret", "certificate", "other"]
"""The reason why a look failed: the API server, the Secret, a certificate that cannot be served, a defect."""

_FAILURES: tuple[Failure, ...] = ("cluster", "secret", "certificate", "other")


class CertificateMetrics:
    """Metrics of rotation; all label values are fixed by the program."""

    def __init__(self, registry: CollectorRegistry) -> None:
        new = MetricFactory(registry)
        self._leaf = new.gauge(
            "stored_certificate_expiry_timestamp_seconds", "When the serving certificate in the Secret expires."
        )
        self._authority = new.gauge("ca_expiry_timestamp_seconds", "When the authority that issued it expires.")
        self._looked = new.gauge(
            "certificate_last_look_timestamp_seconds",
            "When the Secret and the webhook configurations were last checked without a failure.",
        )
        steps = "Steps of rotation that this replica wrote; switched is a rotation's end."
        self._changes = new.counters("certificate_changes", steps, "change", (*CHANGES, "restored"))
        self._failures = new.counters("certificate_failures", "Checks that failed, by reason.", "reason", _FAILURES)

    def show(self, leaf: datetime, authority: datetime) -> None:
        """Export when the certificates in the Secret expire."""
        self._leaf.set(leaf.timestamp())
        self._authority.set(authority.timestamp())

    def show_look(self, moment: datetime) -> None:
        """Export the time of the last successful look."""
        self._looked.set(moment.timestamp())

    def count_change(self, kind: ChangeKind | Literal["restored"]) -> None:
        """Count a change that was written."""
        self._changes[kind].inc()

    def count_failure(self, reason: Failure) -> None:
        """Count a look that failed."""
        self._failures[reason].inc()


_Row = tuple[tuple[str, str, str], float]
"""The name of a limit, its unit, the kind of amount, and the amount."""


class QuotaMetrics(Collector):
    """Metrics of quotas, exported by the leader. Administrators name the limits: few label values."""

    def __init__(self, registry: CollectorRegistry) -> None:
        new = MetricFactory(registry)
        self._drift = new.counter("quota_drift", "Pods and claims that were found without a charge.")
        self._expired = new.counter(
            "quota_expired_charges", "Charges that were dropped because their object does not exist."
        )
        self._rows: dict[LedgerKey, tuple[_Row, ...]] = {}
        self._seconds: dict[LedgerKey, dict[GPUKind, Fraction]] = {}
        registry.register(self)

    def count_drift(self, objects: int) -> None:
        """Count pods and claims that were found without a charge."""
        self._drift.inc(objects)

    def count_expired(self, charges: int) -> None:
        """Count charges that were dropped."""
        self._expired.inc(charges)

    def count_gpu_seconds(self, key: LedgerKey, grown: GPUs) -> None:
        """Count GPU seconds that were written into the status of a quota."""
        sums = self._seconds.setdefault(key, {})
        for kind, seconds in grown.items():
            sums[kind] = sums.get(kind, ZERO) + seconds

    def show(self, key: LedgerKey, quota: Quota, ledger: Ledger) -> None:
        """Export the limits of a quota and their usage."""
        rows: list[_Row] = []
        for limit in quota.limits:
            used, reserved = ledger.used_amount(limit), ledger.requested_amounts.get(limit.name, ZERO)
            amounts = {"hard": limit.hard, "used": used, "reserved": reserved, "expected": limit.expected}
            # Amounts that are not counted yet are missing.
            known = {name: float(value) for name, value in amounts.items() if value is not None}
            rows += [((limit.name, limit.unit, name), value) for name, value in known.items()]
        self._rows[key] = tuple(rows)

    def forget(self, key: LedgerKey | None = None) -> None:
        """Drop the amounts of a quota, or of all."""
        if key is None:
            self._rows, self._seconds = {}, {}
        else:
            self._rows.pop(key, None)
            self._seconds.pop(key, None)

    def collect(self) -> Iterable[Metric]:
        """The current amounts, and the GPU seconds."""
        family = GaugeMetricFamily(
            "gpu_admission_quota",
            "Limits of GPUQuotas (hard) and their usage (used, reserved), in GPUs, bytes or devices.",
            None,
            ("namespace", "limit", "unit", "amount"),
        )
        groups = GaugeMetricFamily(
            "gpu_admission_quota_group",
            "Limits of GPUQuotaGroups (hard), the usage of their namespaces (used, reserved), what they are expected to use (expected), "
            "and what of that other groups use (lent), in GPUs, bytes or devices.",
            None,
            ("group", "limit", "unit", "amount"),
        )
        shown = self._rows.copy()
        for name, labels, value in _lent_amounts(shown):
            groups.add_metric((name, *labels), value)
        for key, rows in sorted(shown.items()):
            for labels, value in rows:
                if key.namespace:
                    family.add_metric((key.namespace, *labels), value)
                else:
                    groups.add_metric((key.name, *labels), value)
        hours = CounterMetricFamily(
            "gpu_admission_gpu_seconds",
            "GPU seconds that pods and claims of namespaces with a GPUQuota were counted for since this replica leads.",
            None,
            ("namespace", "product", "profile"),
        )
        of_groups = CounterMetricFamily(
            "gpu_admission_group_gpu_seconds",
            "The same by GPUQuotaGroup; of a namespace that has a GPUQuota as well, gpu_admission_gpu_seconds_total has them, too.",
            None,
            ("group", "namespace", "product", "profile"),
        )
        for key, sums in sorted((key, dict(sums)) for key, sums in self._seconds.copy().items()):
            for kind, seconds in sorted(sums.items()):
                if key.namespace:
                    hours.add_metric((key.namespace, kind.product, kind.profile), float(seconds))
                else:
                    of_groups.add_metric((key.name, *kind), float(seconds))
        return family, groups, hours, of_groups


def _lent_amounts(shown: Mapping[LedgerKey, tuple[_Row, ...]]) -> Iterator[tuple[str, tuple[str, str, str], float]]:
    """The amounts that groups lend to others of the ClusterGPUQuota whose name theirs begin with."""
    uses: dict[tuple[str, str, str], dict[str, tuple[Fraction, Fraction]]] = {}
    for key, rows in shown.items():
        amounts = dict(rows)
        for (limit, unit, amount), expected in rows:
            used = amounts.get((limit, unit, "used"))
            if amount == "expected" and used is not None:
                taken = Fraction(used + amounts[limit, unit, "reserved"])
                of_quota = uses.setdefault((key.name.partition(".")[0], limit, unit), {})
                of_quota[key.name] = Fraction(expected), taken
    for (_, limit, unit), of_quota in sorted(uses.items()):
        for name, loan in loans(of_quota).items():
            yield name, (limit, unit, "lent"), float(loan.lent)


WAITING_WRITES = ("condition_set", "condition_removed", "event_created", "event_renewed", "failed")
"""Writes to pods that wait for GPUs."""


class WaitingMetrics(Collector):
    """Metrics of pods that wait for GPUs; all label values are fixed by the program."""

    def __init__(self, registry: CollectorRegistry) -> None:
        new = MetricFactory(registry)
        written = "Writes to pods that wait for GPUs: their condition and events."
        self._writes = new.counters("waiting_writes", written, "write", WAITING_WRITES)
        self._shown: tuple[dict[WaitReason, int], int] | None = None
        registry.register(self)

    def count_write(self, write: str) -> None:
        """Count a write; `failed` if the API server refused it."""
        self._writes[write].inc()

    def show(self, reasons: Mapping[WaitReason, int], conditions: int) -> None:
        """Export the pods that wait by reason, and the number of pods with our condition."""
        self._shown = (dict(reasons), conditions)

    def forget(self) -> None:
        """Export no pods, because another replica leads now."""
        self._shown = None

    def collect(self) -> Iterable[Metric]:
        """The pods of the last round."""
        pods = GaugeMetricFamily(
            "gpu_admission_waiting_pods",
            "Pods that have waited for GPUs for more than 30 s, and pods that workloads lacked at the last audit, by reason.",
            None,
            ("reason",),
        )
        conditions = GaugeMetricFamily(
            "gpu_admission_waiting_conditions", "Pods with the condition gpu-admission.io/Schedulable."
        )
        if (shown := self._shown) is not None:
            for reason in WaitReason:
                pods.add_metric((str(reason),), shown[0].get(reason, 0))
            conditions.add_metric((), shown[1])
        return (pods, conditions)


_logger = logging.getLogger("gpu_admission.controllers")

_FIRST_RETRY = 1.0
_LONGEST_RETRY = 300.0


class IncompleteRound(Exception):  # noqa: N818 - the name is a statement
    """A round could not finish, and the rest is tried again; the text says what is left, and why."""


@dataclass(frozen=True, slots=True)
class PeriodicTask:
    """A task that is repeated."""

    name: str
    """For logs and metrics: `templates-repair`."""
    round: Callable[[], Awaitable[None]]
    """Does it once. Errors are counted, and logged if they are new; then the next round starts sooner."""
    every: float
    """Seconds from the end of a round to the start of the next."""
    limit: float = 600.0
    """Seconds after which a round is cancelled and counts as failed."""


async def run_tasks(
    tasks: Sequence[PeriodicTask],
    metrics: ControllerMetrics,
    *,
    clockwork: Clockwork = Clockwork(),  # noqa: B008 - it is immutable
) -> None:
    """Run all tasks until cancelled; the first round of each starts at once.

    Args:
        tasks: The tasks, with unique names.
        metrics: Counts rounds by task.
        clockwork: Time and randomness.
    """
    async with asyncio.TaskGroup() as group:
        for task in tasks:
            group.create_task(_repeat(task, metrics, clockwork), name=task.name)


async def _repeat(task: PeriodicTask, metrics: ControllerMetrics, clockwork: Clockwork) -> None:
    failures, trouble = 0, ""
    while True:
        trouble = await _round(task, trouble, metrics, clockwork)
        failures = failures + 1 if trouble else 0
        # After a failure the next round starts sooner, so that a short outage does not cost a whole period.
        retry = min(_FIRST_RETRY * 2 ** min(failures - 1, 32), _LONGEST_RETRY) if failures else task.every
        await clockwork.sleep(clockwork.with_jitter(min(retry, task.every)))


async def _round(task: PeriodicTask, before: str, metrics: ControllerMetrics, clockwork: Clockwork) -> str:
    """Do a task once; returns the error or an empty text. The same error as `before` is not logged."""
    began = clockwork.clock()
    try:
        async with asyncio.timeout(task.limit) as limit:
            await task.round()
    except Exception as error:
        trouble = f"was cut off after {task.limit:g} seconds" if limit.expired() else f"failed: {error}"
        # Only defects are logged with a traceback.
        trace = None if limit.expired() or isinstance(error, ClusterError | IncompleteRound) else error
        _logger.log(logging.DEBUG if trouble == before else logging.ERROR, "%s %s", task.name, trouble, exc_info=trace)
        metrics.count_round(task.name, "failed", clockwork.clock() - began)
        return trouble
    metrics.count_round(task.name, "done", clockwork.clock() - began)
    metrics.set_last(task.name, clockwork.now())
    return ""
