"""GPUs of device plugins: what nodes offer, and what the pods that are bound to them hold."""

from __future__ import annotations

from collections import defaultdict
from fractions import Fraction
from typing import TYPE_CHECKING

from policies.analyses.usage.node_gpus import HeldDevices, NodeGPUs, OfferedKind, Provider, UnusableKind, UnusableReason
from policies.devices.holders import Holder
from policies.fleet.gpu_nodes import gpu_nodes
from policies.fleet.offers.shown import shown_device
from policies.kubernetes.nodes import labels_of
from policies.kubernetes.objects import DEFAULT_NAMESPACE, lookup, name_of, namespace_of
from policies.kubernetes.pods import resources_in_claim
from policies.kubernetes.quantities import ONE, billionths, taken_by
from policies.kubernetes.view import UNKNOWN
from policies.kubernetes.work import count_work
from policies.nvidia.resources import parse_resource
from policies.quota.demands.node_kinds import counted_offer

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from policies.fleet.offers.shown import ShownDevice
    from policies.kubernetes.objects import Object
    from policies.kubernetes.view import ClusterView

__all__ = ["plugin_gpus", "pod_use"]

_PodUse = tuple[str, Holder, tuple[tuple[str, int], ...]]
"""The node of a pod, the pod, and how many devices of each resource it holds."""
_ResourceUse = dict[str, list[tuple[Holder, int]]]
"""The pods that hold devices of each resource of one node, and how many."""
_PROVIDERS = frozenset({Provider.DEVICE_PLUGIN})
_WORK_PER_NODE = 50


def plugin_gpus(view: ClusterView, *, all_pods: bool) -> Iterator[NodeGPUs]:
    """The GPUs that device plugins advertise, with the pods that hold them.

    Args:
        view: The cluster. If its nodes are unknown, the GPUs that pods hold are returned, of an unknown product.
        all_pods: True if the view has the pods of all namespaces; if not, the number of held devices is unknown.
    """
    listed, facts, used = view.list("Node"), gpu_nodes(view), _uses_by_node(view)
    documents = {} if listed is UNKNOWN else {name_of(node): node for node in listed}
    shown = {} if facts is UNKNOWN else {node.name: node.traits.shown_devices for node in facts.all}
    for node in dict.fromkeys((*documents, *used)):
        count_work(_WORK_PER_NODE)
        uses = used.get(node, {})
        devices = shown.get(node, {})
        resources = {*devices, *uses}
        if not resources:
            continue
        document = documents.get(node, {})
        by_kind: defaultdict[OfferedKind, list[str]] = defaultdict(list)
        for resource in sorted(resources):
            by_kind[_kind(resource, devices, document)].append(resource)
        for kind, names in by_kind.items():
            exists = None if listed is UNKNOWN else document
            yield _gpus_of_kind(node, kind, names, exists, uses, all_pods=all_pods)


def _uses_by_node(view: ClusterView) -> Mapping[str, _ResourceUse]:
    found: dict[str, _ResourceUse] = {}
    pods = view.derive_each("Pod", pod_use)
    for use in () if pods is UNKNOWN else pods:
        if use is not None:
            node, holder, amounts = use
            for resource, count in amounts:
                found.setdefault(node, {}).setdefault(resource, []).append((holder, count))
    return found


def pod_use(pod: Object) -> _PodUse | None:
    """The devices of device plugins that a pod holds; those that a claim holds for it are left out."""
    taken = taken_by(pod)
    if taken is None:
        return None
    claimed = resources_in_claim(pod.get("status"))
    amounts = [
        (name, amount // ONE) for name, amount in taken[1] if parse_resource(name) is not None and name not in claimed
    ]
    return (
        (taken[0], Holder(namespace_of(pod) or DEFAULT_NAMESPACE, (name_of(pod),)), tuple(amounts)) if amounts else None
    )


def _kind(resource: str, devices: Mapping[str, ShownDevice], node: Object) -> OfferedKind:
    """The kind of a resource's devices, also where the node does not show the resource any more."""
    parsed = parse_resource(resource)
    if parsed is None:
        return OfferedKind("")
    return OfferedKind.of(*counted_offer(devices.get(resource) or shown_device(parsed, labels_of(node))))


def _gpus_of_kind(
    node: str,
    kind: OfferedKind,
    resources: Collection[str],
    document: Object | None,
    uses: _ResourceUse,
    *,
    all_pods: bool,
) -> NodeGPUs:
    """The devices of one kind.

    Args:
        node: The name of the node.
        kind: The kind of the devices.
        resources: The names under which the node offers the kind.
        document: The node, empty if it does not exist; None if nodes are unknown.
        uses: The pods on the node.
        all_pods: True if these are all pods.
    """
    holdings = tuple(
        HeldDevices(holder, node, kind, Fraction(count))
        for resource in resources
        for holder, count in uses.get(resource, ())
    )
    held = sum((each.amount for each in holdings), Fraction(0)) if all_pods else None
    if document is None:
        return NodeGPUs(node, kind, _PROVIDERS, None, held, holdings)
    capacity, allocatable = (
        Fraction(sum(billionths(lookup(document, ("status", field, name))) // ONE for name in resources))
        for field in ("capacity", "allocatable")
    )
    total = max(capacity, allocatable)
    lost = Fraction(0) if held is None else max(total - max(held, allocatable), Fraction(0))
    reasons = (UnusableReason(UnusableKind.UNHEALTHY, _lost_sentence(allocatable), lost),) if lost else ()
    return NodeGPUs(node, kind, _PROVIDERS, total, held, holdings, reasons)


def _lost_sentence(allocatable: Fraction) -> str:
    if allocatable:
        return "reported as unhealthy by the device plugin"
    return "all reported as unhealthy by the device plugin, or it is not running"
