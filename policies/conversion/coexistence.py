"""Nodes that converted pods do not get on with: a device plugin serves them too, or their kubelet is too old."""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.decision import Severity
from policies.fleet.dra_nodes import nodes_with_both, old_kubelets
from policies.kubernetes.printable import printable
from policies.rules import rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.decision import Finding
    from policies.kubernetes.paths import FieldPath
    from policies.view import ClusterView

__all__ = ["node_problems"]

_MOST_NAMED = 3


OLD_KUBELET = rule(
    "GA336",
    "The kubelets of nodes with devices must read the claims that the API server serves",
    default=Severity.WARN,
    why="""
    Kubernetes 1.34 and later serve claims as resource.k8s.io/v1, and older versions of them only if the administrator
    enables these. A kubelet before 1.34 reads the older versions only. The scheduler does not know: the pod is bound, and
    its containers never start.""",
    remedy="upgrade the kubelets, or let kube-apiserver serve resource.k8s.io/v1beta1 and v1beta2 too (--runtime-config)",
    source="k8s.io/kubernetes pkg/kubelet/cm/dra; github.com/kubernetes-sigs/dra-driver-nvidia-gpu issue 766",
    shared_cause=True,
)

TWICE = rule(
    "GA314",
    "A node must hand out its GPUs by the device plugin or by DRA, not both",
    default=Severity.WARN,
    why="""
    Device plugin and DRA driver know nothing of each other. Where both run on a node, one GPU can be given to two pods
    at once.""",
    remedy="turn the device plugin off on these nodes (label nvidia.com/gpu.deploy.device-plugin=false)",
    source="github.com/NVIDIA/aicr issue 332; gpu-operator validation of ClusterPolicy and GPUCluster",
    shared_cause=True,
)


def node_problems(view: ClusterView, path: FieldPath) -> Iterator[Finding]:
    """Nodes with devices that hand out GPUs both ways, or whose kubelet cannot read claims."""
    if nodes := nodes_with_both(view):
        verb = "hands" if len(nodes) == 1 else "hand"
        text = f"{_named(nodes)} {verb} out the same GPUs by device plugin and by DRA; two pods could get one GPU"
        yield TWICE.finding(path, text)
    if kubelets := old_kubelets(view):
        nodes = tuple(each.node for each in kubelets)
        have = "has" if len(nodes) == 1 else "have"
        text = (
            f"{_named(nodes)} {have} kubelet {printable(kubelets[0].version)} or older, which does not read claims of "
            "resource.k8s.io/v1; a pod with a claim would not start there"
        )
        text = text.replace(" or older", "") if len(nodes) == 1 else text
        yield OLD_KUBELET.finding(path, text)


def _named(nodes: tuple[str, ...]) -> str:
    more = f" and {len(nodes) - _MOST_NAMED} more" if len(nodes) > _MOST_NAMED else ""
    return ", ".join(nodes[:_MOST_NAMED]) + more
