"""Versions: whether API server and kubelets know extended resources that DRA hands out.

Both do by default since Kubernetes 1.36 (feature gate DRAExtendedResource). Whether an older one had the gate turned
on cannot be seen. An older kubelet would start a pod without the devices that its claim has.

Source: KEP-5004; k8s.io/kubernetes pkg/features/kube_features.go, pkg/kubelet/lifecycle/predicate.go.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from policies.dra.published_devices import published_devices
from policies.kubernetes.nodes import labels_of
from policies.kubernetes.objects import name_of
from policies.kubernetes.paths import lookup
from policies.kubernetes.printable import printable
from policies.nvidia.identifiers import PRESENT_LABEL, PRODUCT_LABEL
from policies.nvidia.resources import parse_resource
from policies.view import UNKNOWN, ClusterView, Unknown

if TYPE_CHECKING:
    from policies.kubernetes.objects import Object

__all__ = ["kubelet_problem", "server_problem"]

_SINCE = (1, 36)
_VERSION = re.compile(r"v?(\d{1,4})\.(\d{1,4})")


def server_problem(view: ClusterView) -> str | None:
    """Why the API server cannot be relied on, or None."""
    version = view.server_version()
    if version is UNKNOWN:
        return "the version of the API server is not known"
    return None if version >= _SINCE else f"the API server is {version[0]}.{version[1]}"


def kubelet_problem(view: ClusterView, *, of_dra_only: bool = False) -> str | None:
    """Why the kubelets of GPU nodes cannot be relied on, or None; also where there is no GPU node yet.

    `of_dra_only` asks of those nodes only whose GPUs are in ResourceSlices.
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
    """A kubelet that is older, or says no version."""

    node: str
    version: str
    by_plugin: bool
    """Whether the node has GPUs by its labels, or hands them out by a device plugin."""
    by_dra: bool = False


def _old_kubelets(view: ClusterView) -> tuple[_Kubelet, ...] | Unknown:
    nodes, devices = view.derive_each("Node", _old_kubelet), view.derive(published_devices)
    if nodes is UNKNOWN:
        return UNKNOWN
    old = [kubelet for kubelet in nodes if kubelet is not None]
    with_devices = frozenset() if devices is UNKNOWN or not old else devices.gpu_nodes
    return tuple(kubelet._replace(by_dra=True) if kubelet.node in with_devices else kubelet for kubelet in old)


def _old_kubelet(node: Object) -> _Kubelet | None:
    version = _text(node)
    return None if _is_recent(version) else _Kubelet(name_of(node), version, _has_gpu(node))


def _text(node: Object) -> str:
    text = lookup(node, ("status", "nodeInfo", "kubeletVersion"))
    return text if isinstance(text, str) else ""


def _is_recent(text: str) -> bool:
    match = _VERSION.match(text)
    return match is not None and (int(match[1]), int(match[2])) >= _SINCE


def _has_gpu(node: Object) -> bool:
    labels, offers = labels_of(node), lookup(node, ("status", "allocatable"))
    offered = isinstance(offers, dict) and any(
        parse_resource(name) is not None and str(amount) != "0" for name, amount in offers.items()
    )
    return offered or PRODUCT_LABEL in labels or labels.get(PRESENT_LABEL) == "true"
