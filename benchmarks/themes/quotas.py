"""GPUQuota beside ResourceQuota and beside no quota, measured by `benchmarks/quota.py`."""

from __future__ import annotations

import os
import statistics
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from benchmarks.figures import Figure, Theme, figure_of_rounds
from benchmarks.quota import cases_of
from benchmarks.quota import measure as measure_cases
from testbed.background import Background
from testbed.replicated_clusters import replicated_cluster

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from benchmarks.figures import Column
    from benchmarks.quota import Round

THEME = Theme(
    title="Quotas",
    text="""32 clients create pods with one GPU each through three replicas, in one namespace or spread over 100, each with a
quota that all of them fit into; then one client alone creates some. One run compares GPUQuota, ResourceQuota and none.
ResourceQuota needs a real API server; with the sandbox only the comparison with no quota is made. *Server CPU* is that of the API server. `ledger writes` are those of the
status of GPUQuotas.""",
    charts=("pods/s",),
)


class _Measure(NamedTuple):
    """One number of a round, with aim and limit beside ResourceQuota and beside no quota."""

    name: str
    field: str
    unit: str
    thresholds: Mapping[str, tuple[float, float]]


_MEASURES = (
    _Measure("GPUQuota", "interval", "ms for a pod", {"ResourceQuota": (1.1, 2.5), "no quota": (2.0, 5.0)}),
    _Measure("GPUQuota, slowest", "most", "ms (p99)", {"ResourceQuota": (1.5, 5.0)}),
    _Measure("GPUQuota, one client", "alone", "ms (p50)", {"ResourceQuota": (1.3, 4.0)}),
    _Measure("GPUQuota, server CPU", "server", "ms for a pod", {"ResourceQuota": (1.3, 2.5)}),
)


def measure() -> list[Figure]:
    """Figures for one namespace and for many, beside each control that the API server has."""
    is_real = any(os.environ.get(name) for name in ("KUBECONFIG", "KUBEBUILDER_ASSETS"))
    background = Background()
    with tempfile.TemporaryDirectory() as folder:
        cluster = replicated_cluster(background, Path(folder), is_real=is_real)
        try:
            cluster.begin()
            rounds = background.run(measure_cases(cluster, cases_of(cluster)), 3600)
            cluster.tidy()
        finally:
            cluster.close()
            background.close()
    return _figures(rounds)


def _figures(rounds: Mapping[str, Sequence[Round]]) -> list[Figure]:
    return [
        figure_of_rounds(
            measure.name,
            [
                (getattr(one, measure.field), getattr(other, measure.field))
                for one, other in zip(ours, controls, strict=True)
            ],
            group=group,
            unit=measure.unit,
            beside=beside,
            aim=aim,
            limit=limit,
            more=_more(ours, controls) if measure.field == "interval" else {},
        )
        for measure in _MEASURES
        for beside, (aim, limit) in measure.thresholds.items()
        for case, ours in rounds.items()
        for name, _, group in [case.partition(", ")]
        if name == "GPUQuota"
        and (controls := rounds.get(f"{beside}, {group}"))
        and all(getattr(each, measure.field) for each in controls)
    ]


def _more(ours: Sequence[Round], controls: Sequence[Round]) -> dict[str, Column]:
    def column(field: str) -> Column:
        one, other = (statistics.median(getattr(each, field) for each in side) for side in (ours, controls))
        return one, other

    return {
        "pods/s": column("rate"),
        "p50 in ms": column("median"),
        "p99 in ms": column("most"),
        "ledger writes per pod": (column("writes")[0], None),
    }
