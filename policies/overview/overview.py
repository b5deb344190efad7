"""The overview of a cluster: GPUs by node, quotas with what changed, migration, findings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from policies.quota.report.reporting import quota_reports
from policies.usage import usage_report
from policies.usage.node_cells import node_cells
from policies.view import Unknown

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from datetime import datetime
    from fractions import Fraction

    from policies.audit import AuditReport
    from policies.quota.report.report import LimitUse, QuotaReport
    from policies.settings import GPUAdmissionPolicy
    from policies.usage import UsageReport
    from policies.usage.gpu_cells import GPUCell
    from policies.usage.node_gpus import NodeGPUs
    from policies.view import ClusterView

__all__ = ["NodeOverview", "Overview", "QuotaOverview", "overview"]


@dataclass(frozen=True, slots=True)
class NodeOverview:
    """A node and its GPUs."""

    name: str
    """Empty for devices that several nodes reach."""
    gpus: tuple[NodeGPUs, ...]
    """By kind."""
    cells: tuple[GPUCell, ...]
    """One for each GPU; none for kinds with too many devices to draw."""

    @property
    def products(self) -> str:
        """The products of its GPUs, as a heading."""
        return " and ".join(sorted({each.kind.product or "unknown product" for each in self.gpus}))

    @property
    def remarks(self) -> tuple[str, ...]:
        """Why pods cannot get what is free, each reason once; without full stops."""
        return tuple(dict.fromkeys(reason.sentence for each in self.gpus for reason in each.reasons))


@dataclass(frozen=True, slots=True)
class QuotaOverview:
    """The quota of a namespace, and how its use differs from an earlier cluster."""

    report: QuotaReport
    before: Mapping[str, LimitUse] | None = None
    """The limits of the earlier cluster by name; None if there is nothing to compare with."""

    def change(self, limit: LimitUse) -> Fraction | None:
        """How much more is used and reserved than before; None if unknown, or if the units differ."""
        earlier = None if self.before is None else self.before.get(limit.limit.name)
        if earlier is None or earlier.used is None or limit.used is None or earlier.limit.unit != limit.limit.unit:
            return None
        return limit.taken - earlier.taken


@dataclass(frozen=True, slots=True)
class Overview:
    """GPUs, quotas, migration and findings of a cluster."""

    usage: UsageReport
    nodes: tuple[NodeOverview, ...]
    quotas: tuple[QuotaOverview, ...] | None
    """Sorted by namespace; None if GPUQuotas cannot be read."""
    audit: AuditReport | None
    """None if the cluster was not audited."""
    namespace: str = ""
    """The only namespace whose objects are named; empty for all."""
    hidden_nodes: int = 0
    """The number of nodes that are not named."""
    nodes_left_out: int = 0
    """The number of nodes that a page has no room for."""


def overview(
    view: ClusterView,
    settings: GPUAdmissionPolicy,
    now: datetime,
    audit: AuditReport | None = None,
    before: ClusterView | None = None,
) -> Overview:
    """The overview of a cluster.

    Args:
        view: The cluster.
        settings: How quotas count, and which namespaces are exempt.
        now: The time from which ages are computed.
        audit: The report of an audit of the same cluster.
        before: The same cluster earlier, to compare quotas with.
    """
    usage = usage_report(view)
    nodes = tuple(NodeOverview(name, gpus, node_cells(gpus)) for name, gpus in usage.nodes)
    reports = quota_reports(view, settings, now)
    quotas = None if isinstance(reports, Unknown) else _quota_overviews(reports, before, settings, now)
    return Overview(usage, nodes, quotas, audit)


def _quota_overviews(
    reports: Iterable[QuotaReport], before: ClusterView | None, settings: GPUAdmissionPolicy, now: datetime
) -> tuple[QuotaOverview, ...]:
    if before is None:
        return tuple(map(QuotaOverview, reports))
    earlier = quota_reports(before, settings, now)
    known = () if isinstance(earlier, Unknown) else earlier
    limits = {each.namespace: {limit.limit.name: limit for limit in each.limits} for each in known}
    return tuple(QuotaOverview(each, limits.get(each.namespace, {})) for each in reports)
