"""Metrics of the controllers: rounds, templates, certificates and quotas."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from prometheus_client import Counter, Gauge, Histogram
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from certs.rotation import CHANGES
from policies.quota.ledger.sums import ZERO

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from datetime import datetime

    from prometheus_client import CollectorRegistry
    from prometheus_client.core import Metric

    from certs.rotation import ChangeKind
    from policies.quota.ledger.ledger import Ledger
    from policies.quota.limits.quota import Quota

__all__ = ["CertificateMetrics", "ControllerMetrics", "Failure", "QuotaMetrics"]

_BUCKETS = (0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 30.0, 60.0, 300.0, 600.0)


class ControllerMetrics:
    """What controllers do. Labels take only values that the program itself chooses."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._leader = Gauge("gpu_admission_leader", "1 where this replica leads.", registry=registry)
        self._rounds = Counter(
            "gpu_admission_controller_rounds_total",
            "Rounds of the leader's tasks, by how they ended.",
            ["task", "outcome"],
            registry=registry,
        )
        self._duration = Histogram(
            "gpu_admission_controller_round_duration_seconds",
            "How long rounds of the leader's tasks took.",
            ["task"],
            buckets=_BUCKETS,
            registry=registry,
        )
        self._last = Gauge(
            "gpu_admission_controller_last_round_timestamp_seconds",
            "When a round of the leader's tasks was last done.",
            ["task"],
            registry=registry,
        )
        templates = Counter(
            "gpu_admission_template_upkeep_total",
            "ResourceClaimTemplates that the leader touched, by what was done.",
            ["action"],
            registry=registry,
        )
        self._templates = {
            action: templates.labels(action) for action in ("repaired", "marked", "unmarked", "deleted", "foreign")
        }

    def watch_leader(self, leading: Callable[[], bool]) -> None:
        """Show whether this replica leads, asked for at every scrape."""
        self._leader.set_function(leading)

    def count_round(self, task: str, outcome: str, seconds: float) -> None:
        """Count a round of a task: `done` or `failed`."""
        self._rounds.labels(task, outcome).inc()
        self._duration.labels(task).observe(seconds)

    def set_last(self, task: str, moment: datetime) -> None:
        """Note when a task was last done."""
        self._last.labels(task).set(moment.timestamp())

    def count_template(self, action: str) -> None:
        """Count a template that was `repaired`, `marked` or `unmarked` as unused, `deleted`, or found `foreign`."""
        self._templates[action].inc()


Failure = Literal["cluster", "secret", "certificate", "other"]
"""Why a look failed: the API server, the Secret, a certificate that cannot be served, a mistake of ours."""

_FAILURES: tuple[Failure, ...] = ("cluster", "secret", "certificate", "other")


class CertificateMetrics:
    """What became of certificates. Labels take only values that the program itself chooses."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._leaf = Gauge(
            "gpu_admission_stored_certificate_expiry_timestamp_seconds",
            "When the serving certificate in the Secret expires.",
            registry=registry,
        )
        self._authority = Gauge(
            "gpu_admission_ca_expiry_timestamp_seconds",
            "When the authority that issued it expires.",
            registry=registry,
        )
        self._looked = Gauge(
            "gpu_admission_certificate_last_look_timestamp_seconds",
            "When the Secret and the webhook configurations were last looked at without a failure.",
            registry=registry,
        )
        changes = Counter(
            "gpu_admission_certificate_changes_total",
            "Steps of rotation that this replica wrote; switched is a rotation's end.",
            ["change"],
            registry=registry,
        )
        failures = Counter(
            "gpu_admission_certificate_failures_total",
            "Looks that failed, by what they failed at.",
            ["reason"],
            registry=registry,
        )
        self._changes = {kind: changes.labels(kind) for kind in (*CHANGES, "restored")}
        self._failures = {reason: failures.labels(reason) for reason in _FAILURES}

    def show(self, leaf: datetime, authority: datetime) -> None:
        """Show when the certificates in the Secret expire."""
        self._leaf.set(leaf.timestamp())
        self._authority.set(authority.timestamp())

    def show_look(self, moment: datetime) -> None:
        """Show when everything was last looked at."""
        self._looked.set(moment.timestamp())

    def count_change(self, kind: ChangeKind | Literal["restored"]) -> None:
        """Count a change that was written."""
        self._changes[kind].inc()

    def count_failure(self, reason: Failure) -> None:
        """Count a look that failed."""
        self._failures[reason].inc()


_Row = tuple[tuple[str, str, str], float]
"""The name of a limit, its unit, which amount, and how much."""


class QuotaMetrics:
    """What the leader counts of quotas. Limits and namespaces are named by administrators, and there are not many."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._drift = Counter(
            "gpu_admission_quota_drift_total",
            "Pods and claims that were found without having been charged.",
            registry=registry,
        )
        self._expired = Counter(
            "gpu_admission_quota_expired_charges_total",
            "Charges that were given up because what they were for does not exist.",
            registry=registry,
        )
        self._amounts = _Amounts()
        registry.register(self._amounts)

    def count_drift(self, objects: int) -> None:
        """Count pods and claims that were found without having been charged."""
        self._drift.inc(objects)

    def count_expired(self, charges: int) -> None:
        """Count charges that were given up."""
        self._expired.inc(charges)

    def show(self, namespace: str, quota: Quota, ledger: Ledger) -> None:
        """Show what a namespace's limits are and what is taken of them."""
        self._amounts.rows[namespace] = tuple(_rows(quota, ledger))

    def forget(self, namespace: str | None = None) -> None:
        """Show nothing of a namespace any more, or of any."""
        if namespace is None:
            self._amounts.rows = {}
        else:
            self._amounts.rows.pop(namespace, None)


class _Amounts(Collector):
    def __init__(self) -> None:
        self.rows: dict[str, tuple[_Row, ...]] = {}

    def collect(self) -> Iterable[Metric]:
        """The amounts as they were shown last."""
        family = GaugeMetricFamily(
            "gpu_admission_quota",
            "What the limits of GPUQuotas allow (hard) and what is taken of them (used, reserved): GPUs, bytes, devices.",
            None,
            ("namespace", "limit", "unit", "amount"),
        )
        for namespace, rows in sorted(self.rows.copy().items()):
            for labels, value in rows:
                family.add_metric((namespace, *labels), value)
        return (family,)


def _rows(quota: Quota, ledger: Ledger) -> Iterator[_Row]:
    """What is not counted yet is left out."""
    for limit in quota.limits:
        used, reserved = ledger.used(limit), ledger.reservations.total.get(limit.name, ZERO)
        for amount, value in (("hard", limit.hard), ("used", used), ("reserved", reserved)):
            if value is not None:
                yield (limit.name, limit.unit, amount), float(value)
