"""Allocations of claims on one node, in one call."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from policies.devices.allocation.allocator import Allocator
from policies.devices.allocation.pools import SliceIndex
from policies.devices.allocation.reading import DEFAULTS, Features
from policies.devices.allocation.usage import Usage, nanos

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from policies.kubernetes.objects import Object

__all__ = ["allocate", "features_named", "usage_of"]

_FIELDS = {
    "DRAAdminAccess": "admin_access",
    "DRAConsumableCapacity": "consumable_capacity",
    "DRADeviceBindingConditions+DRAResourceClaimDeviceStatus": "binding_conditions",
    "DRADeviceTaints": "device_taints",
    "DRAListTypeAttributes": "list_type_attributes",
    "DRAPartitionableDevices": "partitionable_devices",
    "DRAPrioritizedList": "prioritized_list",
}


def features_named(names: Iterable[str]) -> Features:
    """The features with these feature gates on and all others off; an unknown name is a KeyError."""
    on = {_FIELDS[name] for name in names}
    return Features(**{field: field in on for field in _FIELDS.values()})


def usage_of(
    devices: Iterable[str] = (), shares: Iterable[str] = (), capacity: Mapping[str, Mapping[str, Any]] | None = None
) -> Usage:
    """The usage of devices (`driver/pool/device`) and shares (`driver/pool/device/share`), with quantities by device."""
    return Usage(
        frozenset(devices),
        frozenset(share.rpartition("/")[0] for share in shares),
        {
            device: {name: nanos(amount, name) for name, amount in amounts.items()}
            for device, amounts in (capacity or {}).items()
        },
    )


def allocate(
    *,
    claims: Iterable[Object] | None,
    node: Object,
    slices: Iterable[Object] | None,
    classes: Iterable[Object] | None,
    allocated: Iterable[str] | None = (),
    allocated_shared: Iterable[str] | None = (),
    allocated_capacity: Mapping[str, Mapping[str, Any]] | None = None,
    features: Iterable[str] | None = None,
) -> list[Object] | None:
    """What `Allocator.allocate` returns; None stands for an empty list, because Go writes that as null."""
    allocator = Allocator(
        SliceIndex(slices or ()),
        claims=claims or (),
        classes=classes or (),
        usage=usage_of(allocated or (), allocated_shared or (), allocated_capacity),
        features=DEFAULTS if features is None else features_named(features),
    )
    return allocator.allocate(node)
