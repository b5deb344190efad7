"""Shapes of devices: devices of one shape are the same to the claims at hand."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Mapping

    from policies.dra.allocation.slices import AllocatableDevice, Slice

__all__ = ["AttributeRead", "DeviceShapes"]

AttributeRead = tuple[str, str | None]
"""A domain, and a name in it; None for all of them."""

_DEEPEST = 8
_MOST_KEYS = 10_000
"""Keys of parts that are kept; they are worth their memory only where devices share their parts."""


class DeviceShapes:
    """Numbers devices: two with one number are alike to every selector, constraint, policy and taint.

    A real GPU has a UUID, so no two are equal altogether; what no selector and no constraint reads is left out. Threads may
    share the shapes; some numbers are not used.
    """

    def __init__(self, read: Iterable[AttributeRead] | None) -> None:
        """Begin without devices; `read` has the attributes that are read, None for any."""
        self._read = None if read is None else tuple(read)
        self._read_of_driver: dict[str, tuple[tuple[str, ...], frozenset[str]]] = {}
        self._numbers: dict[Hashable, int] = {}
        self._next = count()
        self._of_device: dict[AllocatableDevice, int] = {}
        self._of_slice: dict[Slice, tuple[int, ...]] = {}
        self._keys: dict[int, Hashable] = {}
        """Keys of parts of these devices, by identity; thousands of devices share their parts."""

    def of(self, device: AllocatableDevice) -> int:
        """The number of the device's shape."""
        number = self._of_device.get(device)
        if number is None:
            self._of_device[device] = number = self._numbers.setdefault(self._shape(device), next(self._next))
        return number

    def of_slice(self, found: Slice) -> tuple[int, ...]:
        """The numbers of all devices of a slice, in their order."""
        numbers = self._of_slice.get(found)
        if numbers is None:
            self._of_slice[found] = numbers = tuple(map(self.of, found.devices))
        return numbers

    def attributes(self, device: AllocatableDevice) -> Mapping[str, Any]:
        """The attributes that distinguish the device: those read, and those on which any selector can fail."""
        if self._read is None:
            return device.attributes
        names, domains = self._read_keys(device.slice.driver, self._read)
        published = device.attributes
        distinguishing = [name for name in names if name in published]
        distinguishing += device.doubtful_attributes
        if domains:
            distinguishing += [name for name in published if _domain(name) in domains]
        return {name: published[name] for name in distinguishing}

    def _shape(self, device: AllocatableDevice) -> Hashable:
        document = device.document
        return (
            device.slice.driver,
            device.is_shareable,
            bool(device.binding_conditions),
            frozenset([(name, self._key(value)) for name, value in self.attributes(device).items()]),
            self._key(document.get("capacity")),
            device.counter_sets,
            device.counters,
            self._key(document.get("taints")),
        )

    def _key(self, part: Any) -> Hashable:
        """The key of a part of a device in `_of_device`, which keeps the part's identity."""
        key = self._keys.get(id(part))
        if key is None:
            if len(self._keys) >= _MOST_KEYS:
                self._keys = {}
            self._keys[id(part)] = key = _frozen(part)
        return key

    def _read_keys(self, driver: str, read: tuple[AttributeRead, ...]) -> tuple[tuple[str, ...], frozenset[str]]:
        """The keys of the attributes that are read in a driver's slices, and the domains read as a whole."""
        known = self._read_of_driver.get(driver)
        if known is None:
            full = {f"{domain}/{name}" for domain, name in read if name is not None}
            short = {name for domain, name in read if name is not None and domain == driver}
            domains = {domain for domain, name in read if name is None}
            if driver in domains:
                domains.add("")
            known = self._read_of_driver[driver] = (tuple(sorted(full | short)), frozenset(domains))
        return known


def _domain(name: str) -> str:
    return name.rpartition("/")[0]


def _frozen(value: Any, depth: int = _DEEPEST) -> Hashable:
    """JSON as a key: True and 1 differ; a value nested deeper than any API object equals only itself."""
    if isinstance(value, dict | list) and depth == 0:
        return id(value)
    if isinstance(value, dict):
        if len(value) == 1 and isinstance(text := next(iter(value.values())), str):
            return frozenset(((next(iter(value)), text),))  # most attributes and capacities
        return frozenset((name, _frozen(part, depth - 1)) for name, part in value.items())
    if isinstance(value, list):
        return tuple(_frozen(part, depth - 1) for part in value)
    return (value,) if isinstance(value, bool) else value
