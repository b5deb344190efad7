"""Device sharing: how NVIDIA's driver shares a device between claims, and the part that each takes."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from enum import StrEnum
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from policies.kubernetes.bounds import remember_short
from policies.kubernetes.objects import lookup, mapping_at
from policies.kubernetes.quantities import quantity_or_none
from policies.nvidia.identifiers import DRIVER

if TYPE_CHECKING:
    from collections.abc import Mapping

    from policies.devices.allocation.capacity import Capacity
    from policies.kubernetes.objects import Object
    from policies.kubernetes.resourceslices import Device


class SharingMode(StrEnum):
    """The ways in which NVIDIA's driver shares a device between claims (`consumableShares`)."""

    NONE = "none"
    """One claim holds it alone."""
    SHARES = "shares"
    """A claim takes shares of a fixed number, one by default."""
    MEMORY = "memory"
    """A claim takes memory, all of it by default."""
    UNLIMITED = "unlimited"
    """A claim takes memory, none of it by default, so that any number of claims can hold the device."""


ALONE: Mapping[str, Fraction] = {"": Fraction(1)}
"""The parts of a claim that holds a device alone."""


@dataclass(frozen=True, slots=True, eq=False)
class DeviceSharing:
    """The sharing of a device."""

    mode: SharingMode
    shares: int = 0
    """The number of its shares in the mode `SHARES`."""
    capacities: Mapping[str, Capacity] = field(default_factory=dict)
    is_readable: bool = True
    """False if the allocator cannot read its capacities, and so gives it to no claim."""


def sharing_of(device: Device) -> DeviceSharing:
    """The sharing of a device.

    Source: github.com/kubernetes-sigs/dra-driver-nvidia-gpu cmd/gpu-kubelet-plugin/consumable_shares.go.
    """
    if not device.is_shareable:
        return _EXCLUSIVE
    return _read_sharing(device.capacity_text)


def requested_parts(device: Device, requests: Mapping[str, Any] | None) -> Mapping[str, Fraction] | None:
    """The part of each capacity of a device that a request takes; None if it cannot get the device.

    Amounts are rounded as the allocator rounds them. A request takes all of a capacity without a request policy, unless it
    names less. So a MIG device, whose multiprocessors have no policy, is held by one claim in every mode.

    Args:
        device: A device of NVIDIA's driver.
        requests: The `capacity.requests` of the request.
    """
    if not (device.is_shareable or requests):
        return ALONE
    # One of the names is no capacity of the device. This needs no look at them, however many there are.
    if requests and len(requests) > len(device.items_of("capacity")):
        return None
    parts = _parts(_read_sharing(device.capacity_text), json.dumps(requests or {}, sort_keys=True, default=str))
    return parts if parts is None or device.is_shareable else ALONE


def consumed_capacity(result: Object) -> Mapping[str, Any] | None:
    """The amounts that a result takes of a shared device; None if it holds the device alone.

    Source: k8s.io/dynamic-resource-allocation/structured: only results with a `shareID` share their device.
    """
    return mapping_at(result, ("consumedCapacity",)) if result.get("shareID") else None


def held_parts(device: Device, consumed: Mapping[str, Any] | None) -> Mapping[str, Fraction]:
    """The part of each capacity of a device that an allocation takes.

    If it takes nothing, because the driver shared the device otherwise when it was allocated, it counts as a request without
    amounts does now.

    Args:
        device: A device of NVIDIA's driver.
        consumed: As `consumed_capacity` returns it.
    """
    if consumed is None or not device.is_shareable:
        return ALONE
    from policies.devices.allocation.usage import NANO

    found = {}
    for name, capacity in sharing_of(device).capacities.items():
        amount = quantity_or_none(lookup(consumed, (name,)))
        if amount and amount > 0 and capacity.value.nanos > 0:
            found[name] = amount * NANO / capacity.value.nanos
    default = found or requested_parts(device, None)
    return ALONE if default is None else default


_EXCLUSIVE = DeviceSharing(SharingMode.NONE)


@lru_cache(maxsize=512)
def _read_sharing(capacity: str) -> DeviceSharing:
    """The sharing of a shareable device with this capacity as JSON."""
    from policies.devices.allocation.capacity import read_capacities
    from policies.devices.allocation.reading import AllocationError
    from policies.devices.allocation.usage import NANO

    try:
        capacities = read_capacities({"capacity": json.loads(capacity)}, "the device")
    except AllocationError:
        return DeviceSharing(SharingMode.NONE, is_readable=False)
    shares, memory = (capacities.get(name, capacities.get(f"{DRIVER}/{name}")) for name in ("shares", "memory"))
    if shares is not None and shares.value.nanos >= NANO:
        return DeviceSharing(SharingMode.SHARES, shares.value.nanos // NANO, capacities)
    default = None if memory is None else memory.default or memory.value
    mode = SharingMode.MEMORY if default is not None and default.nanos > 0 else SharingMode.UNLIMITED
    return DeviceSharing(mode, capacities=capacities)


@remember_short(4096)
def _parts(sharing: DeviceSharing, requests: str) -> Mapping[str, Fraction] | None:
    """The parts of capacities that requests, which are JSON, take; None if the allocator refuses them."""
    from policies.devices.allocation.capacity import Rejection, capacity_demand
    from policies.devices.allocation.reading import DEFAULTS, AllocationError

    if not sharing.is_readable:
        return None
    try:
        found = capacity_demand(sharing.capacities, json.loads(requests), DEFAULTS)
    except AllocationError:
        return None
    if isinstance(found, Rejection) or any(found.shortages({}, {})):
        return None
    return {
        name: Fraction(amount.nanos, found.capacity[name])
        for name, amount in found.amounts.items()
        if found.capacity[name] > 0
    }
