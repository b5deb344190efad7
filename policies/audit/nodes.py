"""Nodes on which pods with claims, or all GPU pods, are at risk."""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.audit.report import AuditFinding
from policies.conversion.rules import OLD_KUBELET, TWICE
from policies.fleet.device_plugin import active_cluster_policy, runs_device_plugin
from policies.fleet.dra_nodes import nodes_with_both, old_kubelets
from policies.kubernetes.paths import FieldPath
from policies.kubernetes.printable import printable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.decision import Finding
    from policies.settings import GPUAdmissionPolicy
    from policies.view import ClusterView

__all__ = ["node_findings"]

_ALLOCATABLE = FieldPath(("status", "allocatable"))
_KUBELET = FieldPath(("status", "nodeInfo", "kubeletVersion"))


def node_findings(namespace: str, view: ClusterView, settings: GPUAdmissionPolicy) -> Iterator[AuditFinding]:
    """Nodes that hand out GPUs both ways, and those whose kubelet cannot read claims; none if one namespace is audited.

    If the ClusterPolicy runs the device plugin on the nodes, it has the finding (GA145).
    """
    if namespace:
        return
    for name in nodes_with_both(view):
        if not _is_by_cluster_policy(name, view):
            text = "hands out the same GPUs by device plugin and by DRA; two pods could get one GPU"
            yield from _audit_findings(TWICE.finding(_ALLOCATABLE, text), name, settings)
    for node, version in old_kubelets(view):
        text = (
            f"is {printable(version)}, which does not read claims of resource.k8s.io/v1; a pod with a claim would not "
            "start here"
        )
        yield from _audit_findings(OLD_KUBELET.finding(_KUBELET, text), node, settings)


def _is_by_cluster_policy(name: str, view: ClusterView) -> bool:
    node = view.get("Node", name)
    policy = active_cluster_policy(view)
    return isinstance(node, dict) and isinstance(policy, dict) and runs_device_plugin(node, view, policy)


def _audit_findings(finding: Finding, node: str, settings: GPUAdmissionPolicy) -> Iterator[AuditFinding]:
    for found in settings.judge([finding], ""):
        yield AuditFinding(found.rule, found.severity, "Node", "", node, found.path, found.message, found.remedy)
