"""Unusable nodes: why a node gives no pod its GPUs, whatever the devices are."""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.fleet.cluster_digest import ResourceUsage
from policies.kubernetes.amounts import amount_text, billionths, pod_amounts
from policies.kubernetes.objects import DEFAULT_NAMESPACE, name_of, namespace_of
from policies.kubernetes.paths import lookup
from policies.kubernetes.taints import is_cordoned, preventing_taints
from policies.nvidia.identifiers import VENDOR_PREFIX
from policies.phrases import shorten
from policies.usage.node_gpus import UnusableKind, UnusableReason
from policies.view import UNKNOWN
from policies.work import count_work

if TYPE_CHECKING:
    from collections.abc import Container, Mapping

    from policies.kubernetes.objects import Object
    from policies.view import ClusterView

__all__ = ["UnusableNodes"]

_SCARCE = ("pods", "cpu", "memory")
"""The resources that a pod needs beside its GPUs, in the order in which shortages are reported."""
_WORK_PER_NODE = 20
_MISSING = UnusableReason(
    UnusableKind.NODE_MISSING, "the node does not exist, although its devices are still published"
)
_CORDONED = UnusableReason(UnusableKind.CORDONED, "the node is cordoned")


class UnusableNodes:
    """Says what keeps new pods off nodes."""

    def __init__(self, view: ClusterView, holders: Container[tuple[str, str]], *, all_pods: bool) -> None:
        """Read the nodes, and the least that a pod with GPUs requests.

        Args:
            view: The cluster. If its nodes are unknown, nothing keeps pods off.
            holders: Namespace and name of the pods that hold GPUs.
            all_pods: True if the view has the pods of all namespaces; if not, no node counts as full.
        """
        nodes = view.list("Node")
        self._nodes = None if nodes is UNKNOWN else {name_of(node): node for node in nodes}
        self._used = ResourceUsage(view) if all_pods else None
        self._least = _least_requests(view, holders)

    def unusable_reason(self, node: str) -> UnusableReason | None:
        """The first reason of a node, in the order of the scheduler; None if pods with GPUs can come."""
        if self._nodes is None or not node:
            return None
        count_work(_WORK_PER_NODE)
        document = self._nodes.get(node)
        if document is None:
            return _MISSING
        if is_cordoned(document):
            return _CORDONED
        return _taint_reason(document) or self._shortage(node, document)

    def _shortage(self, node: str, document: Object) -> UnusableReason | None:
        offered = lookup(document, ("status", "allocatable"))
        if self._used is None or not isinstance(offered, dict):
            return None
        used = self._used.of(node)
        for resource in _SCARCE:
            if resource not in offered or not self._least.get(resource):
                continue
            allocatable = billionths(offered[resource])
            left = max(allocatable - used.get(resource, 0), 0)
            if left < self._least[resource]:
                return UnusableReason(UnusableKind.NO_ROOM, self._sentence(resource, left, allocatable))
        return None

    def _sentence(self, resource: str, left: int, allocatable: int) -> str:
        most = amount_text(resource, allocatable)
        if resource == "pods":
            return f"the node has no room for another pod: it runs {most} already"
        least, rest = amount_text(resource, self._least[resource]), amount_text(resource, left)
        return f"the node has {rest} of {most} {resource} left, and every pod with GPUs requests at least {least}"


def _taint_reason(node: Object) -> UnusableReason | None:
    """The first taint other than NVIDIA's own, which all pods with GPUs tolerate."""
    for taint in preventing_taints(node):
        if taint.key.startswith(VENDOR_PREFIX):
            continue
        spelled = shorten(str(taint))
        said = f"{taint.condition} (taint {spelled})" if taint.condition else f"the node has the taint {spelled}"
        return UnusableReason(UnusableKind.TAINTED, said)
    return None


def _least_requests(view: ClusterView, holders: Container[tuple[str, str]]) -> Mapping[str, int]:
    """The least of each scarce resource that a pod with GPUs requests, in billionths."""
    least: dict[str, int] = {}
    pods = view.list("Pod")
    for pod in () if pods is UNKNOWN else pods:
        if (namespace_of(pod) or DEFAULT_NAMESPACE, name_of(pod)) in holders:
            amounts = pod_amounts(pod.get("spec"))
            for resource in _SCARCE:
                amount = amounts.get(resource, 0)
                least[resource] = min(least.get(resource, amount), amount)
    return least or pod_amounts({})
