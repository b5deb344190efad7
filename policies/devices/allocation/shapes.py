"""Shapes of devices: devices of one shape are the same to the claims at hand."""

from __future__ import annotations

import marshal
from itertools import count
from typing import TYPE_CHECKING, Any

from policies.cel import CelCompileError, CelDevice, CelRuntimeError, compile_selector
from policies.devices.allocation.reading import AllocationError, Implementation
from policies.kubernetes.bounds import check_cancelled

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from policies.cel import Selector
    from policies.devices.allocation.reading import Features
    from policies.devices.allocation.slices import AllocatableDevice, Slice


AttributeRead = tuple[str, str | None]
"""A domain, and a name in it; None for all of them."""


class DeviceShapes:
    """Numbers devices: two with one number are alike to every selector, constraint, policy and taint.

    A real GPU has a UUID, so no two are equal altogether; what no selector and no constraint reads is left out. Threads may
    share the shapes; some numbers are not used.
    """

    def __init__(self, read: Iterable[AttributeRead] | None) -> None:
        """Begin without devices; `read` has the attributes that are read, None for any."""
        self._read = None if read is None else tuple(read)
        self._read_of_driver: dict[str, tuple[tuple[str, ...], frozenset[str]]] = {}
        self._numbers: dict[bytes, int] = {}
        self._next = count()
        self._of_device: dict[AllocatableDevice, int] = {}
        self._of_slice: dict[Slice, tuple[int, ...]] = {}

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

    def _shape(self, device: AllocatableDevice) -> bytes:
        """All that decides about the device, as it is written: the order of its fields counts."""
        decisive: tuple[Any, ...] = (
            device.slice.driver,
            device.is_shareable,
            bool(device.binding_conditions),
            self.attributes(device),
            device.document.get("capacity"),
            device.counter_sets,
            device.counters,
            device.taints,
        )
        try:
            return marshal.dumps(decisive, 2)
        except ValueError:  # nested deeper than any API object: it equals only itself
            return id(device).to_bytes(8)

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


MISSING_KEY = "no such key:"
OPTIONAL_HINT = (
    ". consider using CEL optional chaining (.? followed by orValue()) "
    "or guarding the check with has() for optional fields"
)
"""Kubernetes' advice where a key is missing."""


class Selectors:
    """The selectors of one allocation, with the verdicts given so far.

    Source: k8s.io/dynamic-resource-allocation/structured/internal/incubating/allocator_incubating.go selectorsMatch.
    """

    def __init__(self, features: Features) -> None:
        self._features = features.stored_selectors
        self._names_devices = features.names_failing_devices
        self._tells_sharing = features.implementation is not Implementation.STABLE
        self._compiled: dict[str, Selector | CelCompileError] = {}
        self._verdicts: dict[tuple[str, int], bool] = {}
        self._seen: tuple[AllocatableDevice, CelDevice] | None = None

    def reads(self, expressions: Iterable[str]) -> frozenset[AttributeRead] | None:
        """The attributes that selectors read, by name or whole domains; None where one may read any."""
        found: set[AttributeRead] = set()
        for expression in expressions:
            compiled = self._compile(expression)
            if isinstance(compiled, CelCompileError):
                continue
            if compiled.reads is None:
                return None
            for read in compiled.reads:
                if read.part == "attributes" and read.domain is None:
                    return None
                if read.part == "attributes" and read.domain is not None:
                    found.add((read.domain, read.name or None))
        return frozenset(found)

    def first_unmatched(
        self, owner: str, expressions: Sequence[str | None], device: AllocatableDevice, shapes: DeviceShapes
    ) -> int | None:
        """The index of the first selector that does not match the device; those after it are not evaluated.

        Raises:
            AllocationError: a selector cannot be compiled, or fails on the device; that names the owner.
        """
        for position, expression in enumerate(expressions):
            where = f"{owner}: selector #{position}"
            if expression is None:
                raise AllocationError(f"{where}: CEL expression empty (unsupported selector type?)")
            try:
                if not self.matches(expression, device, shapes):
                    return position
            except CelCompileError as error:
                raise AllocationError(f"{where}: CEL compile error: {error}") from error
            except CelRuntimeError as error:
                hint = ""
                if self._names_devices:
                    where, hint = f"{where} on device {device.id}", OPTIONAL_HINT * (MISSING_KEY in error.message)
                raise AllocationError(f"{where}: CEL runtime error: {error}{hint}") from error
        return None

    def matches(self, expression: str, device: AllocatableDevice, shapes: DeviceShapes) -> bool:
        """True if an expression is true of a device.

        Args:
            expression: one of those that the shapes rest on, or a part of one.
            device: the device.
            shapes: the parts in which devices differ.

        Raises:
            CelCompileError: it cannot be compiled.
            CelRuntimeError: it fails on the device.
        """
        key = (expression, shapes.of(device))
        if key not in self._verdicts:
            compiled = self._compile(expression)
            if isinstance(compiled, CelCompileError):
                raise compiled
            check_cancelled()
            self._verdicts[key] = compiled.matches(self._as_seen(device, shapes))
        return self._verdicts[key]

    def _as_seen(self, device: AllocatableDevice, shapes: DeviceShapes) -> CelDevice:
        """The device as selectors see it, without attributes that none of them reads; the last one is kept."""
        if self._seen is None or self._seen[0] is not device:
            seen = {
                "driver": device.slice.driver,
                "attributes": shapes.attributes(device),
                "capacity": device.document.get("capacity") or {},
                "allowMultipleAllocations": device.is_shareable and self._tells_sharing,
            }
            self._seen = device, CelDevice.read(seen)
        return self._seen[1]

    def _compile(self, expression: str) -> Selector | CelCompileError:
        if expression not in self._compiled:
            check_cancelled()
            try:
                self._compiled[expression] = compile_selector(expression, self._features)
            except CelCompileError as error:
                self._compiled[expression] = error
        return self._compiled[expression]
