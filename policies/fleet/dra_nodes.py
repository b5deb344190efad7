"""Nodes with published GPUs that a device plugin serves too, and those whose kubelet is too old."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from policies.dra.published_devices import published_devices
from policies.fleet.gpu_nodes import gpu_nodes
from policies.view import UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Callable

    from policies.fleet.gpu_nodes import GPUNode, NodeTraits
    from policies.view import ClusterView

__all__ = ["SERVED_SINCE", "OldKubelet", "nodes_with_both", "old_kubelets"]

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
