"""The devices of the cluster by node, product and state, which the leader counts and exports."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector
from prometheus_client.samples import Sample

from policies.usage import device_states, usage_report
from webhook.cluster.garbage_collection import CollectionPause
from webhook.server.pacing import run_spread

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from policies.usage import DeviceStates
    from policies.view import ClusterView

__all__ = ["MOST_ROWS", "DeviceRound"]

MOST_ROWS = 10_000
"""The limit for nodes times kinds of devices, each with up to four series; beyond it, devices are summed over all nodes."""
_SECONDS = 300.0
"""The limit for one count, which takes seconds in a cluster of 5,000 nodes."""
_NAME = "gpu_admission_devices"
_LABELS = ("node", "product", "profile", "replicas", "state")


class DeviceRound(Collector):
    """Counts the devices, and exports the last counts.

    There are none before the first round, and none after the lead is lost.
    """

    def __init__(self, view: ClusterView, *, most_rows: int = MOST_ROWS) -> None:
        """Count the devices of a view. More than `most_rows` nodes times kinds are summed over all nodes."""
        self._view = view
        self._most_rows = most_rows
        self._last: _Counted | None = None

    def collect(self) -> Iterable[Metric]:
        """The last counts."""
        devices = Metric(
            _NAME,
            "Devices by node, kind and state: held, free, unusable, over (held beyond those that exist) or missing (held, but not "
            "shown by their node); unknown amounts are missing.",
            "gauge",
        )
        summed = GaugeMetricFamily(
            f"{_NAME}_summed_nodes",
            "Nodes whose devices are exported as sums over all nodes, because they are too many; 0 if each has its own.",
        )
        if self._last is not None:
            devices.samples = self._last.series
            summed.add_metric((), self._last.summed_nodes)
        return devices, summed

    async def round(self) -> None:
        """Count the devices once, in a thread."""
        self._last = await run_spread(self._count, _SECONDS)

    def forget(self) -> None:
        """Drop the last counts, because another replica leads now."""
        self._last = None

    def _count(self) -> _Counted:
        # The report on a large cluster has hundreds of thousands of Python objects.
        with CollectionPause():
            return _counted_devices(device_states(usage_report(self._view), self._most_rows))


class _Counted(NamedTuple):
    series: _Series
    summed_nodes: int


class _Series(list[Any]):
    """The labels and the value of each series, all in one list.

    They become samples one by one when they are encoded. Stored samples would take ten times the memory, and garbage
    collections would traverse them.
    """

    def __iter__(self) -> Iterator[Sample]:
        fields = super().__iter__()
        for *labels, value in zip(*[fields] * (len(_LABELS) + 1), strict=True):
            yield Sample(_NAME, dict(zip(_LABELS, labels, strict=True)), value)


def _counted_devices(counts: DeviceStates) -> _Counted:
    series = _Series()
    for row in counts.rows:
        kind = row.kind.product, row.kind.profile, str(row.kind.replicas)
        for state, amount in row.amounts.items():
            series.extend((row.node, *kind, state.value, float(amount)))
    return _Counted(series, counts.summed_nodes)
