"""Kinds of devices and of nodes, as quotas count them."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import WeakKeyDictionary

from policies.devices.device_sharing import SharingMode, requested_parts, sharing_of
from policies.devices.published_devices import gpu_groups, published_devices
from policies.fleet.gpu_nodes import gpu_nodes, narrows_gpus
from policies.fleet.offers.shown import NOT_SHARED, ShownSharing
from policies.kubernetes.bounds import LONGEST_KEY, count_work, remember_short
from policies.kubernetes.objects import lookup
from policies.kubernetes.quantities import quantity_or_none
from policies.kubernetes.view import UNKNOWN, ClusterView, Unknown
from policies.nvidia.identifiers import DRIVER
from policies.nvidia.mig import AMPERE, Geometry, MIGProfile
from policies.nvidia.mig_products import PRODUCTS, product_named
from policies.nvidia.products import BRAND, any_matches, fold_name
from policies.rules.charges import DeviceKind
from policies.rules.settings.choices import DEFAULTS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from policies.devices.device_sharing import DeviceSharing
    from policies.devices.published_devices import DeviceGroup, PublishedDevices
    from policies.fleet.gpu_nodes import NodeTraits
    from policies.fleet.offers.shown import ShownDevice
    from policies.kubernetes.resourceslices import Device
    from policies.nvidia.mig import GPUResource, Layout, Match
    from policies.rules.settings.choices import Quotas, ReplicaWeight


GIB = 2**30
_WHOLE, _NOTHING = Fraction(1), Fraction(0)

_MEMORY_SLICES = {1: 1, 2: 2, 3: 4, 4: 4, 7: 8}
"""Of eight, for so many of seven compute slices, as most profiles have them."""
_IN_NAME = re.compile(r"(?:^|-)([1-9][0-9]{0,2})gb(?:-|$)")
_SOLD: dict[int, tuple[str, ...]] = {
    8: ("tesla-p4",),
    16: ("tesla-t4", "a2", "a16", "rtx-a4000"),
    20: ("rtx-a4500", "rtx-4000-ada-generation", "rtx-4000-sff-ada-generation"),
    24: (
        "tesla-p40",
        "quadro-rtx-6000",
        "a10",
        "a10g",
        "l4",
        "rtx-a5000",
        "rtx-4500-ada-generation",
        "geforce-rtx-3090",
        "geforce-rtx-4090",
    ),
    32: ("rtx-5000-ada-generation", "geforce-rtx-5090"),
    48: ("quadro-rtx-8000", "a40", "l20", "l40", "l40s", "rtx-a6000", "rtx-6000-ada-generation"),
}
"""GiB of products that MIG cannot divide and whose names do not contain it.

