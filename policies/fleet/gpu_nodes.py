"""GPU nodes: what each node of the cluster says of its GPUs, by labels and by allocatable resources."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import compress
from operator import attrgetter
from typing import TYPE_CHECKING, Any, TypeVar

from policies.fleet.offers.shown import LabelledResource, ShownSharing, shown_device
from policies.kubernetes.bounds import LONGEST_KEY
from policies.kubernetes.nodes import REQUIRED, NodeIndex, labels_of
from policies.kubernetes.objects import lookup, name_of
from policies.kubernetes.quantities import quantity_or_none
from policies.kubernetes.view import UNKNOWN, ClusterView, Unknown
from policies.nvidia.identifiers import CLOUD_LABELS, GPU_RESOURCE, PRESENT_LABEL, PRODUCT_LABEL, VENDOR_PREFIX
from policies.nvidia.mig import IMPLICIT_PREFIX, parse_resource

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping

    from policies.fleet.offers.shown import ShownDevice
    from policies.kubernetes.objects import Object
    from policies.nvidia.products import Product


H = TypeVar("H", bound="Hashable")

_NARROWING = re.compile(
    r"nvidia\.com/(gpu\.(product|memory|family|compute\.(major|minor)|sharing-strategy|replicas|slices\.gi)|"
    r"cuda\.(driver|runtime)-version\.(major|minor|revision|full)|mig\.(strategy|capable)|"
    r"mig-.*\.(product|memory|sharing-strategy|replicas))"
)
"""Labels of GPU Feature Discovery by which a pod says what GPU it can get: those that wishes are rendered to, too."""
_DESCRIBING = (".product", ".memory", ".family", ".sharing-strategy", ".mode", ".present", ".capable", ".shared")
"""The ends of further labels under `nvidia.com/` that describe GPUs and have few values in a cluster."""
_KUBELET = re.compile(r"v?(\d{1,4})\.(\d{1,4})")


@dataclass(frozen=True)
class NodeTraits:
    """The traits that thousands of nodes have in common. Like nodes share one object."""

    label_names: frozenset[str]
    """The names of all labels under `nvidia.com/`."""
    labels: frozenset[tuple[str, str]]
    """The labels that describe GPUs."""
    offers: frozenset[str]
    """The names of `GPUNode.offers`."""
    plugin_resources: frozenset[str]
    """Resources of NVIDIA's device plugin in allocatable or capacity; a restarting plugin takes the allocatable away."""
    extended_resources: frozenset[str]
    """The names of all extended resources in allocatable, also with an amount of 0."""
    kubelet: str
    """The version of the kubelet; empty if it is unknown."""
    hidden_shares: int = 1
    """The shares of each whole GPU by the capacity of the node, where labels hide them; else 1."""

    @cached_property
    def label_values(self) -> Mapping[str, str]:
        """The labels that describe GPUs, by name."""
        return dict(self.labels)

    @cached_property
    def has_gpu_labels(self) -> bool:
        """True if the labels say that the node has a GPU."""
        return has_gpu_labels(self.label_values)

    @property
    def has_gpus(self) -> bool:
        """True if the node offers a resource of NVIDIA or of a DeviceClass, or has labels of a GPU."""
        return bool(self.offers) or self.has_gpu_labels

    @cached_property
    def has_device_plugin(self) -> bool:
        """True if a device plugin hands out GPUs here."""
        return any(parse_resource(name) is not None for name in self.offers)

    @cached_property
    def kubelet_version(self) -> tuple[int, int] | Unknown:
        """Major and minor version of the kubelet."""
        match = _KUBELET.match(self.kubelet)
        return UNKNOWN if match is None else (int(match[1]), int(match[2]))

    @cached_property
    def shown_devices(self) -> Mapping[str, ShownDevice]:
        """The device that the node hands out under the name of each resource of `plugin_resources`."""
        labels, found = self.label_values, {}
        for name in self.plugin_resources:
            resource = parse_resource(name)
            if resource is None:
                continue
            found[name] = shown_device(resource, labels)
            if self.hidden_shares > 1 and not resource.mig:
                # The plugin exits if MPS is to share GPUs with MIG on.
                sharing = ShownSharing(self.hidden_shares, "time-slicing")
                found[name] = found[name]._replace(sharing=sharing, is_shared=True)
        return found

    @cached_property
    def plugin_product(self) -> Product:
        """The product that `nvidia.com/gpu` is on the node, by its labels."""
        shown = LabelledResource(GPU_RESOURCE, self.label_values)
        product, is_shared = shown.product, shown.is_shared or self.hidden_shares > 1
        return product if product.shared == is_shared else replace(product, shared=is_shared)


