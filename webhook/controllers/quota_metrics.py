"""Metrics of quotas: what they allow and what is taken of them, and what the leader found wrong.

The amounts are shown by the replica that leads, as long as it does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from prometheus_client import Counter
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from policies.quota.ledger.sums import ZERO

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from prometheus_client import CollectorRegistry
    from prometheus_client.core import Metric

    from policies.quota.ledger.ledger import Ledger
    from policies.quota.limits.quota import Quota

__all__ = ["QuotaMetrics"]

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
