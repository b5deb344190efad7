"""Predicates on what a device has of something: memory, multiprocessors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from policies.kubernetes.quantities import parse_quantity
from policies.nvidia.identifiers import DRIVER
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
    """The device's memory, in whole mebibytes as labels tell it, is neither less nor more than some bounds.

    With the driver's feature gate DynamicMIG a whole GPU publishes the size of its largest MIG profile, which is less
    than what its node's label says. Such a GPU is within the bounds if what the label says is.
    """

    least: int | None = None
    most: int | None = None
    """In MiB. What a label rounds down to the bound is within it."""
    is_whole: bool = False
    """Whether it is a condition on whole GPUs: MIG devices publish what their labels say."""

    def cel(self) -> str:
        """Guarded `compareTo`s; where DynamicMIG matters, GPUs are told apart by the capacity that only it publishes."""
        least, most = self._bounds_with_dynamic_mig
        bounds: list[tuple[Comparison, str]] = []
        if least is not None:
            bounds.append((">=", f"{least}Mi"))
        if self.most is not None:
            bounds.append(("<", f"{self.most + 1}Mi"))
        tests = [CapacityIs("memory", tuple(bounds)).cel()]
        if least != self.least:
            tests.append(f'({_MEMORY}.compareTo(quantity("{self.least}Mi")) >= 0 || {_IS_DYNAMIC})')
        if most is not None and most != self.most:
            tests.append(f'({_MEMORY}.compareTo(quantity("{most + 1}Mi")) < 0 || !{_IS_DYNAMIC})')
        return " && ".join(tests)

    def matches(self, device: Device) -> bool:
        """Whether the memory is within the bounds."""
        octets = device.capacity.get(f"{DRIVER}/memory")
        if octets is None:
            return False
        mebibytes = octets // _MEBI
        is_dynamic = f"{DRIVER}/{_DYNAMIC}" in device.capacity
        least, most = self._bounds_with_dynamic_mig if is_dynamic else (self.least, self.most)
        return (least is None or mebibytes >= least) and (most is None or mebibytes <= most)

    def words(self) -> str:
        """`memory at least 40960Mi and at most 81920Mi`."""
        if self.least == self.most is not None:
            return f"memory {self.least}Mi"
        bounds = (("at least", self.least), ("at most", self.most))
        told = " and ".join(f"{side} {bound}Mi" for side, bound in bounds if bound is not None)
        return f"memory {told}" if told else "any memory"

    @property
    def _bounds_with_dynamic_mig(self) -> tuple[int | None, int | None]:
        """The bounds of what a GPU publishes with DynamicMIG if its label is within these."""
        least, most = self.least, self.most
        if not self.is_whole:
            return least, most
        if least is not None:
            known = [published for label, published in _DYNAMIC_SIZES if published < least <= label]
            unknown = least - least // _LARGEST_DIFFERENCE if least == most else least
            least = min(known, default=unknown)
        if most is not None:
            most = min(
                (published - 1 for label, published in _DYNAMIC_SIZES if published <= most < label), default=most
            )
        return least, most


_MEMORY = f"{CAPACITY}.memory"
_DYNAMIC = "multiprocessors"
"""A capacity that whole GPUs publish with DynamicMIG only."""
_IS_DYNAMIC = f"has({CAPACITY}.{_DYNAMIC})"
_DYNAMIC_SIZES = ((81559, 81152), (143771, 143360))
"""In MiB, of GPUs that were measured, an H100 80GB HBM3 and an H200: what the label says, what DynamicMIG publishes."""
_LARGEST_DIFFERENCE = 40
"""A GPU of any other size publishes at least 39/40 of what its label says. GPUs sold with different sizes differ by more."""