@dataclass(frozen=True, slots=True)
class GPUNode:
    """A node, as far as GPUs are concerned."""

    name: str
    labels: Mapping[str, str]
    offers: Mapping[str, int]
    """Allocatable amounts above 0 of resources under `nvidia.com/` and of implicit names of DeviceClasses."""
    traits: NodeTraits


@dataclass(frozen=True)
class GPUNodes:
    """The nodes of a cluster, and which of them have GPUs."""

    all: tuple[GPUNode, ...]
    """All nodes, also those without GPUs."""

    @cached_property
    def nodes(self) -> tuple[GPUNode, ...]:
        """The nodes that offer GPUs, and those whose labels say that they have a GPU."""
        return self.nodes_with(lambda traits: traits.has_gpus)

    @property
    def others(self) -> int:
        """The number of nodes without GPUs."""
        return len(self.all) - len(self.nodes)

    @cached_property
    def traits_by_identity(self) -> Mapping[int, NodeTraits]:
        """The traits of all nodes by their `id`, which is much faster to compute than their hash."""
        return {id(node.traits): node.traits for node in self.all}

    @cached_property
    def traits(self) -> Mapping[NodeTraits, int]:
        """The number of nodes with GPUs that have the same traits."""
        counts: Counter[NodeTraits] = Counter()
        for key, number in Counter([id(node.traits) for node in self.nodes]).items():
            counts[self.traits_by_identity[key]] += number
        return counts

    def nodes_with(self, condition: Callable[[NodeTraits], bool]) -> tuple[GPUNode, ...]:
        """The nodes whose traits fulfil a condition, also nodes without GPUs."""
        fulfil = {key: condition(traits) for key, traits in self.traits_by_identity.items()}
        if not any(fulfil.values()):
            return ()
        return tuple(node for node in self.all if fulfil[id(node.traits)])

    def select(self, spec: Mapping[str, Any]) -> tuple[GPUNode, ...]:
        """The GPU nodes that a pod's node selector and required affinity allow, or the one that it names."""
        name = spec.get("nodeName")
        if name:
            return tuple(node for node in self.nodes if node.name == name)
        if not _selects_nodes(spec):
            return self.nodes
        bits = self._index.select(spec)
        return tuple(compress(self.nodes, map("1".__eq__, reversed(f"{bits:b}")))) if bits else ()

    @cached_property
    def product_labels(self) -> Mapping[str, frozenset[str]]:
        """The values of each label of a product, such as `nvidia.com/mig-1g.5gb.product`."""
        seen: defaultdict[str, set[str]] = defaultdict(set)
        for traits in self.traits:
            for key, value in traits.labels:
                if key.endswith(".product"):
                    seen[key].add(value)
        return {key: frozenset(values) for key, values in seen.items()}

    @cached_property
    def offers(self) -> Mapping[str, int]:
        """The number of nodes that offer each resource."""
        return self._count(lambda traits: traits.offers)

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
    def extended_resources(self) -> frozenset[str]:
        """The extended resources of any vendor that a node has, also with an amount of 0."""
        return frozenset[str]().union(*(traits.extended_resources for traits in self.traits_by_identity.values()))

    @cached_property
    def handing_out_gpus(self) -> Mapping[str, int]:
        """The number of nodes of each product that hand out `nvidia.com/gpu`; empty without the label."""
        return self._count(
            lambda traits: [traits.label_values.get(PRODUCT_LABEL, "")] if GPU_RESOURCE in traits.offers else []
        )

    @cached_property
    def plugin_products(self) -> Mapping[Product, int]:
        """The products that nodes hand out as `nvidia.com/gpu`, with the number of these nodes."""
        return self._count(lambda traits: [traits.plugin_product] if GPU_RESOURCE in traits.offers else [])

    def selected_products(self, spec: Mapping[str, Any]) -> Mapping[Product, int]:
        """The same for the nodes that a pod's own node selector and required node affinity allow."""
        if not _selects_nodes(spec):
            return self.plugin_products
        selected = self._index.select(spec)
        counts = {product: (selected & nodes).bit_count() for product, nodes in self._with_product.items()}
        return {product: count for product, count in counts.items() if count}

    @cached_property
    def names_parts_without_plugin(self) -> bool:
        """True if labels of a node without a device plugin say that `nvidia.com/gpu` is a part of a GPU."""
        return any(
            (traits.plugin_product.profile or traits.plugin_product.shared) and not traits.has_device_plugin
            for traits in self.traits
        )

    @cached_property
    def _with_product(self) -> Mapping[Product, int]:
        """The nodes of each product, as the index numbers them."""
        nodes: defaultdict[Product, int] = defaultdict(int)
        for position, node in enumerate(self.nodes):
            if GPU_RESOURCE in node.offers:
                nodes[node.traits.plugin_product] |= 1 << position
        return nodes

    @cached_property
    def _index(self) -> NodeIndex:
        return NodeIndex.of((node.name, node.labels) for node in self.nodes)

    def _count(self, values: Callable[[NodeTraits], Iterable[H]]) -> Mapping[H, int]:
        """The number of nodes with GPUs that have each value."""
        counts: Counter[H] = Counter()
        for traits, number in self.traits.items():
            for value in values(traits):
                counts[value] += number
        return counts


