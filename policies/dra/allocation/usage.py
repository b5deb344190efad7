"""The devices that other claims hold."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain
from typing import Any, NamedTuple

from policies.dra.allocation.amounts import nanos
from policies.dra.allocation.errors import AllocationError

__all__ = ["NONE", "Held", "Usage"]


class Held(NamedTuple):
    """The devices that one allocation holds."""

    devices: tuple[str, ...]
    """Devices that only this claim holds, as `driver/pool/device`."""
    shares: tuple[tuple[str, Mapping[str, Any]], ...]
    """Devices of which it holds shares, each with the quantities that the share takes of the capacities."""

    @classmethod
    def by(cls, results: Iterable[Mapping[str, Any]]) -> Held:
        """Read results; those with admin access hold nothing."""
        holding = [result for result in results if not result.get("adminAccess")]
        return cls(
            tuple(_device(result) for result in holding if not result.get("shareID")),
            tuple((_device(each), each.get("consumedCapacity") or {}) for each in holding if each.get("shareID")),
        )


@dataclass(frozen=True)
class Usage:
    """The devices of allocated claims, by `driver/pool/device`; those with admin access are not counted."""

    devices: frozenset[str] = frozenset()
    """Devices that one claim holds alone."""
    shared: frozenset[str] = frozenset()
    """Devices of which claims hold shares."""
    capacity: Mapping[str, Mapping[str, int]] | None = None
    """The amounts of each capacity that the shares take, in billionths."""
    known_pools: frozenset[str] | None = field(default=None, compare=False)
    """The pools of these devices, and perhaps more; None if they are to be read from their names."""

    @classmethod
    def of_allocations(cls, allocations: Iterable[Held]) -> Usage:
        """The devices that several allocations hold.

        Raises:
            AllocationError: a capacity is not a quantity.

        Source: k8s.io/kubernetes/pkg/scheduler/framework/plugins/dynamicresources/allocateddevices.go.
        """
        devices: set[str] = set()
        capacity: dict[str, dict[str, int]] = {}
        for held in allocations:
            devices.update(held.devices)
            for device, share in held.shares:
                sums = capacity.setdefault(device, {})
                for name, amount in _amounts(device, share).items():
                    sums[name] = sums.get(name, 0) + amount
        return cls(frozenset(devices), frozenset(capacity), capacity)

    def and_held(self, allocations: Iterable[Held]) -> Usage:
        """The usage with more allocations added.

        Raises:
            AllocationError: a capacity is not a quantity.
        """
        more = Usage.of_allocations(allocations)
        capacity = {**(self.capacity or {})}
        for device, amounts in (more.capacity or {}).items():
            sums = {**capacity.get(device, {})}
            for name, amount in amounts.items():
                sums[name] = sums.get(name, 0) + amount
            capacity[device] = sums
        return Usage(self.devices | more.devices, self.shared | more.shared, capacity, self.pools | more.pools)

    def without_devices(self, devices: Collection[str]) -> Usage:
        """The usage after the claims have ended that hold these devices alone."""
        return replace(self, devices=self.devices.difference(devices), known_pools=self.pools)

    def taken_capacity(self, device: str) -> Mapping[str, int] | None:
        """The amounts of the device's capacities that shares take; None without shares."""
        return None if self.capacity is None else self.capacity.get(device)

    @cached_property
    def pools(self) -> frozenset[str]:
        """The pools of which claims hold devices, as `driver/pool`.

        Pools may be among them of which a claim held devices that has ended.
        """
        if self.known_pools is not None:
            return self.known_pools
        held = chain(self.devices, self.shared, self.capacity or ())
        return frozenset(device.rpartition("/")[0] for device in held)

    def holds(self, device: str) -> bool:
        """True if any claim has the device, or a share of it."""
        return device in self.devices or device in self.shared or self.taken_capacity(device) is not None


NONE = Usage()


def _amounts(device: str, amounts: Mapping[str, Any]) -> dict[str, int]:
    if not isinstance(amounts, Mapping):
        raise AllocationError(f"allocated capacity of device {device}: must be an object, not {amounts!r}")
    return {name: nanos(amount, f"allocated capacity {name} of device {device}") for name, amount in amounts.items()}


def _device(result: Mapping[str, Any]) -> str:
    return "/".join([str(result.get(part) or "") for part in ("driver", "pool", "device")])
