"""How a namespace chooses that its quota fails closed, and which namespaces quotas leave alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.kubernetes.paths import lookup

if TYPE_CHECKING:
    from policies.view import ClusterView

__all__ = ["ENFORCED", "LEFT_ALONE", "OPT_IN", "is_enforced"]

OPT_IN = "gpu-admission.io/quota"
"""The label of namespaces whose quota fails closed."""
ENFORCED = "enforced"

LEFT_ALONE = frozenset(
    {
        "kube-system",
        "gpu-admission",
        "gpu-operator",
        "nvidia-gpu-operator",
        "nvidia-dra-driver-gpu",
        "dra-driver-nvidia-gpu",
    }
)
"""Namespaces that nobody is asked about: what runs the cluster and its GPUs must start while nobody can count."""


def is_enforced(namespace: str, view: ClusterView) -> bool:
    """Whether nothing that gets GPUs is admitted while it cannot be charged; no as long as nobody knows the namespace."""
    return bool(lookup(view.get("Namespace", namespace), ("metadata", "labels", OPT_IN)) == ENFORCED)