Source: NVIDIA's datasheets of the products. Drivers report somewhat less.
"""
_BY_NAME = {name: gib for gib, names in _SOLD.items() for name in names}


def replica_kind(device: DeviceKind, sharing: ShownSharing, weights: tuple[ReplicaWeight, ...] = ()) -> DeviceKind:
    """The kind of one replica of a device: 1/replicas of it, or the GPU share that the settings say.

    Memory is divided by replicas whatever the weight: nothing keeps a time-sliced pod from more, so this is its fair
    share of it. Of several weights for a product the last one counts.
    """
    if sharing.replicas <= 1:
        return device
    weight = Fraction(1, sharing.replicas)
    for each in weights:
        if each.sharing == sharing.strategy and _names(each.products, device.product):
            weight = Fraction(each.gpus)
    memory = None if device.memory is None else device.memory // sharing.replicas
    return replace(device, gpus=device.gpus * weight, memory=memory)


def _names(products: tuple[str, ...], product: str) -> bool:
    return any_matches(_folded_globs(products), fold_name(product))


@remember_short(256)
def _folded_globs(products: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(fold_name(glob).removeprefix("nvidia-") for glob in products)


@remember_short(1024)
def mig_share(product: str, profile: MIGProfile, memory: int | None = None) -> Fraction:
    """The part of its GPU that a MIG device is: the larger of its shares of compute and of memory slices.

    A compute instance that is smaller than its GPU instance is its part of that.

    Args:
        product: of the GPU, in any spelling; where it is not known, all GPUs count that have such a profile.
        profile: of the device.
        memory: of the whole GPU in bytes; None if unknown. It decides how a GPU of an unknown product is divided.
    """
    known = product_named(product)
    if known is not None:
        layout, match = known.layout, known.match(profile)
    else:
        layout, match = AMPERE, None if memory is None else Geometry(-(-memory // GIB)).match(profile)
    share = _share_by_name(profile) if match is None else _share(layout, match)
    return share * profile.compute_slices / profile.gpu_slices if profile.shares_gpu_instance else share


def _share(layout: Layout, match: Match) -> Fraction:
    compute = Fraction(match.shape.compute_slices, layout.compute_slices)
    return max(compute, Fraction(match.shape.memory_slices, layout.memory_slices))


def _share_by_name(profile: MIGProfile) -> Fraction:
    """The largest share of such a profile on any known GPU; if there is none, with 7 and 8 slices."""
    shares = [
        _share(each.layout, match) for each in PRODUCTS if (match := each.match(profile)) is not None and match.exact
    ]
    if shares:
        return max(shares)
    memory = _MEMORY_SLICES.get(profile.gpu_slices, 0)
    return min(Fraction(1), max(Fraction(profile.gpu_slices, 7), Fraction(memory, 8)))


def largest_memory_named(profile: MIGProfile) -> int:
    """The most bytes that a MIG device of this name has; names are rounded to the nearest GiB."""
    return (2 * profile.memory_gb + 1) * GIB // 2


def unseen_slice(profile: MIGProfile, product: str = "") -> DeviceKind:
    """A MIG device that no node shows; it has no more memory than its GPU."""
    whole = product_memory(product) if product else None
    named = largest_memory_named(profile)
    return DeviceKind(product, str(profile), mig_share(product, profile), named if whole is None else min(named, whole))


@remember_short(64)
def any_profile(product: str = "") -> frozenset[DeviceKind]:
    """MIG devices of every profile that a product has.

    Where it is not known, those of every product, of unknown memory: it may be any.
    """
    known = product_named(product)
    if known is None:
        profiles = {match.profile for each in PRODUCTS for geometry in each.geometries for match in geometry.matches}
        return frozenset(DeviceKind(product, str(profile), mig_share("", profile)) for profile in profiles)
    return frozenset(
        unseen_slice(match.profile, product) for geometry in known.geometries for match in geometry.matches
    )


def unseen_gpu(product: str = "") -> DeviceKind:
    """A whole GPU that no node shows, with the memory that its product is known for."""
    return DeviceKind(product, memory=product_memory(product) if product else None)


def product_memory(product: str) -> int | None:
    """The most bytes of any GPU that is sold under the name of a product; None if that is unknown.

    Args:
        product: as labels or devices spell it, without suffixes for MIG and sharing.
    """
    divisible = product_named(product)
    if divisible is not None:
        return max(divisible.memory) * GIB
    name = fold_name(product).removeprefix(BRAND)
    match = _IN_NAME.search(name)
    gib = int(match[1]) if match else _BY_NAME.get(name)
    return None if gib is None else gib * GIB


class QuotaDevice(NamedTuple):
    """A device of NVIDIA's driver, as quotas count it."""

    device: DeviceKind
    sharing: DeviceSharing

    def kind_taken(self, parts: Mapping[str, Fraction], settings: Quotas = DEFAULTS.quota) -> DeviceKind:
        """The part of the device that a claim counts for: the largest part that it takes of a capacity.

        If the driver shares the device without limit, the claim counts for at least `unlimitedShare`: little memory in
        the request does not lower it, because the driver does not keep the claim from using more.

        Args:
            parts: Of its capacities, by name.
            settings: How quotas count.
        """
        part = min(max(parts.values(), default=_NOTHING), _WHOLE)
        if self.sharing.mode is SharingMode.UNLIMITED and part < 1:
            share = settings.unlimited_part(self.device.memory)
            if share is None:
                return replace(self.device, shared_without_limit=True)
            part = max(part, share)
        if part == _WHOLE:
            return self.device
        memory = None if self.device.memory is None else int(part * self.device.memory)
        return replace(self.device, gpus=self.device.gpus * part, memory=memory)


def quota_device(device: Device) -> QuotaDevice:
    """A device as quotas count it."""
    texts = [lookup(device.item("attributes", DRIVER, name), ("string",)) for name in ("productName", "profile")]
    product, profile = (text if isinstance(text, str) else "" for text in texts)
    item = device.item("capacity", DRIVER, "memory")
    memory = quantity_or_none(lookup(item, ("value",)) if isinstance(item, dict) else item)
    return _quota_device(product, profile, memory, sharing_of(device))


@lru_cache(maxsize=1024)
def _quota_device(product: str, profile: str, memory: Fraction | None, sharing: DeviceSharing) -> QuotaDevice:
    """The device with these properties; the same object for equal ones."""
    name, parsed = product.replace(" ", "-"), MIGProfile.parse(profile)
    share = _WHOLE if parsed is None else mig_share(name, parsed)
    held = int(memory) if memory is not None and memory > 0 else None
    return QuotaDevice(DeviceKind(name, profile, share, held), sharing)


_MEBIBYTE = 2**20


class Offer(NamedTuple):
    """The device that a node hands out under the name of one resource."""

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


def published_kind(device: Device, requests: Mapping[str, Any] | None, settings: Quotas) -> DeviceKind | None:
    """The part of a published device that a request counts for; None if it cannot get the device.

    Args:
        device: A device of NVIDIA's driver.
        requests: The `capacity.requests` of the request.
        settings: How quotas count.
    """
    parts = requested_parts(device, requests)
    return None if parts is None else quota_device(device).kind_taken(parts, settings)


