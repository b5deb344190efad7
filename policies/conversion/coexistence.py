"""Nodes that converted pods do not get on with: a device plugin serves them too, or their kubelet is too old."""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.conversion.rules import OLD_KUBELET, TWICE
from policies.fleet.dra_nodes import nodes_with_both, old_kubelets
from policies.kubernetes.printable import printable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.decision import Finding
    from policies.kubernetes.paths import FieldPath
    from policies.view import ClusterView

__all__ = ["node_problems"]

_MOST_NAMED = 3


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
