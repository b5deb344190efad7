"""CEL selectors of classes and requests, evaluated once for each shape of device."""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.dra.allocation.errors import AllocationError
from policies.dra.allocation.features import Implementation
from policies.dra.cel import CelCompileError, CelRuntimeError, compile_selector
from policies.dra.cel import Features as CelFeatures

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from policies.dra.allocation.features import Features
    from policies.dra.allocation.shapes import DeviceShapes
    from policies.dra.allocation.slices import Device
    from policies.dra.cel import Selector

__all__ = ["AttributeRead", "Selectors"]

AttributeRead = tuple[str, str | None]
"""A domain, and a name in it; None for all of them."""


class Selectors:
    """The selectors of one allocation, with the verdicts given so far.

    Source: k8s.io/dynamic-resource-allocation/structured/internal/incubating/allocator_incubating.go selectorsMatch.
    """

    def __init__(self, features: Features) -> None:
        self._features = CelFeatures(
            consumable_capacity=features.consumable_capacity, list_type_attributes=features.list_type_attributes
        )
        self._tells_sharing = features.implementation is not Implementation.STABLE
        self._compiled: dict[str, Selector | CelCompileError] = {}
        self._verdicts: dict[tuple[str, int], bool] = {}

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
        self, owner: str, expressions: Sequence[str | None], device: Device, shapes: DeviceShapes
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
                if not self._matches(expression, device, shapes.of(device)):
                    return position
            except CelCompileError as error:
                raise AllocationError(f"{where}: CEL compile error: {error}") from error
            except CelRuntimeError as error:
                raise AllocationError(f"{where}: CEL runtime error: {error}") from error
        return None

    def _matches(self, expression: str, device: Device, shape: int) -> bool:
        key = (expression, shape)
        if key not in self._verdicts:
            compiled = self._compile(expression)
            if isinstance(compiled, CelCompileError):
                raise compiled
            self._verdicts[key] = compiled.matches(
                {
                    "driver": device.slice.driver,
                    "attributes": device.attributes,
                    "capacity": device.document.get("capacity") or {},
                    "allowMultipleAllocations": device.shareable and self._tells_sharing,
                }
            )
        return self._verdicts[key]

    def _compile(self, expression: str) -> Selector | CelCompileError:
        if expression not in self._compiled:
            try:
                self._compiled[expression] = compile_selector(expression, self._features)
            except CelCompileError as error:
                self._compiled[expression] = error
        return self._compiled[expression]
