"""Satisfaction: whether some node has a GPU as a pod wishes it, and what there is where none has.

A finding is about the wish alone: what the pod says of its nodes beside it does not count here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.decision import Severity
from policies.dra.inventory import inventory
from policies.nvidia.wishes import Wish
from policies.placement.gpu_nodes import gpu_nodes
from policies.placement.rules import UNSATISFIED
from policies.placement.wishes.existing_gpus import ExistingGPU, existing_gpus
from policies.placement.wishes.lacking import lacking
from policies.placement.wishes.node_labels import alternatives
from policies.placement.wishes.node_names import is_as_wished
from policies.placement.wishes.product_labels import seen_products
from policies.view import UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.decision import Finding
    from policies.placement.wishes.asked_gpus import AskedGPU
    from policies.placement.wishes.wished import Wished
    from policies.settings import GPUAdmissionPolicy
    from policies.view import ClusterView

__all__ = ["unsatisfied"]


def unsatisfied(
    asked: tuple[AskedGPU, ...], view: ClusterView, wishes: Wished, settings: GPUAdmissionPolicy
) -> Iterator[Finding]:
    """The first word of a wish that no node meets, of those that meet the words before it; for each resource.

    Silent where nodes are unknown, and where none offers the resource at all, which another rule tells.
    """
    nodes = gpu_nodes(view)
    if nodes is UNKNOWN:
        return
    severity = Severity(settings.placement.unsatisfiable)
    told: set[str] = set()
    for gpu in asked:
        existing = existing_gpus(gpu, view)
        word, message = _missed(gpu, existing, view, wishes.wish)
        if not nodes.nodes and _have_no_devices(gpu, view):
            word, message = next(iter(wishes.texts)), "no node of the cluster has a GPU"
        if word and message not in told:
            told.add(message)
            yield wishes.finding(UNSATISFIED, word, message, severity=severity)


def _have_no_devices(gpu: AskedGPU, view: ClusterView) -> bool:
    """Whether nodes without labels have no GPU either; where slices are unknown, if no driver could hand one out."""
    groups = view.derive(inventory)
    return gpu.devices is None if groups is UNKNOWN else not groups


def _missed(gpu: AskedGPU, existing: list[ExistingGPU], view: ClusterView, wish: Wish) -> tuple[str, str]:
    """The word that nothing meets and what is said of it; empty where something meets all of them."""
    for word, text in wish.words().items() if existing else ():
        part = Wish.of({word: text})
        left = _meeting(part, gpu, existing, view)
        if not left:
            return word, lacking(word, part, existing)
        existing = left
    return "", ""


def _meeting(wish: Wish, gpu: AskedGPU, existing: list[ExistingGPU], view: ClusterView) -> list[ExistingGPU]:
    by_label = alternatives(wish, gpu.labels, view.derive(seen_products)) if gpu.labels else ()
    return [
        each
        for each in existing
        if (
            is_as_wished(each.group, wish, gpu)
            if each.group is not None
            else any(all(item.holds(each.labels) for item in branch) for branch in by_label)
        )
    ]
