"""Kinds of GPUs: nodes that no wish can tell apart, counted together, so that 5,000 of them are read once."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from policies.dra.inventory import inventory
from policies.nvidia.products import PRODUCT
from policies.placement.gpu_nodes import gpu_nodes
from policies.view import UNKNOWN, ClusterView, Unknown

if TYPE_CHECKING:
    from collections.abc import Mapping

    from policies.placement.wishes.asked_gpus import AskedGPU

__all__ = ["GPUKind", "gpu_kinds", "offering"]

_WISHED = re.compile(
    r"nvidia\.com/(gpu\.(product|memory|family|compute\.(major|minor)|sharing-strategy|slices\.gi)|"
    r"cuda\.(driver|runtime)-version\.(major|minor|revision|full)|mig-.*\.(product|memory|sharing-strategy))"
)
"""The labels that wishes are rendered to, and those that tell people the same."""


@dataclass(frozen=True, slots=True)
class GPUKind:
    """Nodes whose labels say the same of their GPUs."""

    labels: Mapping[str, str]
    """Those that wishes are about."""
    offers: frozenset[str]
    """The resources that their kubelets have to allocate."""
    types: frozenset[str]
    """The types of the devices that a DRA driver publishes for them."""
    nodes: int


def gpu_kinds(view: ClusterView) -> tuple[GPUKind, ...] | Unknown:
    """The kinds of GPUs that labels tell of. Use it by `view.derive(gpu_kinds)`."""
    nodes = gpu_nodes(view)
    if nodes is UNKNOWN:
        return UNKNOWN
    types = _types_by_node(view)
    wished = {key for key in {key for node in nodes.nodes for key in node.labels} if _WISHED.fullmatch(key)}
    counts: Counter[tuple[frozenset[tuple[str, str]], frozenset[str], frozenset[str]]] = Counter()
    for node in nodes.nodes:
        labels = frozenset((key, node.labels[key]) for key in wished & node.labels.keys())
        counts[labels, frozenset(node.offers), frozenset(types.get(node.name, ()))] += 1
    return tuple(GPUKind(dict(labels), offers, found, count) for (labels, offers, found), count in counts.items())


def offering(kinds: tuple[GPUKind, ...], asked: AskedGPU) -> list[GPUKind]:
    """The labelled nodes that could give a pod what it asks for."""
    return [
        kind
        for kind in kinds
        if asked.name in kind.offers
        or (PRODUCT in kind.labels and asked.devices is not None and asked.devices.kind in kind.types)
    ]


def _types_by_node(view: ClusterView) -> Mapping[str, set[str]]:
    groups = view.derive(inventory)
    types: defaultdict[str, set[str]] = defaultdict(set)
    for group in () if groups is UNKNOWN else groups:
        for node in group.nodes:
            types[node].add(group.type)
    return types
