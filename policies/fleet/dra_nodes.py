"""Nodes with GPUs in ResourceSlices: those that a device plugin serves as well, and those whose kubelet is too old."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from policies.dra.published_devices import published_devices
from policies.kubernetes.nodes import allocatable
from policies.kubernetes.objects import name_of
from policies.kubernetes.paths import lookup
from policies.nvidia.resources import parse_resource
from policies.view import UNKNOWN

if TYPE_CHECKING:
    from policies.kubernetes.objects import Object
    from policies.view import ClusterView

__all__ = ["SERVED_SINCE", "OldKubelet", "nodes_with_both", "old_kubelets"]

SERVED_SINCE = (1, 34)
"""The version whose API server serves `resource.k8s.io/v1` and, by default, no older version of it; older kubelets read
only those. Source: k8s.io/kubernetes pkg/kubelet/cm/dra; dra-driver-nvidia-gpu issue 766."""
_VERSION = re.compile(r"v?(\d{1,4})\.(\d{1,4})")


class OldKubelet(NamedTuple):
    """A kubelet that cannot read the claims of its pods."""

    node: str
    version: str


def nodes_with_both(view: ClusterView) -> tuple[str, ...]:
    """The nodes that hand out GPUs by a device plugin and by DRA; none while nodes or ResourceSlices are unknown."""
    return view.derive(_nodes_with_both)


def old_kubelets(view: ClusterView) -> tuple[OldKubelet, ...]:
    """The kubelets before 1.34 on nodes with devices, under an API server that is not; none while something is unknown."""
    version = view.server_version()
    return () if version is UNKNOWN or version < SERVED_SINCE else view.derive(_old_kubelets)


def _nodes_with_both(view: ClusterView) -> tuple[str, ...]:
    nodes = view.derive_each("Node", _served_by_plugin)
    with_devices = _with_devices(view)
    return tuple(
        sorted(name for name in (() if nodes is UNKNOWN else nodes) if name is not None and name in with_devices)
    )


def _old_kubelets(view: ClusterView) -> tuple[OldKubelet, ...]:
    nodes = view.derive_each("Node", _old_kubelet)
    with_devices = _with_devices(view)
    found = (each for each in (() if nodes is UNKNOWN else nodes) if each is not None and each.node in with_devices)
    return tuple(sorted(found))


def _with_devices(view: ClusterView) -> frozenset[str]:
    known = view.derive(published_devices)
    return frozenset() if known is UNKNOWN else known.gpu_nodes


def _served_by_plugin(node: Object) -> str | None:
    """The name of a node that hands out GPUs by a device plugin, None of any other."""
    resources = lookup(node, ("status", "allocatable"))
    offers = isinstance(resources, dict) and any(
        parse_resource(name) is not None and allocatable(node, name) != "0" for name in resources
    )
    return name_of(node) if offers else None


def _old_kubelet(node: Object) -> OldKubelet | None:
    text = lookup(node, ("status", "nodeInfo", "kubeletVersion"))
    match = _VERSION.match(text) if isinstance(text, str) else None
    is_old = match is not None and (int(match[1]), int(match[2])) < SERVED_SINCE
    return OldKubelet(name_of(node), str(text)) if is_old else None
