"""Where a pod may run by its wish: conditions for all the GPUs that it asks for."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from policies.kubernetes.node_requirements import ALWAYS, Alternatives, both
from policies.kubernetes.nodes import REQUIRED
from policies.kubernetes.paths import lookup
from policies.nvidia.wishes import Wish
from policies.placement.wishes.node_labels import alternatives
from policies.placement.wishes.node_names import HOSTNAME, named_nodes, unlabelled_gpus
from policies.placement.wishes.product_labels import PRODUCT_SUFFIX, seen_products

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

    from policies.kubernetes.pods import Pod
    from policies.placement.wishes.asked_gpus import AskedGPU
    from policies.placement.wishes.product_labels import SeenProducts
    from policies.view import ClusterView

__all__ = ["WantedNodes", "wanted_nodes"]

_NOTHING = (Wish(), Wish(sharing="any"))
"""Wishes that every GPU meets."""


@dataclass(frozen=True, slots=True)
class WantedNodes:
    """What a wish requires of a pod's node."""

    alternatives: Alternatives = ALWAYS
    untold: tuple[AskedGPU, ...] = ()
    """What the pod asks for and neither labels nor ResourceSlices tell of; its wish is not kept for it."""

    @property
    def names(self) -> tuple[str, ...]:
        """The nodes that are named, where that is an alternative."""
        named = (item for branch in self.alternatives for item in branch if item.key == HOSTNAME)
        return tuple(sorted({name for item in named for name in item.values}))


def wanted_nodes(pod: Pod, asked: tuple[AskedGPU, ...], view: ClusterView, wish: Wish) -> WantedNodes:
    """The nodes that have, for every resource a pod asks for, what it wishes."""
    if wish in _NOTHING:
        return WantedNodes()
    seen = _with_selected(view.derive(seen_products), pod.spec)
    wanted, untold = ALWAYS, []
    for gpu in asked:
        by_label = alternatives(wish, gpu.labels, seen) if gpu.labels else ()
        by_name = named_nodes(wish, gpu, view)
        if gpu.labels or unlabelled_gpus(gpu, view):
            wanted = both(wanted, (*by_label, *by_name))
        else:
            untold.append(gpu)
    return WantedNodes(wanted, tuple(untold))


def _with_selected(seen: SeenProducts, spec: Mapping[str, Any]) -> SeenProducts:
    """The products seen, and those that the pod selects itself: it may know what comes."""
    selected: defaultdict[str, set[str]] = defaultdict(set)
    for key, values in _selected(spec):
        if key.endswith(PRODUCT_SUFFIX):
            selected[key].update(values)
    return {**seen, **{key: seen.get(key, frozenset()).union(values) for key, values in selected.items()}}


def _selected(spec: Mapping[str, Any]) -> Iterator[tuple[str, list[str]]]:
    for key, value in (spec.get("nodeSelector") or {}).items():
        yield key, [value]
    for term in lookup(spec, (*REQUIRED, "nodeSelectorTerms")) or []:
        for expression in term.get("matchExpressions") or []:
            if expression.get("operator") == "In":
                yield expression.get("key") or "", expression.get("values") or []
