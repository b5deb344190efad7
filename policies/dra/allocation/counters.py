"""Counters that the devices of a pool share: what is left of them while devices are picked."""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.dra.allocation.rejections import Reason, Rejection

if TYPE_CHECKING:
    from policies.dra.allocation.pools import Pool
    from policies.dra.allocation.slices import AllocatableDevice
    from policies.dra.allocation.usage import Usage

__all__ = ["CounterLedger"]

_Key = tuple[str, str]


class CounterLedger:
    """What allocated devices leave of each counter, and what the devices picked so far take of it.

    Kubernetes keeps its books by the pool's name and forgets the driver: of two drivers with a pool of the same name,
    the first pool that is checked decides for both.

    Source: k8s.io/dynamic-resource-allocation/structured/internal/incubating/allocator_incubating.go
    checkAvailableCounters, deallocateCountersForDevice.
    """

    def __init__(self, usage: Usage) -> None:
        self._usage = usage
        self._available: dict[str, dict[_Key, int]] = {}
        self._taken: dict[str, dict[_Key, int]] = {}
        self._overdrawn: dict[str, set[_Key]] = {}

    def take(self, device: AllocatableDevice, pool: Pool) -> Rejection | None:
        """Take what the device consumes, or say which counter of its pool does not suffice and take nothing.

        A counter of the pool that is overdrawn already keeps back every device that consumes any.
        """
        name = pool.id[1]
        if name not in self._available:
            self._open(name, pool)
        self._book(name, device, 1)
        if not self._overdrawn[name]:
            return None
        short = min(self._overdrawn[name])
        asked = sum(amount for counter_set, counter, amount in device.counters if (counter_set, counter) == short)
        left = self._available[name][short] - self._taken[name].get(short, 0) + asked
        self._book(name, device, -1)
        return Rejection(Reason.COUNTERS, name="/".join(short), asked=asked, left=left)

    def give_back(self, device: AllocatableDevice, pool: Pool) -> None:
        """Undo taking."""
        self._book(pool.id[1], device, -1)

    def footprint(self, device: AllocatableDevice, pool: Pool) -> tuple[int, ...]:
        """What is taken of the counters that the device consumes; equal before and after if nothing happened."""
        taken = self._taken.get(pool.id[1], {})
        return tuple(taken.get((counter_set, counter), 0) for counter_set, counter, _ in device.counters)

    def _open(self, name: str, pool: Pool) -> None:
        available = {
            (counter_set, counter): amount
            for counter_set, counters in pool.counter_sets.items()
            for counter, amount in counters.items()
        }
        for found in (*pool.slices, *pool.other_slices):
            for device in found.devices:
                if device.counters and self._usage.holds(device.id):
                    for counter_set, counter, amount in device.counters:
                        if (counter_set, counter) in available:
                            available[counter_set, counter] -= amount
        self._available[name] = available
        taken = self._taken.setdefault(name, {})
        self._overdrawn[name] = {key for key, amount in available.items() if amount < taken.get(key, 0)}

    def _book(self, name: str, device: AllocatableDevice, sign: int) -> None:
        taken = self._taken.setdefault(name, {})
        available, overdrawn = self._available.get(name, {}), self._overdrawn.setdefault(name, set())
        for counter_set, counter, amount in device.counters:
            key = (counter_set, counter)
            taken[key] = taken.get(key, 0) + sign * amount
            if key in available:
                (overdrawn.add if available[key] < taken[key] else overdrawn.discard)(key)
