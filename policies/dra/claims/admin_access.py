"""Admin access: devices that others use, for those who look after them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.checks import Problem, problem
from policies.decision import Severity
from policies.dra.claims.checks import CLAIMS
from policies.view import UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.dra.claims.subject import Subject

_LABEL = "resource.kubernetes.io/admin-access"


@CLAIMS.rule(
    "GA220",
    "Admin access is asked for in namespaces that have it",
    default=Severity.DENY,
    remedy=f'label the namespace {_LABEL}: "true", or remove adminAccess',
    source="k8s.io/kubernetes pkg/registry/resource/resourceclaim/strategy.go",
    wrong="""
    apiVersion: resource.k8s.io/v1
    kind: ResourceClaim
    metadata: {name: monitor, namespace: team-a}
    spec:
      devices:
        requests:
        - name: all
          exactly: {deviceClassName: gpu.nvidia.com, allocationMode: All, adminAccess: true}
    ---
    apiVersion: v1
    kind: Namespace
    metadata: {name: team-a}""",
    right="""
    apiVersion: resource.k8s.io/v1
    kind: ResourceClaim
    metadata: {name: monitor, namespace: monitoring}
    spec:
      devices:
        requests:
        - name: all
          exactly: {deviceClassName: gpu.nvidia.com, allocationMode: All, adminAccess: true}
    ---
    apiVersion: v1
    kind: Namespace
    metadata:
      name: monitoring
      labels: {resource.kubernetes.io/admin-access: "true"}""",
)
def admin_access_label(subject: Subject) -> Iterator[Problem]:
    """Admin access reaches devices that others hold, so the API server grants it by a label on the namespace.

    The label is looked at when a claim or a template is created. An alternative of a prioritized list has no such field. Where the namespace cannot be seen nothing is said:
    the API server will.
    """
    labels = subject.facts.namespace_labels(subject.namespace)
    if labels is UNKNOWN or labels.get(_LABEL) == "true":
        return
    exact = (asked for request in subject.requests if not request.prioritized for asked in request.alternatives)
    for asked in exact:
        if asked.admin_access:
            text = f'needs the label {_LABEL}: "true" on namespace "{subject.namespace}", which does not have it'
            yield problem(asked.path / "adminAccess", text)
