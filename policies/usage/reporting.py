"""Reporting: makes the usage report from the facts of a cluster."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from math import ceil
from typing import TYPE_CHECKING

from policies.fleet.cluster_digest import read_cluster
from policies.fleet.dra_nodes import nodes_with_both
from policies.fleet.gpu_nodes import gpu_nodes
from policies.fleet.offers.shown import LabelledResource, shown_device
from policies.nvidia.identifiers import GPU_RESOURCE
from policies.nvidia.resources import GPUResource
from policies.phrases import format_count
from policies.quota.devices.node_kinds import counted_offer
from policies.usage.node_gpus import NodeGPUs, OfferedKind, UnusableKind, UnusableReason
from policies.usage.plugin_gpus import plugin_gpus
from policies.usage.published_gpus import published_gpus
from policies.usage.report import UsageReport
from policies.usage.unusable_nodes import UnusableNodes
from policies.view import UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from policies.view import ClusterView

__all__ = ["READ_FROM", "usage_report"]

READ_FROM = ("Node", "Pod", "ResourceClaim", "ResourceSlice")
"""The kinds that the report needs."""
_NONE = Fraction(0)
_GPU = GPUResource(GPU_RESOURCE, mig=False, profile=None, shared=False)
_IDLE = "neither advertised by a device plugin nor published by the DRA driver"


def usage_report(view: ClusterView, namespace: str = "", *, partial: Collection[str] = ()) -> UsageReport:
    """The report on the GPUs of a cluster.

    Args:
        view: The cluster. What it cannot see is unknown in the report.
        namespace: The only namespace whose holders are shown; empty for all.
        partial: The kinds of which the view has the objects of this namespace only.
    """
    cluster = view.derive(read_cluster)
    unknown = tuple(kind for kind in READ_FROM if view.list(kind) is UNKNOWN or kind in partial)
    all_pods, all_claims = "Pod" not in unknown, "ResourceClaim" not in unknown
    offered = [
        *plugin_gpus(view, all_pods=all_pods),
        *published_gpus(view, cluster, all_claims=all_claims),
    ]
    merged: dict[tuple[str, OfferedKind], NodeGPUs] = {}
    for each in (*offered, *_idle_gpus(view, {each.node for each in offered})):
        known = merged.get((each.node, each.kind))
        merged[each.node, each.kind] = each if known is None else _merge(known, each)
    holders = {
        (holding.holder.namespace, pod)
        for each in merged.values()
        for holding in each.holdings
        for pod in holding.holder.pods
    }
    unusable_nodes = UnusableNodes(view, holders, all_pods=all_pods)
    gpus = (_with_node_reason(each, unusable_nodes) for each in merged.values() if each.total != 0 or each.holdings)
    ordered = tuple(sorted(gpus, key=lambda each: (each.node, each.kind.rank)))
    return UsageReport(ordered, namespace, unknown, tuple(_problems(ordered, view, cluster.problem)))


def _idle_gpus(view: ClusterView, serving: Collection[str]) -> Iterator[NodeGPUs]:
    """The GPUs that nothing offers, by the label that counts them; none while slices are unknown.

    Under the MIG strategy `single` the labels are those of MIG devices.
    """
    nodes = gpu_nodes(view)
    if nodes is UNKNOWN or view.list("ResourceSlice") is UNKNOWN:
        return
    for node in nodes.nodes:
        count = LabelledResource(GPU_RESOURCE, node.labels).device_count
        if node.name in serving or node.offers or not count:
            continue
        number = Fraction(count)
        kind = OfferedKind.of(counted_offer(shown_device(_GPU, node.labels)).device)
        reasons = (UnusableReason(UnusableKind.NOT_ADVERTISED, _IDLE, number),)
        yield NodeGPUs(node.name, kind, frozenset(), number, _NONE, (), reasons)


def _merge(first: NodeGPUs, other: NodeGPUs) -> NodeGPUs:
    """Devices that a device plugin and DRA both offer: the same ones, so they count once."""
    totals, held = [first.total, other.total], [first.held, other.held]
    return replace(
        first,
        providers=first.providers | other.providers,
        total=None if None in totals else max(each for each in totals if each is not None),
        held=None if None in held else sum((each for each in held if each is not None), _NONE),
        holdings=(*first.holdings, *other.holdings),
        reasons=(*first.reasons, *other.reasons),
        units=(*first.units, *other.units),
    )


def _with_node_reason(gpus: NodeGPUs, unusable_nodes: UnusableNodes) -> NodeGPUs:
    """The devices with the reason of their node, which applies to those without a reason of their own."""
    if gpus.not_held is None:
        return replace(gpus, reasons=())
    left, reasons = gpus.not_held, []
    for each in gpus.reasons:
        amount = min(each.amount, left)
        if amount:
            reasons.append(each._replace(amount=amount))
            left -= amount
    reason = unusable_nodes.unusable_reason(gpus.node) if left else None
    if reason is not None:
        reasons.append(reason._replace(amount=left))
    return replace(gpus, reasons=tuple(reasons))


def _problems(gpus: Iterable[NodeGPUs], view: ClusterView, problem: str) -> Iterator[str]:
    if problem:
        yield f"the devices of the cluster cannot be read, so free GPUs may be unusable: {problem}"
    for node in nodes_with_both(view):
        yield (
            f"the GPUs of node {node} are offered by both the device plugin and DRA, so a pod and a claim can get the same "
            "GPU"
        )
    for each in gpus:
        if not each.is_over:
            continue
        if each.total:
            yield f"node {each.node} has {each.total} {each.kind}, and pods and claims hold {each.held}"
        else:
            number = format_count(ceil(each.held or 0), "device")
            yield f"pods and claims hold {number} ({each.kind}) that node {each.node} does not show"
