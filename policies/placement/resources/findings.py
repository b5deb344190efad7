"""Findings on nodes: whether what a pod asks for exists, and would be given."""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.placement.resources.advertised import advertised
from policies.placement.resources.node_sizes import claims_of_more_than_a_node, more_than_a_node
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
    """GA412 to GA415 for a pod, as it is to be placed."""
    shared = tuple(shared_requests(pod, view, settings))
    yield from shared
    yield from advertised(pod, namespace, view)
    # Whoever gets one share at most need not be told how many shares a node has.
    yield from more_than_a_node(pod, view, left_out={str(finding.path[-1]) for finding in shared})
    yield from claims_of_more_than_a_node(pod, namespace, view)
    yield from unused_claims(pod, namespace, view)
