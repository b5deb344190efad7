"""Distributions of Kubernetes, recognised by fields and labels of their nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.kubernetes.nodes import labels_of
from policies.kubernetes.paths import lookup

if TYPE_CHECKING:
    from policies.kubernetes.objects import Object

__all__ = ["is_k0s", "is_microk8s", "is_openshift", "is_rancher", "runtime_of"]


def runtime_of(node: Object) -> str:
    """The container runtime and its version, `containerd://2.1.4`; empty if the node does not report it."""
    return _info(node, "containerRuntimeVersion")


def is_rancher(node: Object) -> bool:
    """True for a node of K3s or RKE2, which bring their own containerd."""
    version = _info(node, "kubeletVersion")
    return "+k3s" in version or "+rke2" in version


def is_k0s(node: Object) -> bool:
    """True for a node of k0s, whose kubelet uses /var/lib/k0s."""
    return "+k0s" in _info(node, "kubeletVersion")


def is_microk8s(node: Object) -> bool:
    """True for a node of MicroK8s, whose kubelet is below /var/snap, with a link at the usual path."""
    return "microk8s.io/cluster" in labels_of(node)


def is_openshift(node: Object) -> bool:
    """True for a node of OpenShift."""
    return any(key.startswith("node.openshift.io/") for key in labels_of(node))


def _info(node: Object, field: str) -> str:
    value = lookup(node, ("status", "nodeInfo", field))
    return value if isinstance(value, str) else ""
