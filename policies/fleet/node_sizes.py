"""Sizes of nodes: the node with the most GPUs, and the rule for pods that request more than it has."""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.decision import Severity
from policies.dra.device_groups import largest_node
from policies.dra.published_devices import gpu_groups
from policies.fleet.gpu_nodes import gpu_nodes
from policies.fleet.known_classes import GPU_TYPES, known_classes
from policies.kubernetes.printable import printable
from policies.rules import rule
from policies.view import UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Collection

    from policies.decision import Finding
    from policies.dra.device_groups import DeviceGroup
    from policies.kubernetes.paths import FieldPath
    from policies.view import ClusterView

__all__ = ["MORE_THAN_A_NODE", "largest_below", "largest_of_class", "oversized_finding"]

MORE_THAN_A_NODE = rule(
    "GA414",
    "A node must have as many GPUs as a pod requests",
    default=Severity.WARN,
    why="""
    All containers of a pod run on one node, so a pod that requests more GPUs than the largest node has stays Pending. The
    scheduler only says that they are insufficient. That may pass: a larger node may join. More often the total of a job
    was written into one pod. All nodes count, full or not, also those that the pod does not select. While nodes are
    unknown, or none has such a GPU, the rule is silent.""",
    remedy="request no more than the largest node has, and use more pods",
    source="status.allocatable of the nodes; ResourceSlices",
)


def oversized_finding(path: FieldPath, requested: str, largest: tuple[str, int], described: str = "") -> Finding:
    """The finding for a pod that requests more than the largest node has.

    Args:
        path: Of the request.
        requested: What is requested, as a clause.
        largest: The largest node, and how many GPUs it has.
        described: These GPUs in words; empty for their number.
    """
    node, most = largest
    text = f"{requested} in all, and no node has more than {described or f'{most:,}'} ({printable(node)})"
    return MORE_THAN_A_NODE.finding(path, text, f"request at most {most:,} per pod, and use more pods")


def largest_below(resource: str, wanted: int, view: ClusterView) -> tuple[str, int] | None:
    """The node with the most of an extended resource, and how much, if that is less than `wanted`.

    None also if it is unknown, zero or shared.
    """
    nodes, classes = gpu_nodes(view), known_classes(view)
    if nodes is UNKNOWN:
        return None
    largest = nodes.largest_offers.get(resource, ("", 0))
    types = frozenset[str]().union(*(classes.gpu_types(name) for name in classes.standing_for(resource)))
    if types and largest[1] < wanted:
        devices = _unshared_devices(types, view)
        # Few pods request more than a node has, and only for these is it worth counting on every node.
        if devices is None or any(group.most_on_a_node >= wanted for group in devices):
            return None
        largest = max(largest, largest_node(group.by_node for group in devices), key=lambda each: each[1])
    return largest if 0 < largest[1] < wanted else None


def largest_of_class(name: str, view: ClusterView) -> tuple[str, int] | None:
    """The node with the most GPUs of a DeviceClass, and how many; None if that is unknown, zero or shared."""
    classes = known_classes(view)
    types = classes.types(name) if name in classes else None
    if not types or not types <= GPU_TYPES:
        return None
    devices = _unshared_devices(types, view)
    largest = ("", 0) if devices is None else largest_node(group.by_node for group in devices)
    return largest if largest[1] else None


def _unshared_devices(types: Collection[str], view: ClusterView) -> list[DeviceGroup] | None:
    """The GPUs of some types; None if they are unknown or shared."""
    groups = gpu_groups(view)
    if groups is UNKNOWN:
        return None
    devices = [group for group in groups if group.type in types]
    return None if any(group.is_shareable for group in devices) else devices
