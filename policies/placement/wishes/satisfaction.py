"""Satisfaction: whether some node has a GPU as a pod wishes it, and what there is where none has.

A finding is about the wish alone: what the pod says of its nodes beside it does not count here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from policies.decision import Severity
from policies.dra.published_devices import gpu_groups
from policies.nvidia.wishes import Wish
from policies.nvidia.wishes.bounds import as_sold
from policies.placement.gpu_nodes import gpu_nodes
from policies.placement.wishes.existing_gpus import ExistingGPU, existing_gpus
from policies.placement.wishes.lacking import lacking
from policies.placement.wishes.node_labels import alternatives
from policies.placement.wishes.node_names import is_as_wished
from policies.placement.wishes.product_labels import seen_products
from policies.rules import rule
from policies.view import UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.decision import Finding
    from policies.placement.wishes.asked_gpus import AskedGPU
    from policies.placement.wishes.pod_wishes import PodWishes
    from policies.settings import GPUAdmissionPolicy
    from policies.view import ClusterView

__all__ = ["unsatisfied"]

_ADD_ONE = "add a node with such a GPU, or wait for an autoscaler to add one"
_UNNOTICED = (
    "compare with what exists; the pod will not notice a node that comes later: apply it again then, or label the "
    "namespace gpu-admission.io/dra: enabled"
)
"""Where no label tells of GPUs, the pod is tied to nodes by name, or to labels that no node gets."""


UNSATISFIED = rule(
    "GA404",
    "A node must have a GPU that meets the wish",
    default=Severity.WARN,
    setting="placement.unsatisfiable",
    why="""
    No node has such a GPU now, so the pod will be Pending. That may pass: an autoscaled cluster has no GPU node until
    the first pod asks. It may also be a wish for what this cluster was never meant to have.""",
    remedy="compare with what exists, or wait for such a node",
    source="labels of GPU Feature Discovery, or ResourceSlices where nodes have none",
    unmatched=True,
)


def unsatisfied(
    asked: tuple[AskedGPU, ...], view: ClusterView, wishes: PodWishes, settings: GPUAdmissionPolicy
) -> Iterator[Finding]:
    """The first word of a wish that no node meets, of those that meet the words before it; for each resource.

    Silent where nodes are unknown, and where none offers the resource at all, which another rule tells.
    """
    nodes = gpu_nodes(view)
    if nodes is UNKNOWN or not wishes.wish:
        return
    severity = Severity(settings.placement.unsatisfiable)
    told: set[str] = set()
    for gpu in asked:
        if not nodes.nodes and _have_no_devices(gpu, view):
            missed: _Missed | None = _Missed(next(iter(wishes.texts)), "no node of the cluster has a GPU", _ADD_ONE)
        else:
            missed = _missed(gpu, view, wishes)
        if missed and missed.message not in told:
            told.add(missed.message)
            yield wishes.finding(UNSATISFIED, missed.word, missed.message, missed.remedy, severity=severity)


@dataclass(frozen=True, slots=True)
class _Missed:
    """A word that no GPU meets."""

    word: str
    message: str
    remedy: str | None


def _have_no_devices(gpu: AskedGPU, view: ClusterView) -> bool:
    """Whether nodes without labels have no GPU either; where slices are unknown, if no driver could hand one out."""
    groups = gpu_groups(view)
    return gpu.devices is None if groups is UNKNOWN else not groups


def _missed(gpu: AskedGPU, view: ClusterView, wishes: PodWishes) -> _Missed | None:
    left = existing = existing_gpus(gpu, view)
    for word, text in wishes.wish.words().items() if existing else ():
        part = Wish.of({word: text})
        meeting = _meeting(part, gpu, left, view)
        if not meeting:
            written = wishes.texts[word].strip()
            sold = as_sold(written) if word == "min-memory" else None
            if sold and _meeting(Wish.of({word: sold}), gpu, left, view):
                remedy: str | None = f'write "{sold}"'
            else:
                remedy = _UNNOTICED if all(each.group is not None for each in existing) else None
            return _Missed(word, lacking(word, part, written, left), remedy)
        left = meeting
    return None


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
