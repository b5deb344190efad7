"""Findings about nodes: requested resources that do not exist or cannot be allocated."""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.placement.advertised_resources import unadvertised_resources
from policies.placement.resource_names import first_requests, resource_requests
from policies.placement.resource_requests import oversized_claims, oversized_requests, shared_requests, unused_claims

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.kubernetes.pods import Pod
    from policies.kubernetes.view import ClusterView
    from policies.rules.decision import Finding
    from policies.rules.settings import GPUAdmissionPolicy

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
