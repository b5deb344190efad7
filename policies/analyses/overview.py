"""Overviews: waiting pods, GPUs, quotas and findings of a cluster, as data that pages render.

`overview` combines the wait list, the usage report, the quota reports and the audit; it decides nothing itself.
`visible_overview` returns the part that an audience may see.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING, TypeAlias

from policies.analyses.explain import name_redactor
from policies.analyses.usage import usage_report
from policies.analyses.usage.cells import node_cells
from policies.analyses.usage.node_gpus import UnusableKind
from policies.analyses.wait_list import WaitList, wait_list
from policies.devices.resource_claims import Holder
from policies.kubernetes.nodes import is_cordoned, is_ready, labels_of, preventing_taints
from policies.kubernetes.objects import name_of
from policies.kubernetes.view import Unknown
from policies.nvidia.identifiers import CLIQUE_LABEL, MIG_STATE_LABEL, VENDOR_PREFIX
from policies.outcome import EVERYTHING
from policies.quota.quota_report import quota_reports

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from datetime import datetime
    from fractions import Fraction

    from policies.analyses.audit import AuditReport, ConversionObstacle, ConversionReadiness
    from policies.analyses.usage import UsageReport
    from policies.analyses.usage.cells import GPUCell
    from policies.analyses.usage.node_gpus import NodeGPUs, UnusableReason
    from policies.kubernetes.objects import Object
    from policies.kubernetes.view import ClusterView
    from policies.outcome import Audience
    from policies.quota.quota_report import LimitUse, QuotaReport
    from policies.rules.settings import GPUAdmissionPolicy


class NodeState(StrEnum):
    """A state of a node that keeps pods from some of its GPUs; the text is that of a badge."""

    NOT_READY = "NotReady"
    MISSING = "no such node"
    OVER = "given out twice"
    UNHEALTHY = "unhealthy GPU"
    DEVICE_TAINTED = "tainted GPU"
    MIG_FAILED = "MIG config failed"
    NOT_OFFERED = "GPUs not offered"
    POOL = "incomplete pool"
    CORDONED = "cordoned"
    TAINTED = "tainted"

    @property
    def needs_attention(self) -> bool:
        """False for a taint of the node, by which administrators reserve it for some pods."""
        return self is not NodeState.TAINTED


_STATES_BY_REASON = {
    UnusableKind.NODE_MISSING: NodeState.MISSING,
    UnusableKind.UNHEALTHY: NodeState.UNHEALTHY,
    UnusableKind.DEVICE_TAINTED: NodeState.DEVICE_TAINTED,
    UnusableKind.NOT_ADVERTISED: NodeState.NOT_OFFERED,
    UnusableKind.POOL: NodeState.POOL,
}
"""The states that the devices of a node tell; the others are in its object."""


@dataclass(frozen=True, slots=True)
class NodeOverview:
    """A node and its GPUs."""

    name: str
    """Empty for devices that several nodes reach."""
    gpus: tuple[NodeGPUs, ...]
    """By kind."""
    cells: tuple[GPUCell, ...]
    """One for each GPU; none for kinds with too many devices to draw."""
    states: tuple[NodeState, ...] = ()
    """In their order; empty if nothing is wrong, as far as is known."""
    clique: str = ""
    """The NVLink clique of its GPUs; empty if it has none."""

    @classmethod
    def of(cls, name: str, gpus: tuple[NodeGPUs, ...], node: Object | None) -> NodeOverview:
        """The overview of a node; `node` is its object, None if it is unknown."""
        cells = node_cells(gpus)
        found = {_STATES_BY_REASON.get(reason.kind) for each in gpus for reason in each.reasons}
        if any(each.unhealthy for each in gpus):
            found.add(NodeState.UNHEALTHY)
        if any(cell.is_over for cell in cells) or any(each.is_over for each in gpus):
            found.add(NodeState.OVER)
        if node is not None:
            found |= _states_of_object(node)
        states = tuple(state for state in NodeState if state in found)
        return cls(name, gpus, cells, states, labels_of(node or {}).get(CLIQUE_LABEL, ""))

    @property
    def needs_attention(self) -> bool:
        """True if something is wrong with the node or its GPUs."""
        return any(state.needs_attention for state in self.states)

    @property
    def products(self) -> str:
        """The products of its GPUs, as a heading."""
        return " and ".join(sorted({each.kind.product or "unknown product" for each in self.gpus}))

    @property
    def remarks(self) -> tuple[str, ...]:
        """The reasons why pods cannot get free devices, each once; without full stops."""
        return tuple(dict.fromkeys(reason.sentence for each in self.gpus for reason in each.reasons))


def _states_of_object(node: Object) -> set[NodeState]:
    states = set()
    if not is_ready(node):
        states.add(NodeState.NOT_READY)
    if is_cordoned(node):
        states.add(NodeState.CORDONED)
    if any(not taint.condition and not taint.key.startswith(VENDOR_PREFIX) for taint in preventing_taints(node)):
        states.add(NodeState.TAINTED)
    if labels_of(node).get(MIG_STATE_LABEL) == "failed":
        states.add(NodeState.MIG_FAILED)
    return states


@dataclass(frozen=True, slots=True)
class QuotaOverview:
    """The quota of a namespace or of a group, and how its use differs from an earlier cluster."""

    report: QuotaReport
    before: Mapping[str, LimitUse] | None = None
    """The limits of the earlier cluster by name; None if there is nothing to compare with."""

    def change(self, limit: LimitUse) -> Fraction | None:
        """The growth of what is used and reserved; None if unknown, or if the units differ."""
        earlier = None if self.before is None else self.before.get(limit.limit.name)
        if earlier is None or earlier.used is None or limit.used is None or earlier.limit.unit != limit.limit.unit:
            return None
        return limit.taken - earlier.taken


@dataclass(frozen=True, slots=True)
class Overview:
    """Waiting pods, GPUs, quotas, migration and findings of a cluster."""

    usage: UsageReport
    nodes: tuple[NodeOverview, ...]
    quotas: tuple[QuotaOverview, ...] | None
    """Sorted by namespace, those of groups last; None if GPUQuotas cannot be read."""
    audit: AuditReport | None
    """None if the cluster was not audited."""
    waiting: WaitList = field(default_factory=WaitList)
    """The pods and workloads that wait for GPUs."""
    namespace: str = ""
    """The only namespace whose objects are named; empty for all."""
    hidden_nodes: int = 0
    """The number of nodes that are not named."""


def overview(
    view: ClusterView,
    settings: GPUAdmissionPolicy,
    now: datetime,
    audit: AuditReport | None = None,
    before: ClusterView | None = None,
    audience: Audience = EVERYTHING,
    has_time: Callable[[], bool] = lambda: True,
) -> Overview:
    """The overview of a cluster; `visible_overview` returns the part that the audience may see.

    Args:
        view: The cluster.
        settings: How quotas count, and which namespaces are exempt.
        now: The time from which ages are computed.
        audit: The report of an audit of the same cluster.
        before: The same cluster earlier, to compare quotas with.
        audience: Who reads the reasons why pods wait; those of other namespaces than its own are not computed.
        has_time: Returns False when no further pod that waits shall be explained.
    """
    usage = usage_report(view, settings=settings.quota)
    objects = {name_of(node): node for node in view.known_objects("Node")}
    nodes = tuple(NodeOverview.of(name, gpus, objects.get(name)) for name, gpus in usage.nodes)
    reports = quota_reports(view, settings, now)
    quotas = None if isinstance(reports, Unknown) else _quota_overviews(reports, before, settings, now)
    unwatched = () if audit is None else audit.short_workloads
    waiting = wait_list(view, settings, now, audience, has_time=has_time, more_workloads=unwatched)
    return Overview(usage, nodes, quotas, audit, waiting)


def _quota_overviews(
    reports: Iterable[QuotaReport], before: ClusterView | None, settings: GPUAdmissionPolicy, now: datetime
) -> tuple[QuotaOverview, ...]:
    if before is None:
        return tuple(map(QuotaOverview, reports))
    earlier = quota_reports(before, settings, now)
    known = () if isinstance(earlier, Unknown) else earlier
    limits = {each.label: {limit.limit.name: limit for limit in each.limits} for each in known}
    return tuple(QuotaOverview(each, limits.get(each.label, {})) for each in reports)


HIDDEN = Holder("", ())
"""Stands for the holders of other namespaces."""
_Redact: TypeAlias = "Callable[[str], str]"
_NAMELESS_REASON = "no pod can get it now"
_NAMELESS_PROBLEM = "it is reported as unhealthy"


def visible_overview(overview: Overview, view: ClusterView, audience: Audience) -> Overview:
    """The overview of a cluster for an audience.

    An audience of one namespace sees its quota and its group's amounts, workloads, findings and holders; other holders are `HIDDEN`. It never sees
    findings about cluster-wide objects. Without the right to see nodes, it sees only totals of products. Sentences of
    findings, quotas and errors can contain any name, so names are replaced in them.
    """
    namespace = audience.namespace
    if not namespace:
        return overview
    redact = name_redactor(view, audience)
    nodes = [_visible_node(node, namespace, redact) for node in overview.nodes] if audience.sees_nodes else []
    gpus = [_visible_gpus(each, namespace, redact) for each in overview.usage.gpus]
    usage = replace(
        overview.usage,
        gpus=tuple(gpus if audience.sees_nodes else [_without_node(each) for each in gpus]),
        namespace=namespace,
        # Problems name nodes and what others hold.
        problems=(),
    )
    quotas = overview.quotas
    return replace(
        overview,
        usage=usage,
        nodes=tuple(nodes),
        quotas=None
        if quotas is None
        else tuple(_visible_quota(each, namespace, redact) for each in quotas if namespace in each.report.namespaces),
        audit=overview.audit and _visible_audit(overview.audit, namespace, redact),
        waiting=_visible_wait_list(overview.waiting, namespace, redact),
        namespace=namespace,
        hidden_nodes=0 if audience.sees_nodes else len(overview.nodes),
    )


def _visible_node(node: NodeOverview, namespace: str, redact: _Redact) -> NodeOverview:
    gpus = tuple(_visible_gpus(each, namespace, redact) for each in node.gpus)
    return replace(node, gpus=gpus, cells=tuple(_visible_cell(cell, namespace, redact) for cell in node.cells))


def _visible_cell(cell: GPUCell, namespace: str, redact: _Redact) -> GPUCell:
    parts = tuple(
        part._replace(
            holder=part.holder and _visible_holder(part.holder, namespace),
            reason=part.reason and _visible_reason(part.reason, redact),
            problem=redact(part.problem),
        )
        for part in cell.parts
    )
    return replace(cell, parts=parts)


def _visible_gpus(gpus: NodeGPUs, namespace: str, redact: _Redact) -> NodeGPUs:
    holdings = tuple(
        replace(each, holder=_visible_holder(each.holder, namespace), problem=redact(each.problem))
        for each in gpus.holdings
    )
    reasons = tuple(_visible_reason(each, redact) for each in gpus.reasons)
    return replace(gpus, holdings=holdings, reasons=reasons, units=())


def _visible_reason(reason: UnusableReason, redact: _Redact) -> UnusableReason:
    return reason._replace(sentence=redact(reason.sentence))


def _without_node(gpus: NodeGPUs) -> NodeGPUs:
    """The devices of a node that must not be named; names of devices and reasons can contain its name."""
    holdings = tuple(
        replace(each, node="", devices=(), problem=_NAMELESS_PROBLEM if each.problem else "") for each in gpus.holdings
    )
    reasons = tuple(each._replace(sentence=_NAMELESS_REASON) for each in gpus.reasons)
    return replace(gpus, node="", holdings=holdings, reasons=reasons)


def _visible_holder(holder: Holder, namespace: str) -> Holder:
    return holder if holder.namespace == namespace else HIDDEN


def _visible_wait_list(waiting: WaitList, namespace: str, redact: _Redact) -> WaitList:
    rows = (row for row in waiting.rows if row.namespace == namespace)
    return replace(waiting, rows=tuple(replace(row, why=redact(row.why), remedy=redact(row.remedy)) for row in rows))


def _visible_quota(quota: QuotaOverview, namespace: str, redact: _Redact) -> QuotaOverview:
    """The quota with its amounts; of a group without its other namespaces and what they hold."""
    report, is_group = quota.report, quota.report.group is not None
    own = [each for each in report.holders or () if each.name.startswith(f"{namespace}/")]
    return replace(
        quota,
        report=replace(
            report,
            namespaces=(namespace,),
            holders=None if report.holders is None else tuple(own),
            reservations=() if is_group else report.reservations,
            conditions=() if is_group else report.conditions,
            remarks=tuple(map(redact, report.remarks)),
        ),
    )


def _visible_audit(report: AuditReport, namespace: str, redact: _Redact) -> AuditReport:
    """The findings and the readiness of one namespace."""
    findings = tuple(
        replace(
            each,
            message=redact(each.message),
            remedy=redact(each.remedy),
            administrator=redact(each.administrator),
            owners=tuple(map(redact, each.owners)),
        )
        for each in report.findings
        if each.namespace == namespace
    )
    counts = {(each.rule, each.severity): 0 for each in findings}
    waived = dict(counts)
    for each in findings:
        counts[each.rule, each.severity] += each.count
        waived[each.rule, each.severity] += each.count if each.waived else 0
    return replace(
        report,
        findings=findings,
        found=counts,
        waived=waived,
        readiness=tuple(_visible_readiness(each, redact) for each in report.readiness if each.namespace == namespace),
        gaps=tuple(replace(gap, reason=redact(gap.reason)) for gap in report.gaps),
    )


def _visible_readiness(readiness: ConversionReadiness, redact: _Redact) -> ConversionReadiness:
    preemption = readiness.preemption
    return replace(
        readiness,
        obstacles=tuple(_visible_obstacle(each, redact) for each in readiness.obstacles),
        preemption=None if preemption is None else _visible_obstacle(preemption, redact),
    )


def _visible_obstacle(obstacle: ConversionObstacle, redact: _Redact) -> ConversionObstacle:
    return replace(obstacle, message=redact(obstacle.message), remedy=redact(obstacle.remedy))
