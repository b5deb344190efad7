"""Predicates on what a device has of something: memory, multiprocessors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from policies.kubernetes.quantities import parse_quantity
from policies.nvidia.drivers import DRIVER
from policies.nvidia.predicates.predicate import CAPACITY, Comparison, compare

if TYPE_CHECKING:
    from policies.kubernetes.resourceslices import Device

__all__ = ["CapacityIs", "MemoryWithin"]

_MEBI = 1024**2


@dataclass(frozen=True, slots=True)
class CapacityIs:
    """A capacity of the device lies where all of some comparisons hold."""

    name: str
    comparisons: tuple[tuple[Comparison, str], ...]
    """Each with a quantity: `(">=", "40960Mi")`."""

    def cel(self) -> str:
        """Guarded `compareTo`s; unified-memory GPUs publish no memory at all."""
        value = f"{CAPACITY}.{self.name}"
        tests = [f'{value}.compareTo(quantity("{bound}")) {comparison} 0' for comparison, bound in self.comparisons]
        return " && ".join([f"has({value})", *tests])

    def matches(self, device: Device) -> bool:
        """Whether all comparisons hold."""
        value = device.capacity.get(f"{DRIVER}/{self.name}")
        return value is not None and all(
            compare(comparison, value - parse_quantity(bound)) for comparison, bound in self.comparisons
        )

    def words(self) -> str:
        """`memory >= 40960Mi`."""
        tests = [f"{self.name} {comparison} {bound}" for comparison, bound in self.comparisons]
        return " and ".join(tests) or f"any {self.name}"


@dataclass(frozen=True, slots=True)
class MemoryWithin:
    """The device's memory, in whole mebibytes as labels tell it, is neither less nor more than some bounds."""

    least: int | None = None
    most: int | None = None
    """In MiB. What a label rounds down to the bound is within it."""

    def cel(self) -> str:
        """Guarded `compareTo`s."""
        bounds: list[tuple[Comparison, str]] = []
        if self.least is not None:
            bounds.append((">=", f"{self.least}Mi"))
        if self.most is not None:
            bounds.append(("<", f"{self.most + 1}Mi"))
        return CapacityIs("memory", tuple(bounds)).cel()

    def matches(self, device: Device) -> bool:
        """Whether the memory is within the bounds."""
        octets = device.capacity.get(f"{DRIVER}/memory")
        if octets is None:
            return False
        mebibytes = octets // _MEBI
        return (self.least is None or mebibytes >= self.least) and (self.most is None or mebibytes <= self.most)

    def words(self) -> str:
        """`memory at least 40960Mi and at most 81920Mi`."""
        bounds = (("at least", self.least), ("at most", self.most))
        told = " and ".join(f"{side} {bound}Mi" for side, bound in bounds if bound is not None)
        return f"memory {told}" if told else "any memory"
