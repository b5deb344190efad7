"""Claims that no container refers to: the pod holds their GPUs, and no container can use them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.decision import Severity
from policies.fleet import RequestKind, gpu_requests
from policies.kubernetes.printable import shown
from policies.rules import rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.decision import Finding
    from policies.kubernetes.pods import Pod
    from policies.view import ClusterView

__all__ = ["unused_claims"]

UNUSED_CLAIM = rule(
    "GA415",
    "A container must refer to each claim for GPUs of its pod",
    default=Severity.WARN,
    why="""
    A claim in spec.resourceClaims gets its devices for the pod. Only containers that name the claim in resources.claims
    are given them. If no container does, the GPU is allocated, and the pod runs
    without it.""",
    remedy="name the claim in resources.claims of the container that uses the GPU",
    source="k8s.io/kubernetes pkg/kubelet/cm/dra/manager.go GetResources",
)


def unused_claims(pod: Pod, namespace: str, view: ClusterView) -> Iterator[Finding]:
    """Warn about each claim for GPUs that no container refers to.

    Claims for other devices may need no container.
    """
    claims = pod.resource_claims
    used = pod.used_claims
    if all(claim.get("name") in used for claim in claims):
        return
    for request in gpu_requests(pod.document, namespace, view):
        if request.kind is RequestKind.CLAIM and request.name not in used and request.is_probable:
            message = f"no container refers to claim {shown(request.name)}: the pod holds its devices, and no container gets them"
            remedy = f"write resources: {{claims: [{{name: {request.name}}}]}} in the container that uses the GPU"
            yield UNUSED_CLAIM.finding(request.path, message, remedy)
