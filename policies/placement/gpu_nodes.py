"""GPU nodes: what there is for pods that ask a device plugin for GPUs."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from itertools import compress
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from policies.kubernetes.nodes import REQUIRED, NodeIndex, labels_of
from policies.kubernetes.objects import name_of
from policies.kubernetes.paths import lookup
from policies.kubernetes.quantities import QuantityError, parse_quantity
from policies.nvidia.identifiers import GPU_RESOURCE, PRESENT_LABEL, PRODUCT_LABEL, VENDOR_PREFIX
from policies.nvidia.resources import IMPLICIT_PREFIX
from policies.view import UNKNOWN, ClusterView, Unknown

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from policies.kubernetes.objects import Object

__all__ = ["GPUNode", "GPUNodes", "gpu_node", "gpu_nodes"]


@dataclass(frozen=True, slots=True)
class GPUNode:
    """A node with GPUs, or with anything else of NVIDIA's to hand out."""

    name: str
    labels: Mapping[str, str]
    offers: Mapping[str, int]
    """What its kubelet has to allocate: amounts, all above 0, of resources under `nvidia.com/` and implicit names."""


@dataclass(frozen=True)
class GPUNodes:
    """The GPU nodes of a cluster: those that offer something, and those whose labels say that they have a GPU."""

    nodes: tuple[GPUNode, ...]
    others: int = 0
    """How many nodes there are beside them."""

    def selected(self, spec: Mapping[str, Any]) -> tuple[GPUNode, ...]:
        """The nodes that a pod's own node selector and required node affinity let it run on, or the one that it names."""
        name = spec.get("nodeName")
        if name:
            return tuple(node for node in self.nodes if node.name == name)
        if not spec.get("nodeSelector") and not lookup(spec, REQUIRED):
            return self.nodes
        bits = self._index.selected(spec)
        return tuple(compress(self.nodes, map("1".__eq__, reversed(f"{bits:b}")))) if bits else ()

    @cached_property
    def products(self) -> Mapping[str, int]:
        """How many nodes have each value of `nvidia.com/gpu.product`."""
        return Counter(node.labels[PRODUCT_LABEL] for node in self.nodes if PRODUCT_LABEL in node.labels)

    @cached_property
    def offers(self) -> Mapping[str, int]:
        """How many nodes offer each resource."""
        return Counter(name for node in self.nodes for name in node.offers)

    @cached_property
    def largest_offers(self) -> Mapping[str, tuple[str, int]]:
        """The node that offers most of each resource, of equal nodes the first by name, and how much."""
        largest: dict[str, tuple[str, int]] = {}
        for node in sorted(self.nodes, key=attrgetter("name")):
            for name, amount in node.offers.items():
                if amount > largest.get(name, ("", 0))[1]:
                    largest[name] = node.name, amount
        return largest

    @cached_property
    def handing_out_gpus(self) -> Mapping[str, int]:
        """How many nodes of each product hand out `nvidia.com/gpu`, the empty product for nodes without the label."""
        return Counter(node.labels.get(PRODUCT_LABEL, "") for node in self.nodes if GPU_RESOURCE in node.offers)

    @cached_property
    def _index(self) -> NodeIndex:
        return NodeIndex.of((node.name, node.labels) for node in self.nodes)


def gpu_nodes(view: ClusterView) -> GPUNodes | Unknown:
    """The GPU nodes that a view shows; unknown while nodes are. It is digested once for all pods."""
    return view.derive(_read)


def _read(view: ClusterView) -> GPUNodes | Unknown:
    nodes = view.derive_each("Node", gpu_node)
    if nodes is UNKNOWN:
        return UNKNOWN
    found = tuple(node for node in nodes if node is not None)
    return GPUNodes(found, len(nodes) - len(found))


def gpu_node(node: Object) -> GPUNode | None:
    """What a node offers; None where it has no GPU, nor anything else of NVIDIA's. Use it by `view.derive_each`."""
    labels, offers = labels_of(node), dict(_offers(node))
    if offers or PRODUCT_LABEL in labels or labels.get(PRESENT_LABEL) == "true":
        return GPUNode(name_of(node), labels, offers)
    return None


def _offers(node: Object) -> Iterator[tuple[str, int]]:
    allocatable = lookup(node, ("status", "allocatable"))
    for name, text in allocatable.items() if isinstance(allocatable, dict) else ():
        if not isinstance(name, str) or not name.startswith((VENDOR_PREFIX, IMPLICIT_PREFIX)):
            continue
        try:
            amount = int(parse_quantity(text))
        except QuantityError:
            continue
        if amount > 0:
            yield name, amount
