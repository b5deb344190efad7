"""Sizes of nodes: warnings for pods that request more of a resource than any one node has."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from policies.dra.device_groups import largest_node
from policies.dra.published_devices import gpu_groups
from policies.fleet.gpu_nodes import gpu_nodes
from policies.fleet.known_classes import GPU_TYPES, known_classes
from policies.fleet.node_sizes import MORE_THAN_A_NODE
from policies.fleet.pod_claims import pod_claims
from policies.kubernetes.amounts import ONE, pod_amounts
from policies.kubernetes.pods import SPEC
from policies.kubernetes.printable import printable
from policies.nvidia.resources import IMPLICIT_PREFIX, parse_resource
from policies.placement.resources.extended_resources import first_requests
from policies.view import UNKNOWN, ClusterView

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator

    from policies.decision import Finding
    from policies.dra.resource_claims import DeviceRequest
    from policies.fleet.gpu_nodes import GPUNodes
    from policies.kubernetes.pods import Pod
    from policies.view import Unknown

__all__ = ["oversized_claims", "oversized_requests"]


_MOST_CLAIMS = 32
"""The number of a pod's claims that are added up; more could only increase the sum."""


def oversized_requests(pod: Pod, view: ClusterView, left_out: Container[str]) -> Iterator[Finding]:
    """Warn if a pod requests more of a GPU resource than the largest node has.

    Args:
        pod: in the form in which it is scheduled.
        view: the cluster.
        left_out: resources that another finding reports already.
    """
    nodes = gpu_nodes(view)
    if nodes is UNKNOWN:
        return
    amounts = pod_amounts(pod.spec)
    for resource, request in first_requests(pod).items():
        if resource in left_out or (parse_resource(resource) is None and not resource.startswith(IMPLICIT_PREFIX)):
            continue
        wanted, largest = amounts.get(resource, 0) // ONE, _largest(resource, nodes, view)
        if largest is not UNKNOWN and 0 < largest[1] < wanted:
            node, most = largest
            text = f"the pod requests {wanted:,} in all, and no node has more than {most:,} ({printable(node)})"
            remedy = f"request at most {most:,} per pod, and use more pods"
            yield MORE_THAN_A_NODE.finding(request.path, text, remedy)


def oversized_claims(pod: Pod, namespace: str, view: ClusterView) -> Iterator[Finding]:
    """Warn if the claims of a pod together request more devices of a class than any node has.

    A single claim that is too large is reported at the claim. Prioritized lists, requests for all devices of a node,
    admin access, and unknown claims count as zero.
    """
    claims = pod_claims(pod.document, namespace, view)
    if len(claims) < 2:
        return
    by_object: dict[tuple[str, str], Counter[str]] = {}
    in_all: Counter[str] = Counter()
    for claim in claims[:_MOST_CLAIMS]:
        key = str(claim.kind), claim.object_name
        if claim.kind == "ResourceClaim" and key in by_object:
            continue  # the pod refers to one claim by two names
        if key not in by_object:
            by_object[key] = _counts(claim.requests or ())
        in_all.update(by_object[key])
    for name, wanted in in_all.items():
        largest = _largest_of_class(name, view)
        if largest is None:
            continue
        node, most = largest
        if max(counts[name] for counts in by_object.values()) <= most < wanted:
            text = (
                f'the claims request {wanted:,} devices of class "{printable(name)}" in all, and no node has more than '
                f"{most:,} ({printable(node)})"
            )
            yield MORE_THAN_A_NODE.finding(
                SPEC / "resourceClaims", text, f"request at most {most:,} per pod, and use more pods"
            )


def _counts(requests: Iterable[DeviceRequest]) -> Counter[str]:
    """The number of devices of each class that the requests certainly take."""
    counts: Counter[str] = Counter()
    for request in requests:
        for subrequest in () if request.is_prioritized else request.subrequests:
            if subrequest.allocation_mode == "ExactCount" and not subrequest.admin_access:
                counts[subrequest.device_class] += subrequest.count
    return counts


def _largest_of_class(name: str, view: ClusterView) -> tuple[str, int] | None:
    """The node with the most GPUs of a class, and their number; None if unknown or zero."""
    groups, classes = gpu_groups(view), known_classes(view)
    types = classes.types(name) if name in classes else None
    if groups is UNKNOWN or not types or not types <= GPU_TYPES:
        return None
    devices = [group for group in groups if group.type in types]
    if not devices or any(group.is_shareable for group in devices):
        return None
    return largest_node(group.by_node for group in devices)


def _largest(resource: str, nodes: GPUNodes, view: ClusterView) -> tuple[str, int] | Unknown:
    """The node with the most of a resource, and the amount; unknown while devices are unknown or shared."""
    plugin = nodes.largest_offers.get(resource, ("", 0))
    classes = known_classes(view)
    types = frozenset[str]().union(*(classes.gpu_types(name) for name in classes.standing_for(resource)))
    if not types:
        return plugin
    groups = gpu_groups(view)
    if groups is UNKNOWN:
        return UNKNOWN
    devices = [group for group in groups if group.type in types]
    if any(group.is_shareable for group in devices):
        return UNKNOWN
    return max(plugin, largest_node(group.by_node for group in devices), key=lambda each: each[1])
