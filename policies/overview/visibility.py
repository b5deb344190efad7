"""The part of an overview that an audience may see: its namespace by name, others as numbers."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, TypeAlias

from policies.dra.holders import Holder
from policies.explanation import name_redactor

if TYPE_CHECKING:
    from collections.abc import Callable

    from policies.audit import AuditReport, ConversionObstacle, ConversionReadiness
    from policies.outcome import Audience
    from policies.overview.overview import NodeOverview, Overview, QuotaOverview
    from policies.usage.gpu_cells import GPUCell
    from policies.usage.node_gpus import HeldDevices, NodeGPUs, UnusableReason
    from policies.view import ClusterView

__all__ = ["HIDDEN", "visible_overview"]

HIDDEN = Holder("", ())
"""Stands for the holders of other namespaces."""
_Redact: TypeAlias = "Callable[[str], str]"
_NAMELESS_REASON = "no pod can get it now"


def visible_overview(overview: Overview, view: ClusterView, audience: Audience) -> Overview:
    """The overview of a cluster for an audience.

    An audience of one namespace sees its quota, workloads, findings and holders; other holders are `HIDDEN`. It never sees
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
        else tuple(_visible_quota(each, redact) for each in quotas if each.report.namespace == namespace),
        audit=overview.audit and _visible_audit(overview.audit, namespace, redact),
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
        )
        for part in cell.parts
    )
    return replace(cell, parts=parts)


def _visible_gpus(gpus: NodeGPUs, namespace: str, redact: _Redact) -> NodeGPUs:
    holdings = tuple(_visible_holding(each, namespace) for each in gpus.holdings)
    reasons = tuple(_visible_reason(each, redact) for each in gpus.reasons)
    return replace(gpus, holdings=holdings, reasons=reasons, units=())


def _visible_reason(reason: UnusableReason, redact: _Redact) -> UnusableReason:
    return reason._replace(sentence=redact(reason.sentence))


def _without_node(gpus: NodeGPUs) -> NodeGPUs:
    """The devices of a node that must not be named; names of devices and reasons can contain its name."""
    holdings = tuple(replace(each, node="", devices=()) for each in gpus.holdings)
    reasons = tuple(each._replace(sentence=_NAMELESS_REASON) for each in gpus.reasons)
    return replace(gpus, node="", holdings=holdings, reasons=reasons)


def _visible_holding(holding: HeldDevices, namespace: str) -> HeldDevices:
    return replace(holding, holder=_visible_holder(holding.holder, namespace))


def _visible_holder(holder: Holder, namespace: str) -> Holder:
    return holder if holder.namespace == namespace else HIDDEN


def _visible_quota(quota: QuotaOverview, redact: _Redact) -> QuotaOverview:
    return replace(quota, report=replace(quota.report, remarks=tuple(map(redact, quota.report.remarks))))


def _visible_audit(report: AuditReport, namespace: str, redact: _Redact) -> AuditReport:
    """The findings and the readiness of one namespace."""
    findings = tuple(
        replace(each, message=redact(each.message), remedy=redact(each.remedy), owners=tuple(map(redact, each.owners)))
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
