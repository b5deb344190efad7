"""The nodes on which the GPU Operator runs the device plugin, and those that DRA serves too."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from policies.devices.published_devices import published_devices
from policies.fleet.gpu_nodes import gpu_nodes
from policies.kubernetes.nodes import labels_of
from policies.kubernetes.objects import lookup, name_of
from policies.kubernetes.view import UNKNOWN
from policies.nvidia.identifiers import DEPLOY_OPERANDS_LABEL

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from policies.fleet.gpu_nodes import GPUNode, NodeTraits
    from policies.kubernetes.objects import Object
    from policies.kubernetes.view import ClusterView, Unknown

__all__ = [
    "SERVED_SINCE",
    "WORKLOADS",
    "WORKLOAD_CONFIG",
    "OldKubelet",
    "active_cluster_policy",
    "node_workload",
    "nodes_with_both",
    "old_kubelets",
    "runs_device_plugin",
]


WORKLOAD_CONFIG = "nvidia.com/gpu.workload.config"
"""The label that says what the GPUs of a node are for, if the ClusterPolicy enables sandbox workloads."""
WORKLOADS = ("container", "vm-passthrough", "vm-vgpu")
_DEPLOY = "nvidia.com/gpu.deploy.device-plugin"
_PAUSED = "paused-"
"""Prefix of the value that a label has while the operator reloads the driver or the MIG manager divides GPUs."""


def active_cluster_policy(view: ClusterView) -> Object | Unknown | None:
    """The ClusterPolicy that the operator follows: the oldest, then the first by name.

    If none are known, the one under review; unknown if several are, since any of them may be applied first.
    """
    policies = view.list("ClusterPolicy")
    if policies is UNKNOWN:
        reviewed = view.objects_under_review("ClusterPolicy")
        return reviewed[0] if len(reviewed) == 1 else UNKNOWN
    return min(policies, key=_age, default=None)


def node_workload(labels: Mapping[str, str], policy: Object | Unknown | None) -> str:
    """What the GPUs of a node are for: `container`, `vm-passthrough` or `vm-vgpu`.

    The operator ignores unknown values, and every label if the ClusterPolicy does not enable sandbox workloads. Without a
    known ClusterPolicy the label counts.
    """
    sandbox = lookup(policy, ("spec", "sandboxWorkloads"))
    if isinstance(policy, dict) and lookup(sandbox, ("enabled",)) is not True:
        return "container"
    candidates = (labels.get(WORKLOAD_CONFIG), lookup(sandbox, ("defaultWorkload",)))
    return next((each for each in candidates if each in WORKLOADS), "container")


def runs_device_plugin(node: Object, view: ClusterView, policy: Object | None = None) -> bool:
    """False if the operator keeps its device plugin off a node; true as long as nothing says so.

    Args:
        node: A node with GPUs.
        view: The cluster, with its ClusterPolicy or GPUCluster.
        policy: The ClusterPolicy as it is to be, while it is under review.
    """
    labels = labels_of(node)
    deploy = labels.get(_DEPLOY, "")
    if (deploy not in ("", "true") and not deploy.startswith(_PAUSED)) or labels.get(DEPLOY_OPERANDS_LABEL) == "false":
        return False
    followed = active_cluster_policy(view) if policy is None else policy
    if not isinstance(followed, dict) and _has_gpu_cluster(view):
        return False
    enabled = lookup(followed, ("spec", "devicePlugin", "enabled")) is not False
    return enabled and node_workload(labels, followed) == WORKLOADS[0]


def _has_gpu_cluster(view: ClusterView) -> bool:
    """True if there is a GPUCluster, which runs the DRA driver and excludes a ClusterPolicy."""
    clusters = view.list("GPUCluster")
    return clusters is not UNKNOWN and bool(clusters)


def _age(policy: Object) -> tuple[str, str]:
    # A ClusterPolicy that is not stored yet has no timestamp, and is the youngest.
    return str(lookup(policy, ("metadata", "creationTimestamp")) or "~"), name_of(policy)


SERVED_SINCE = (1, 34)
"""The version whose API server serves `resource.k8s.io/v1` and, by default, no older version of it; older kubelets read
only those. Source: k8s.io/kubernetes pkg/kubelet/cm/dra; dra-driver-nvidia-gpu issue 766."""


class OldKubelet(NamedTuple):
    """A kubelet that cannot read the claims of its pods."""

    node: str
    version: str


def nodes_with_both(view: ClusterView) -> tuple[str, ...]:
    """The nodes that hand out GPUs by a device plugin and by DRA; empty while they are unknown."""
    return view.derive(_nodes_with_both)


def old_kubelets(view: ClusterView) -> tuple[OldKubelet, ...]:
    """The kubelets before 1.34 on nodes with published GPUs, if the API server is newer."""
    version = view.server_version()
    return () if version is UNKNOWN or version < SERVED_SINCE else view.derive(_old_kubelets)


def _nodes_with_both(view: ClusterView) -> tuple[str, ...]:
    return tuple(sorted(node.name for node in _nodes_with_devices(view, lambda traits: traits.has_device_plugin)))


def _old_kubelets(view: ClusterView) -> tuple[OldKubelet, ...]:
    old = _nodes_with_devices(view, lambda traits: (traits.kubelet_version or SERVED_SINCE) < SERVED_SINCE)
    return tuple(sorted(OldKubelet(node.name, node.traits.kubelet) for node in old))


def _nodes_with_devices(view: ClusterView, condition: Callable[[NodeTraits], bool]) -> list[GPUNode]:
    """The nodes with published GPUs whose traits fulfil a condition."""
    nodes, devices = gpu_nodes(view), view.derive(published_devices)
    if nodes is UNKNOWN or devices is UNKNOWN:
        return []
    return [node for node in nodes.nodes_with(condition) if node.name in devices.types_by_node]