def unpublished_kinds(
    kinds: frozenset[DeviceKind],
    view: ClusterView,
    requests: Mapping[str, Any] | None,
    settings: Quotas,
    *,
    is_shareable: bool = False,
) -> frozenset[DeviceKind]:
    """The parts of unpublished devices that a request counts for.

    It is the largest part that the request takes of any published device: the driver is assumed to share GPUs that an
    autoscaler adds as it shares the others. GPUs and MIG devices are compared with their like; if none is published that
    the request could get, it counts for the whole device.

    Args:
        kinds: The unpublished devices.
        view: The cluster.
        requests: The `capacity.requests` of the request.
        settings: How quotas count.
        is_shareable: True if the request can only get devices that several claims can hold. Memory that it requests of
            these is then the memory that it takes, whatever the device.
    """
    published = view.derive(published_devices)
    if not kinds or published is UNKNOWN or (not requests and not all(each.is_shareable for each in published.gpus)):
        return kinds
    largest = _largest_parts(published, requests, settings, is_shareable=is_shareable)
    counted = set()
    for kind in kinds:
        part, is_limited, memory = largest.get(bool(kind.profile), _LargestPart())
        if memory is None and kind.memory is not None:
            memory = int(part * kind.memory)
        counted.add(replace(kind, gpus=kind.gpus * part, memory=memory, shared_without_limit=not is_limited))
    return frozenset(counted)


class _LargestPart(NamedTuple):
    """The largest part that a request takes of any published device."""

    part: Fraction = _WHOLE
    is_limited: bool = True
    """False if the driver shares the device without limit, and no setting says what a claim counts for."""
    memory: int | None = None
    """In bytes, if all such devices are shared by memory, and the request names how much."""


_LargestParts = dict[bool, _LargestPart]
"""The largest part of a whole GPU (False), and of a MIG device (True)."""
_LARGEST: WeakKeyDictionary[PublishedDevices, dict[tuple[str, str, bool], _LargestParts]] = WeakKeyDictionary()
_MOST_KEPT = 256


def _largest_parts(
    published: PublishedDevices, requests: Mapping[str, Any] | None, settings: Quotas, *, is_shareable: bool
) -> _LargestParts:
    """The largest parts that a request takes of published devices; empty if it can get none."""
    known = _LARGEST.setdefault(published, {})
    key = json.dumps(requests or {}, sort_keys=True, default=str), settings.unlimited_share, is_shareable
    if key in known:
        return known[key]
    count_work(len(published.gpus))
    largest: _LargestParts = {}
    for group in published.gpus:
        taken = published_kind(group.first, requests, settings)
        if taken is None or (is_shareable and not group.is_shareable):
            continue
        device = quota_device(group.first)
        is_by_memory = is_shareable and device.sharing.mode is SharingMode.MEMORY and "memory" in (requests or {})
        found = _LargestPart(
            taken.gpus / device.device.gpus, not taken.shared_without_limit, taken.memory if is_by_memory else None
        )
        if (before := largest.get(bool(taken.profile))) is not None:
            part, is_limited = max(found[:2], before[:2])
            memory = None if found.memory is None or before.memory is None else max(found.memory, before.memory)
            found = _LargestPart(part, is_limited, memory)
        largest[bool(taken.profile)] = found
    if len(known) >= _MOST_KEPT:
        known.clear()
    if len(key[0]) <= LONGEST_KEY:
        known[key] = largest
    return largest


UNLIMITED_CLAUSE = "a claim counts as a whole GPU, because the driver shares GPUs without limit"
UNLIMITED_REMEDY = "set quota.unlimitedShare of the GPUAdmissionPolicy"


def unlimited_remark(view: ClusterView, settings: Quotas) -> str:
    """A sentence for clusters in which claims of GPUs shared without limit count whole; empty for others."""
    groups = gpu_groups(view)
    published = () if groups is UNKNOWN else groups
    kinds = (published_kind(group.first, None, settings) for group in published if group.is_shareable)
    is_whole = any(kind is not None and kind.shared_without_limit for kind in kinds)
    return f"{UNLIMITED_CLAUSE}; {UNLIMITED_REMEDY} to count less" if is_whole else ""


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
    """The kind of nodes with these traits; None if they show neither devices nor labels of GPUs."""
    narrowing = frozenset((key, value) for key, value in traits.labels if narrows_gpus(key))
    if not traits.shown_devices and not narrowing:
        return None
    return NodeKind(narrowing, frozenset((name, counted_offer(each)) for name, each in traits.shown_devices.items()))


def counted_offer(shown: ShownDevice) -> Offer:
    """The device that a node hands out under the name of a resource, as quotas count it."""
    memory = None if shown.memory is None else shown.memory * _MEBIBYTE
    if shown.profile is None:
        return Offer(DeviceKind(shown.product, memory=memory), shown.sharing)
    whole = None if shown.gpu_memory is None else shown.gpu_memory * _MEBIBYTE
    share = mig_share(shown.product, shown.profile, whole)
    return Offer(DeviceKind(shown.product, str(shown.profile), share, memory), shown.sharing)
