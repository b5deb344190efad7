"""Requests of one container for several shares, where the device plugin allocates only one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.decision import Severity
from policies.fleet.gpu_nodes import gpu_nodes
from policies.fleet.offers.shown import sharing_strategy
from policies.fleet.shares import SingleShares
from policies.nvidia.resources import parse_resource
from policies.placement.sharing import ways_of_sharing
from policies.rules import rule
from policies.view import UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from policies.decision import Finding
    from policies.fleet.gpu_nodes import GPUNode
    from policies.kubernetes.pods import Pod
    from policies.placement.resources.extended_resources import ResourceRequest
    from policies.settings import GPUAdmissionPolicy
    from policies.view import ClusterView

__all__ = ["shared_requests"]


def shared_requests(
    pod: Pod, requests: Iterable[ResourceRequest], view: ClusterView, settings: GPUAdmissionPolicy
) -> Iterator[Finding]:
    """Warn about each container whose request every eligible node would refuse."""
    large_requests = [
        request for request in requests if request.amount > 1 and parse_resource(request.resource) is not None
    ]
    nodes = gpu_nodes(view) if large_requests else UNKNOWN
    if nodes is UNKNOWN:
        return
    selected = nodes.select(pod.spec)
    shares = SingleShares(view, settings)
    offered = {request.resource for request in large_requests if request.resource in nodes.offers}
    refusing = {resource: _refusing_nodes(resource, selected, shares) for resource in offered}
    ways = {resource: ways_of_sharing(sharing, resource) for resource, sharing in refusing.items() if sharing}
    others = {resource: _number_of_unshared(resource, nodes.nodes) for resource in ways}
    for request in large_requests:
        if request.resource in ways:
            yield _finding(request, ways[request.resource], others[request.resource])


def _refusing_nodes(resource: str, nodes: Sequence[GPUNode], shares: SingleShares) -> list[GPUNode]:
    """The nodes that offer a resource, if each gives a container one share only; otherwise empty."""
    if any(resource in node.offers and not shares.is_single(node.labels, resource) for node in nodes):
        return []
    return [node for node in nodes if resource in node.offers]


def _number_of_unshared(resource: str, nodes: Sequence[GPUNode]) -> int:
    return sum(resource in node.offers and sharing_strategy(node.labels, resource) is None for node in nodes)


ONE_SHARE = rule(
    "GA412",
    "A container must request one share where a node gives no more",
    default=Severity.WARN,
    why="""
    Under MPS, and under time-slicing with failRequestsGreaterThanOne, the device plugin refuses a request for more than
    one share: two shares may be of the same GPU and give no more of it than one. The scheduler does not know this limit. It binds the pod, the kubelet fails it, and a controller creates the next pod, which fails too.""",
    remedy="request 1",
    source="github.com/NVIDIA/k8s-device-plugin internal/rm/rm.go ValidateRequest, api/config/v1/config.go",
)


def _finding(request: ResourceRequest, ways: str, others: int) -> Finding:
    parsed = parse_resource(request.resource)
    things = "MIG devices" if parsed and parsed.mig else "GPUs"
    text = (
        f"is {request.amount}, and every node that offers it to this pod shares its {things}, "
        f"{ways}, and gives a container 1 share; the pod would fail with "
        "UnexpectedAdmissionError: invalid request: maximum request size for shared resources is 1; "
        f"found {request.amount}"
    )
    if not others:
        return ONE_SHARE.finding(request.path, text)
    there_are = (
        "1 node that does not share them" if others == 1 else f"one of the {others} nodes that do not share them"
    )
    return ONE_SHARE.finding(request.path, text, f"request 1, or let the pod run on {there_are}")
