"""Findings about nodes: requested resources that do not exist or cannot be allocated."""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.placement.resources.advertised import unadvertised_resources
from policies.placement.resources.extended_resources import first_requests, resource_requests
from policies.placement.resources.oversized_requests import oversized_claims, oversized_requests
from policies.placement.resources.shared_requests import shared_requests
from policies.placement.resources.unused_claims import unused_claims

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.decision import Finding
    from policies.kubernetes.pods import Pod
    from policies.settings import GPUAdmissionPolicy
    from policies.view import ClusterView

__all__ = ["node_findings"]


def node_findings(pod: Pod, namespace: str, view: ClusterView, settings: GPUAdmissionPolicy) -> Iterator[Finding]:
    """The findings of rules GA412 to GA415 for a pod in the form in which it is scheduled."""
    requests = tuple(resource_requests(pod))
    first = first_requests(requests).values()
    shared = tuple(shared_requests(pod, requests, view, settings))
    yield from shared
    yield from unadvertised_resources(pod, first, namespace, view)
    # If a container gets one share at most, the number of shares on a node does not matter.
    yield from oversized_requests(pod, first, view, left_out={str(finding.path[-1]) for finding in shared})
    yield from oversized_claims(pod, namespace, view)
    yield from unused_claims(pod, namespace, view)
