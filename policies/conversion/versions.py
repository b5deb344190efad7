"""Versions: whether API server and kubelets support extended resources that DRA hands out.

Both do by default since Kubernetes 1.36 (feature gate DRAExtendedResource). Whether the gate is on in an older one
cannot be seen. An older kubelet would start a pod without the devices that its claim has.

Source: KEP-5004; k8s.io/kubernetes pkg/features/kube_features.go, pkg/kubelet/lifecycle/predicate.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from policies.dra.published_devices import published_devices
from policies.fleet.gpu_nodes import gpu_nodes
from policies.kubernetes.printable import printable
from policies.view import UNKNOWN, ClusterView, Unknown

if TYPE_CHECKING:
    from policies.fleet.gpu_nodes import GPUNode

__all__ = ["kubelet_problem", "server_problem"]

_SINCE = (1, 36)


def server_problem(view: ClusterView) -> str | None:
    """Why the API server does not support them; None if it does."""
    version = view.server_version()
    if version is UNKNOWN:
        return "the version of the API server is not known"
    return None if version >= _SINCE else f"the API server is {version[0]}.{version[1]}"


def kubelet_problem(view: ClusterView, *, of_dra_only: bool = False) -> str | None:
    """Why the kubelets of GPU nodes do not support them; None if they do, or if no GPU node exists.

    `of_dra_only` limits this to nodes whose GPUs are in ResourceSlices.
    """
    kubelets = view.derive(_old_kubelets)
    if kubelets is UNKNOWN:
        return "the Nodes are not known"
    old = [each for each in kubelets if each.by_dra or (each.by_plugin and not of_dra_only)]
    if old:
        version = printable(old[0].version) or "a version that is not known"
        more = f" and that of {len(old) - 1} more older than 1.36" if len(old) > 1 else ""
        return f'the kubelet of GPU node "{printable(old[0].node)}" is {version}{more}'
    if kubelets and view.derive(published_devices) is UNKNOWN:
        return f'whether node "{printable(kubelets[0].node)}", whose kubelet is older, has GPUs is not known (ResourceSlices)'
    return None


class _Kubelet(NamedTuple):
    """A kubelet before 1.36, or of unknown version."""

    node: str
    version: str
    by_plugin: bool
    """True if the node has GPUs by its labels, or hands them out by a device plugin."""
    by_dra: bool


def _old_kubelets(view: ClusterView) -> tuple[_Kubelet, ...] | Unknown:
    nodes, devices = gpu_nodes(view), view.derive(published_devices)
    if nodes is UNKNOWN:
        return UNKNOWN
    old = nodes.nodes_with(lambda traits: traits.kubelet_version is None or traits.kubelet_version < _SINCE)
    with_devices = {} if devices is UNKNOWN or not old else devices.types_by_node
    return tuple(_kubelet(node, by_dra=node.name in with_devices) for node in old)


def _kubelet(node: GPUNode, *, by_dra: bool) -> _Kubelet:
    by_plugin = node.traits.has_device_plugin or node.traits.has_gpu_labels
    return _Kubelet(node.name, node.traits.kubelet, by_plugin, by_dra)