def gpu_nodes(view: ClusterView) -> GPUNodes | Unknown:
    """The nodes of the cluster with their GPUs; unknown while nodes are."""
    return view.derive(_gpu_nodes)


def has_gpu_labels(labels: Mapping[str, str]) -> bool:
    """True if the labels of a node say that it has a GPU.

    The GPU Operator sets `nvidia.com/gpu.present` to `false` on a node that has lost its GPUs.

    Source: github.com/NVIDIA/gpu-operator, commonGPULabelKey.
    """
    return PRODUCT_LABEL in labels or labels.get(PRESENT_LABEL) == "true"


def narrows_gpus(key: str) -> bool:
    """True if a node label says what GPU a pod gets there."""
    return len(key) <= LONGEST_KEY and _is_narrowing(key)


def node_facts(node: Object) -> GPUNode:
    """The node with what it says of its GPUs."""
    labels, offers = labels_of(node), dict(_amounts(node, "allocatable", (VENDOR_PREFIX, IMPLICIT_PREFIX)))
    capacity = dict(_amounts(node, "capacity", (VENDOR_PREFIX,)))
    had = capacity | offers
    allocatable, kubelet = (
        lookup(node, ("status", *path)) for path in (("allocatable",), ("nodeInfo", "kubeletVersion"))
    )
    traits = NodeTraits(
        frozenset(key for key in labels if key.startswith(VENDOR_PREFIX)),
        frozenset((key, value) for key, value in labels.items() if _is_describing(key)),
        frozenset(offers),
        frozenset(name for name in had if parse_resource(name) is not None),
        frozenset(name for name in allocatable if "/" in name) if isinstance(allocatable, dict) else frozenset(),
        kubelet if isinstance(kubelet, str) else "",
        _hidden_shares(labels, offers | capacity),
    )
    return GPUNode(name_of(node), labels, offers, _shared_traits(traits))


def _hidden_shares(labels: Mapping[str, str], capacity: Mapping[str, int]) -> int:
    """The shares of each GPU that labels hide; 1 where they hide none.

    With MIG on on every GPU, labels say 0 replicas and no strategy. Under the strategy `none`, the device plugin offers and shares such GPUs as whole ones.
    """
    shown = LabelledResource(GPU_RESOURCE, labels)
    if shown.replicas != 0 or not shown.device_count:
        return 1
    offered = max(capacity.get(name, 0) for name in (GPU_RESOURCE, f"{GPU_RESOURCE}.shared"))
    return max(1, offered // shown.device_count)


def _gpu_nodes(view: ClusterView) -> GPUNodes | Unknown:
    nodes = view.derive_each("Node", node_facts)
    return UNKNOWN if nodes is UNKNOWN else GPUNodes(tuple(nodes))


def _amounts(node: Object, field: str, prefixes: tuple[str, ...]) -> Iterator[tuple[str, int]]:
    """The resources under some prefixes of which a node has any."""
    resources = lookup(node, ("status", field))
    for name, text in resources.items() if isinstance(resources, dict) else ():
        if not isinstance(name, str) or not name.startswith(prefixes):
            continue
        amount = int(quantity_or_none(text) or 0)
        if amount > 0:
            yield name, amount


@lru_cache(maxsize=4096)
def _shared_traits(traits: NodeTraits) -> NodeTraits:
    """The same object for equal traits."""
    return traits


@lru_cache(maxsize=4096)
def _is_narrowing(key: str) -> bool:
    return _NARROWING.fullmatch(key) is not None


@lru_cache(maxsize=4096)
def _is_describing(key: str) -> bool:
    return key in CLOUD_LABELS or (key.startswith(VENDOR_PREFIX) and (key.endswith(_DESCRIBING) or narrows_gpus(key)))


def _selects_nodes(spec: Mapping[str, Any]) -> bool:
    return bool(spec.get("nodeSelector") or lookup(spec, REQUIRED))
