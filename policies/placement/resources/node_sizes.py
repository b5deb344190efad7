"""Sizes of nodes: whether any node has as many of a resource as a pod requests in all."""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.dra.inventory import inventory, largest_node
from policies.fleet.known_classes import known_classes
from policies.fleet.node_sizes import MORE_THAN_A_NODE
from policies.kubernetes.amounts import ONE, pod_amounts
from policies.kubernetes.printable import printable
from policies.nvidia.resources import IMPLICIT_PREFIX, parse_resource
from policies.placement.gpu_nodes import gpu_nodes
from policies.placement.resources.extended_resources import first_asks
from policies.view import UNKNOWN, ClusterView

if TYPE_CHECKING:
    from collections.abc import Container, Iterator

    from policies.decision import Finding
    from policies.kubernetes.pods import Pod
    from policies.placement.gpu_nodes import GPUNodes
    from policies.view import Unknown

__all__ = ["more_than_a_node"]


def more_than_a_node(pod: Pod, view: ClusterView, left_out: Container[str]) -> Iterator[Finding]:
    """Warn if a pod requests more of a GPU resource than the largest node has, by the device plugin or by DRA.

    Args:
        pod: as it is to be placed.
        view: the cluster.
        left_out: resources of which something else was said already.
    """
    nodes = gpu_nodes(view)
    if nodes is UNKNOWN:
        return
    amounts = pod_amounts(pod.spec)
    for resource, ask in first_asks(pod).items():
        if resource in left_out or (parse_resource(resource) is None and not resource.startswith(IMPLICIT_PREFIX)):
            continue
        wanted, largest = amounts.get(resource, 0) // ONE, _largest(resource, nodes, view)
        if largest is not UNKNOWN and 0 < largest[1] < wanted:
            node, most = largest
            text = f"the pod requests {wanted:,} in all, and no node has more than {most:,} ({printable(node)})"
            remedy = f"request at most {most:,} per pod, and use more pods"
            yield MORE_THAN_A_NODE.finding(ask.path, text, remedy)


def _largest(resource: str, nodes: GPUNodes, view: ClusterView) -> tuple[str, int] | Unknown:
    """The node that has most of a resource, and how much; unknown if that cannot be told."""
    plugin = nodes.largest_offers.get(resource, ("", 0))
    classes = known_classes(view)
    types = frozenset[str]().union(*(classes.gpu_types(name) for name in classes.standing_for(resource)))
    if not types:
        return plugin
    groups = view.derive(inventory)
    if groups is UNKNOWN:
        return UNKNOWN
    devices = [group for group in groups if group.type in types]
    if any(group.device.shareable for group in devices):
        return UNKNOWN
    return max(plugin, largest_node(group.by_node for group in devices), key=lambda each: each[1])
