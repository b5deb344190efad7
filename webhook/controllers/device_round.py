"""The devices of the cluster by node, product and state, which the leader counts and exports."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from policies.usage import device_counts, usage_report
from webhook.server.pacing import run_spread

if TYPE_CHECKING:
    from collections.abc import Iterable

    from prometheus_client.core import Metric

    from policies.usage import DeviceCounts
    from policies.view import ClusterView

__all__ = ["MOST_ROWS", "DeviceRound"]

MOST_ROWS = 10_000
"""Nodes times kinds of devices that are exported one by one, each with up to four series; more are summed over all nodes."""
_SECONDS = 300.0
"""The limit for one count, which takes seconds in a cluster of 5,000 nodes."""


class DeviceRound(Collector):
    """Counts the devices, and exports the last counts.

    There are none before the first round, and none after the lead is lost.
    """

    def __init__(self, view: ClusterView, *, most_rows: int = MOST_ROWS) -> None:
        """Count the devices of a view. More than `most_rows` nodes times kinds are summed over all nodes."""
        self._view = view
        self._most_rows = most_rows
        self._families = families(None)

    def collect(self) -> Iterable[Metric]:
        """The last counts."""
        return self._families

    async def round(self) -> None:
        """Count the devices once, in a thread."""
        self._families = await run_spread(self._count, _SECONDS)

    def forget(self) -> None:
        """Drop the last counts, because another replica leads now."""
        self._families = families(None)

    def _count(self) -> tuple[Metric, ...]:
        return families(device_counts(usage_report(self._view), self._most_rows))


def families(counts: DeviceCounts | None) -> tuple[Metric, ...]:
    """The metrics for some counts; None if there are no counts."""
    devices = GaugeMetricFamily(
        "gpu_admission_devices",
        "Devices by node, kind and state: held, free, unusable, over (held beyond those that exist) or missing (held, but not "
        "shown by their node); unknown amounts are missing.",
        None,
        ("node", "product", "profile", "replicas", "state"),
    )
    summed = GaugeMetricFamily(
        "gpu_admission_devices_summed_nodes",
        "Nodes whose devices are exported as sums over all nodes, because they are too many; 0 if each has its own.",
    )
    for row in () if counts is None else counts.rows:
        kind = (row.kind.product, row.kind.profile, str(row.kind.replicas))
        for state, amount in row.amounts.items():
            devices.add_metric((row.node, *kind, state.value), float(amount))
    if counts is not None:
        summed.add_metric((), counts.summed_nodes)
    return devices, summed
