"""Kinds of GPUs: nodes that no wish can tell apart, counted together, so that 5,000 of them are read once."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from policies.dra.published_devices import gpu_groups
from policies.nvidia.identifiers import PRODUCT_LABEL
from policies.placement.gpu_nodes import gpu_node
from policies.view import UNKNOWN, ClusterView, Unknown

if TYPE_CHECKING:
    from collections.abc import Mapping

    from policies.kubernetes.objects import Object
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
    nodes = view.derive_each("Node", _told_by)
    if nodes is UNKNOWN:
        return UNKNOWN
    types = _types_by_node(view)
    counts = Counter((each.told, types.get(each.name, frozenset())) for each in nodes if each is not None)
    return tuple(GPUKind(dict(told.labels), told.offers, found, count) for (told, found), count in counts.items())


class _Told(NamedTuple):
    """What a node tells of its GPUs."""

    labels: frozenset[tuple[str, str]]
    offers: frozenset[str]


class _GPUNode(NamedTuple):
    name: str
    told: _Told


def _told_by(node: Object) -> _GPUNode | None:
    """What a node tells of its GPUs; None where it has none."""
    known = gpu_node(node)
    if known is None:
        return None
    labels = frozenset((key, value) for key, value in known.labels.items() if _is_wished(key))
    return _GPUNode(known.name, _once(_Told(labels, frozenset(known.offers))))


@lru_cache(maxsize=4096)
def _is_wished(key: str) -> bool:
    return _WISHED.fullmatch(key) is not None


@lru_cache(maxsize=1024)
def _once(told: _Told) -> _Told:
    """The same object for what is equal: thousands of nodes tell the same."""
    return told


def offering(kinds: tuple[GPUKind, ...], asked: AskedGPU) -> list[GPUKind]:
    """The labelled nodes that could give a pod what it asks for."""
    return [
        kind
        for kind in kinds
        if asked.name in kind.offers
        or (PRODUCT_LABEL in kind.labels and asked.devices is not None and asked.devices.kind in kind.types)
    ]


def _types_by_node(view: ClusterView) -> Mapping[str, frozenset[str]]:
    groups = gpu_groups(view)
    nodes: defaultdict[str, set[str]] = defaultdict(set)
    for group in () if groups is UNKNOWN else groups:
        nodes[group.type].update(group.by_node)
    types: dict[str, frozenset[str]] = {}
    for name, having in nodes.items():
        alone = frozenset({name})
        united: dict[frozenset[str], frozenset[str]] = {}
        for node in having:
            before = types.get(node)
            types[node] = alone if before is None else united.setdefault(before, before | alone)
    return types
