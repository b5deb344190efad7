"""CEL selectors of classes and requests, evaluated once for each shape of device."""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.dra.allocation.errors import AllocationError
from policies.dra.allocation.features import Implementation
from policies.dra.cel import CelCompileError, CelDevice, CelFeatures, CelRuntimeError, compile_selector
from policies.work import check_cancelled

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from policies.dra.allocation.features import Features
    from policies.dra.allocation.shapes import AttributeRead, DeviceShapes
    from policies.dra.allocation.slices import AllocatableDevice
    from policies.dra.cel import Selector

__all__ = ["Selectors", "cel_features"]


def cel_features(features: Features) -> CelFeatures:
    """What the scheduler of a cluster with these feature gates compiles selectors with."""
    return CelFeatures(
        consumable_capacity=features.consumable_capacity, list_type_attributes=features.list_type_attributes
    )


class Selectors:
    """The selectors of one allocation, with the verdicts given so far.

    Source: k8s.io/dynamic-resource-allocation/structured/internal/incubating/allocator_incubating.go selectorsMatch.
    """

    def __init__(self, features: Features) -> None:
        self._features = cel_features(features)
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
                raise AllocationError(f"{where}: CEL runtime error: {error}") from error
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
