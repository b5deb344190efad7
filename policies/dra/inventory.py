"""The cluster's GPUs at a glance: devices that no selector of ours can tell apart, counted together."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from policies.kubernetes.resourceslices import Device, PoolPart, devices_in, newest
from policies.nvidia.identifiers import DRIVER
from policies.view import UNKNOWN, ClusterView, Unknown

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Mapping

    from policies.kubernetes.objects import Object

__all__ = ["DeviceGroup", "inventory", "largest_node"]

_INDIVIDUAL = frozenset(f"{DRIVER}/{name}" for name in ("uuid", "parentUUID", "gpuModuleID"))
"""Attributes that tell like devices apart and that no label speaks of."""


@dataclass(frozen=True, slots=True)
class DeviceGroup:
    """Devices of NVIDIA's driver that are alike."""

    device: Device
    """One of them."""
    count: int
    nodes: frozenset[str]
    by_node: Mapping[str, int]
    """How many there are on each node; under an empty name those that several nodes reach."""

    @property
    def type(self) -> str:
        """`gpu`, `mig` or `vfio`."""
        return str(self.device.attributes.get(f"{DRIVER}/type", ""))

    @property
    def product(self) -> str:
        """The product as labels spell it, with the MIG profile where it is a MIG device."""
        name = self.device.attributes.get(f"{DRIVER}/productName")
        product = str(name).replace(" ", "-") if name else "a GPU without a name"
        profile = self.device.attributes.get(f"{DRIVER}/profile")
        return f"{product} MIG {profile}" if profile else product


def inventory(view: ClusterView) -> tuple[DeviceGroup, ...] | Unknown:
    """All GPUs in ResourceSlices, grouped; unknown while slices are. Use it by `view.derive(inventory)`."""
    slices = view.derive_each("ResourceSlice", _of_slice)
    if slices is UNKNOWN:
        return UNKNOWN
    groups: defaultdict[Hashable, list[_Alike]] = defaultdict(list)
    for alikes in newest(each for each in slices if each is not None):
        for alike in alikes:
            groups[alike.likeness].append(alike)
    return tuple(map(_group, groups.values()))


def _group(alikes: list[_Alike]) -> DeviceGroup:
    by_node: dict[str, int] = {}
    for alike in alikes:
        for node, number in alike.by_node:
            by_node[node] = by_node.get(node, 0) + number
    return DeviceGroup(alikes[0].device, sum(by_node.values()), frozenset(by_node), by_node)


def largest_node(counts: Iterable[Mapping[str, int]]) -> tuple[str, int]:
    """The node that reaches most devices, and how many; of equal nodes the first by name.

    Args:
        counts: How many devices of some kind there are on each node. Those under an empty name are reached by several
            nodes, and counted for each; the node is called `any node` if there are no others.
    """
    nodes: Counter[str] = Counter()
    for each in counts:
        nodes.update(each)
    everywhere = nodes.pop("", 0)
    node, count = min(nodes.items(), key=lambda item: (-item[1], item[0]), default=("any node", 0))
    return node, count + everywhere


class _Alike(NamedTuple):
    """Devices of one slice that are alike."""

    likeness: Hashable
    device: Device
    """The first of them."""
    by_node: tuple[tuple[str, int], ...]
    """How many there are on each node."""


def _of_slice(resource_slice: Object) -> tuple[PoolPart, tuple[_Alike, ...]] | None:
    """The GPUs of one slice, grouped; None where it is not of NVIDIA's driver."""
    part = PoolPart.of(resource_slice)
    if part is None or part.pool[0] != DRIVER:
        return None
    groups: defaultdict[Hashable, list[Device]] = defaultdict(list)
    for device in devices_in(resource_slice):
        groups[_likeness(device)].append(device)
    return part, tuple(
        _Alike(_once(likeness), devices[0], tuple(Counter(device.node for device in devices).items()))
        for likeness, devices in groups.items()
    )


@lru_cache(maxsize=1024)
def _once(likeness: Hashable) -> Hashable:
    """The same object for what is equal: thousands of slices have devices of a few kinds."""
    return likeness


def _likeness(device: Device) -> Hashable:
    return (
        frozenset(
            (name, value)
            for name, value in device.attributes.items()
            if name.startswith(f"{DRIVER}/") and name not in _INDIVIDUAL
        ),
        frozenset((name, value) for name, value in device.capacity.items() if "/memorySlice" not in name),
        device.shareable,
    )
