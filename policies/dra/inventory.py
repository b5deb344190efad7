"""The cluster's GPUs at a glance: devices that no selector of ours can tell apart, counted together."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from policies.kubernetes.resourceslices import Device, devices_of
from policies.nvidia.drivers import DRIVER
from policies.view import UNKNOWN, ClusterView, Unknown

if TYPE_CHECKING:
    from collections.abc import Hashable

__all__ = ["DeviceGroup", "inventory"]

_INDIVIDUAL = frozenset(f"{DRIVER}/{name}" for name in ("uuid", "parentUUID", "gpuModuleID"))
"""Attributes that tell like devices apart and that no label speaks of."""


@dataclass(frozen=True, slots=True)
class DeviceGroup:
    """Devices of NVIDIA's driver that are alike."""

    device: Device
    """One of them."""
    count: int
    nodes: frozenset[str]

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
    slices = view.list("ResourceSlice")
    if slices is UNKNOWN:
        return UNKNOWN
    groups: defaultdict[Hashable, list[Device]] = defaultdict(list)
    for device in devices_of(slices):
        if device.driver == DRIVER:
            groups[_likeness(device)].append(device)
    return tuple(
        DeviceGroup(devices[0], len(devices), frozenset(device.node for device in devices))
        for devices in groups.values()
    )


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
