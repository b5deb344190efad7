"""Oversized requests: warnings for pods that request more of a resource than any one node has."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from policies.fleet.node_sizes import largest_below, largest_of_class, oversized_finding
from policies.fleet.pod_claims import pod_claims
from policies.kubernetes.amounts import ONE, pod_amounts
from policies.kubernetes.pods import SPEC
from policies.kubernetes.printable import printable
from policies.nvidia.resources import IMPLICIT_PREFIX, parse_resource

if TYPE_CHECKING:
    from collections.abc import Collection, Container, Iterable, Iterator

    from policies.decision import Finding
    from policies.dra.resource_claims import DeviceRequest
    from policies.kubernetes.pods import Pod
    from policies.placement.resources.extended_resources import ResourceRequest
    from policies.view import ClusterView

__all__ = ["oversized_claims", "oversized_requests"]


_MOST_CLAIMS = 32
"""The number of a pod's claims that are added up; more could only increase the sum."""


def oversized_requests(
    pod: Pod, requests: Collection[ResourceRequest], view: ClusterView, left_out: Container[str]
) -> Iterator[Finding]:
    """Warn if a pod requests more of a GPU resource than the largest node has.

    Args:
        pod: in the form in which it is scheduled.
        requests: its first request of each resource.
        view: the cluster.
        left_out: resources that another finding reports already.
    """
    amounts = pod_amounts(pod.spec) if requests else {}
    for request in requests:
        resource = request.resource
        if resource in left_out or (parse_resource(resource) is None and not resource.startswith(IMPLICIT_PREFIX)):
            continue
        wanted = amounts.get(resource, 0) // ONE
        largest = largest_below(resource, wanted, view)
        if largest is not None:
            yield oversized_finding(request.path, f"the pod requests {wanted:,}", largest)


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
        largest = largest_of_class(name, view)
        if largest is not None and max(counts[name] for counts in by_object.values()) <= largest[1] < wanted:
            text = f'the claims request {wanted:,} devices of class "{printable(name)}"'
            yield oversized_finding(SPEC / "resourceClaims", text, largest)


def _counts(requests: Iterable[DeviceRequest]) -> Counter[str]:
    """The number of devices of each class that the requests certainly take."""
    counts: Counter[str] = Counter()
    for request in requests:
        for subrequest in () if request.is_prioritized else request.subrequests:
            if subrequest.allocation_mode == "ExactCount" and not subrequest.has_admin_access:
                counts[subrequest.device_class] += subrequest.count
    return counts
