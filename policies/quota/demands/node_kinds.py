"""Kinds of nodes: what nodes hand out as extended resources, one kind for like nodes."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, NamedTuple
from weakref import WeakKeyDictionary

from policies.devices.published_devices import gpu_groups
from policies.fleet.gpu_nodes import gpu_nodes, narrows_gpus
from policies.fleet.offers.shown import NOT_SHARED, ShownSharing
from policies.kubernetes.view import UNKNOWN, ClusterView, Unknown
from policies.nvidia.mig_products import product_named
from policies.quota.demands.device_kinds import any_profile, mig_share, quota_device
from policies.rules.charges import DeviceKind

if TYPE_CHECKING:
    from collections.abc import Mapping

    from policies.devices.published_devices import DeviceGroup
    from policies.fleet.gpu_nodes import NodeTraits
    from policies.fleet.offers.shown import ShownDevice
    from policies.nvidia.mig import GPUResource

__all__ = [
    "BARE",
    "NodeKind",
    "NodeKinds",
    "Offer",
    "counted_offer",
    "mig_product_label",
    "node_kinds",
    "possible_mig_devices",
    "visible_kinds",
]


_MEBIBYTE = 2**20


class Offer(NamedTuple):
    """What a node hands out under the name of one resource."""

    device: DeviceKind
    """Before it is shared."""
    sharing: ShownSharing = NOT_SHARED


@dataclass(frozen=True, slots=True)
class NodeKind:
    """Nodes that no request for GPUs can tell apart."""

    labels: frozenset[tuple[str, str]]
    """Labels that narrow what a pod can get."""
    offers: frozenset[tuple[str, Offer]] = frozenset()
    """Offers of the device plugin by resource."""


BARE = NodeKind(frozenset())
"""Nodes without labels of GPUs and without offers."""


@dataclass(frozen=True)
class NodeKinds:
    """The kinds of the nodes that show GPUs."""

    by_name: Mapping[str, NodeKind]
    """By the names of the nodes."""
    _of_group: WeakKeyDictionary[DeviceGroup, frozenset[NodeKind] | None] = field(
        default_factory=WeakKeyDictionary, compare=False
    )

    @cached_property
    def all(self) -> frozenset[NodeKind]:
        """Each kind once."""
        return frozenset(self.by_name.values())

    def with_devices(self, group: DeviceGroup) -> frozenset[NodeKind] | None:
        """The kinds of nodes that have a device of a group; None if several nodes reach one of the devices."""
        if group not in self._of_group:
            names = group.by_node
            self._of_group[group] = None if "" in names else frozenset(self.by_name.get(name, BARE) for name in names)
        return self._of_group[group]


def node_kinds(view: ClusterView) -> NodeKinds | Unknown:
    """The kinds of the nodes that show GPUs. Use it by `view.derive(node_kinds)`."""
    nodes = gpu_nodes(view)
    if nodes is UNKNOWN:
        return UNKNOWN
    kinds = {key: _node_kind(traits) for key, traits in nodes.traits_by_identity.items()}
    found = ((node.name, kinds[id(node.traits)]) for node in nodes.all)
    return NodeKinds({name: kind for name, kind in found if kind is not None})


def visible_kinds(view: ClusterView) -> frozenset[DeviceKind]:
    """The kinds of devices that nodes and ResourceSlices show, as far as they are known."""
    nodes, groups = view.derive(node_kinds), gpu_groups(view)
    offered = () if nodes is UNKNOWN else (offer.device for node in nodes.all for _, offer in node.offers)
    published = () if groups is UNKNOWN else (quota_device(group.first).device for group in groups)
    return frozenset((*offered, *published))


def possible_mig_devices(view: ClusterView) -> frozenset[DeviceKind]:
    """The MIG devices into which the GPUs of the cluster can be divided. Use it by `view.derive`.

    Their product is empty, as that of a node which an autoscaler adds. If no GPU is known that MIG divides, those of every
    product, of unknown memory.
    """
    products = sorted({kind.product for kind in visible_kinds(view) if product_named(kind.product) is not None})
    found = {replace(kind, product="") for product in products for kind in any_profile(product)}
    return frozenset(found) or any_profile()


def mig_product_label(resource: GPUResource) -> str:
    """The label with the product of a resource such as `nvidia.com/mig-1g.5gb`."""
    return f"{resource.name.removesuffix('.shared')}.product"


@lru_cache(maxsize=4096)
def _node_kind(traits: NodeTraits) -> NodeKind | None:
    """What nodes with these traits hand out, and the labels by which pods choose it; None for neither."""
    narrowing = frozenset((key, value) for key, value in traits.labels if narrows_gpus(key))
    if not traits.shown_devices and not narrowing:
        return None
    return NodeKind(narrowing, frozenset((name, counted_offer(each)) for name, each in traits.shown_devices.items()))


def counted_offer(shown: ShownDevice) -> Offer:
    """What a node hands out under the name of a resource, as quotas count it."""
    memory = None if shown.memory is None else shown.memory * _MEBIBYTE
    if shown.profile is None:
        return Offer(DeviceKind(shown.product, memory=memory), shown.sharing)
    whole = None if shown.gpu_memory is None else shown.gpu_memory * _MEBIBYTE
    share = mig_share(shown.product, shown.profile, whole)
    return Offer(DeviceKind(shown.product, str(shown.profile), share, memory), shown.sharing)
