"""Leniency: whom a refusal would hurt more than it helps.

A refused deletion keeps a namespace Terminating for ever, and a refused operator crash-loops; what such requests do is
told, and not refused.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from policies.decision import Finding, Severity
from policies.kubernetes.paths import lookup

if TYPE_CHECKING:
    from policies.request import Request
    from policies.view import ClusterView

__all__ = ["lenient"]

_CONTROLLERS = frozenset(
    f"system:serviceaccount:kube-system:{name}" for name in ("namespace-controller", "generic-garbage-collector")
) | {"system:kube-controller-manager"}
_OPERATORS = ("gpu-operator", "nvidia-mig-manager", "node-feature-discovery", "nfd-master", "nvidia-gpu-operator")
"""Names of service accounts, in any namespace, of the GPU Operator, its MIG manager and Node Feature Discovery."""


def lenient(finding: Finding, request: Request, view: ClusterView) -> Finding:
    """The finding, lowered from a denial to a warning where the request must not be refused."""
    if finding.severity is Severity.DENY and (_cleans_up(request, view) or _is_operator(request) or _repeats(request)):
        return replace(finding, severity=Severity.WARN)
    return finding


def _cleans_up(request: Request, view: ClusterView) -> bool:
    if lookup(request.object, ("metadata", "deletionTimestamp")):
        return True
    if request.operation != "DELETE":
        return False
    namespace = view.get("Namespace", request.namespace) if request.namespace else None
    terminating = lookup(namespace, ("status", "phase")) == "Terminating" or bool(
        lookup(namespace, ("metadata", "deletionTimestamp"))
    )
    return terminating or request.user.username in _CONTROLLERS


def _is_operator(request: Request) -> bool:
    prefix, _, account = request.user.username.rpartition(":")
    return prefix.startswith("system:serviceaccount:") and account in _OPERATORS


def _repeats(request: Request) -> bool:
    """Whether an update leaves everything as it was that configuration consists of: it must stay possible to label."""
    old, new = request.old_object, request.object
    if request.operation != "UPDATE" or request.kind == "Node" or not (isinstance(old, dict) and isinstance(new, dict)):
        return False
    labels = ("metadata", "labels")
    read = ("spec", "data", "binaryData")
    return lookup(old, labels) == lookup(new, labels) and all(old.get(key) == new.get(key) for key in read)
