"""Leniency: requests that are warned about rather than refused.

A refused deletion keeps a namespace Terminating for ever, and a refused operator crash-loops.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.kubernetes.paths import lookup

if TYPE_CHECKING:
    from collections.abc import Sequence

    from policies.request import Request, UserInfo
    from policies.settings import GPUAdmissionPolicy
    from policies.view import ClusterView

__all__ = ["is_lenient", "is_operator"]

_CONTROLLERS = frozenset(
    f"system:serviceaccount:kube-system:{name}" for name in ("namespace-controller", "generic-garbage-collector")
) | {"system:kube-controller-manager"}
_NFD_NAMESPACES = ("node-feature-discovery", "openshift-nfd")
"""Where Node Feature Discovery, which writes the labels of nodes, runs if it does not run beside the GPU Operator.

Source: kubernetes-sigs.github.io/node-feature-discovery deployment; OpenShift documentation of the NFD Operator.
"""


def is_lenient(request: Request, view: ClusterView, settings: GPUAdmissionPolicy) -> bool:
    """True if a request must not be refused.

    It cleans up, comes from the operator, or changes no configuration.
    """
    return (
        _cleans_up(request, view)
        or is_operator(request.user, settings.configuration.operator_namespaces)
        or _repeats(request)
    )


def is_operator(user: UserInfo, operator_namespaces: Sequence[str]) -> bool:
    """True for service accounts of the GPU Operator, of what it deploys, and of Node Feature Discovery.

    The namespace proves it. The name of an account does not: tenants create accounts of any name in their namespaces.

    Args:
        user: who makes a request.
        operator_namespaces: of the settings (`configuration.operatorNamespaces`).
    """
    namespaces = (*operator_namespaces, *_NFD_NAMESPACES)
    return user.username.startswith(tuple(f"system:serviceaccount:{namespace}:" for namespace in namespaces))


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


def _repeats(request: Request) -> bool:
    """True if an update changes no configuration: adding an annotation must stay possible."""
    old, new = request.old_object, request.object
    if request.operation != "UPDATE" or request.kind == "Node" or not (isinstance(old, dict) and isinstance(new, dict)):
        return False
    labels = ("metadata", "labels")
    read = ("spec", "data", "binaryData")
    return lookup(old, labels) == lookup(new, labels) and all(old.get(key) == new.get(key) for key in read)
