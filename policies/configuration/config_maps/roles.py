"""What a ConfigMap is for, as far as GPUs are concerned.

A label says it, or a ClusterPolicy or GPUCluster that names the ConfigMap. Otherwise its content says it, and in the
operator's namespaces its name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.configuration.config_maps.references import Role, users
from policies.configuration.config_maps.signs import content_roles
from policies.kubernetes.paths import lookup

if TYPE_CHECKING:
    from policies.configuration.change import Change

__all__ = ["LABEL", "roles_of"]

LABEL = "gpu-admission.io/config"

_OTHER_HOMES = frozenset({"kube-system", "nvidia-device-plugin"})
"""Namespaces that the Helm chart of the device plugin is often installed into, without the operator."""

_NAMES = {
    "time-slicing-config": Role.DEVICE_PLUGIN,
    "mps-config": Role.DEVICE_PLUGIN,
    "device-plugin-config": Role.DEVICE_PLUGIN,
    "nvidia-device-plugin-configs": Role.DEVICE_PLUGIN,
    "nvidia-plugin-configs": Role.DEVICE_PLUGIN,
    "default-mig-parted-config": Role.MIG_PARTED,
    "custom-mig-config": Role.MIG_PARTED,
    "custom-mig-parted-config": Role.MIG_PARTED,
    "mig-parted-config": Role.MIG_PARTED,
    "custom-dcgm-metrics": Role.DCGM_METRICS,
    "dcgm-metrics": Role.DCGM_METRICS,
}
"""Names that NVIDIA's documentation and charts use; kustomize appends a hash, and people append what they like.
Source: docs.nvidia.com GPU Operator (gpu-sharing, gpu-operator-mig), README of github.com/NVIDIA/k8s-device-plugin."""


def roles_of(change: Change) -> set[Role]:
    """The roles of a ConfigMap; a mistake in it does not hide what it is for."""
    label = lookup(change.object, ("metadata", "labels", LABEL))
    certain = {role for role in Role if label == role} | {
        user.reference.role for user in users(change) if user.reference.role is not None
    }
    if certain:
        return certain
    is_near = change.is_read_by_operator or change.namespace in _OTHER_HOMES
    by_content = content_roles(change.object, with_mistakes=is_near)
    if by_content or change.namespace not in change.facts.operator_namespaces:
        return by_content
    return {role for name, role in _NAMES.items() if change.name == name or change.name.startswith(f"{name}-")}
