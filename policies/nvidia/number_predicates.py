"""Predicates on the versions, capacities and memory of NVIDIA devices, which compare numbers."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from policies.kubernetes.quantities import parse_quantity
from policies.nvidia.identifiers import DRIVER
from policies.nvidia.predicates import ATTRIBUTES, CAPACITY, attribute_of

if TYPE_CHECKING:
    from fractions import Fraction

    from policies.kubernetes.resourceslices import Device


Comparison = Literal["==", ">=", ">", "<"]


def compare(comparison: Comparison, difference: Fraction | int) -> bool:
    """True if a difference compares so to zero."""
    match comparison:
        case "==":
            return difference == 0
        case ">=":
            return difference >= 0
        case ">":
            return difference > 0
        case "<":
            return difference < 0


_MEMORY = f"{CAPACITY}.memory"
_DYNAMIC = "multiprocessors"
"""A capacity that whole GPUs publish with DynamicMIG only."""
_IS_DYNAMIC = f"has({CAPACITY}.{_DYNAMIC})"
_DYNAMIC_SIZES = ((81559, 81152), (143771, 143360))
"""In MiB, of GPUs that were measured, an H100 80GB HBM3 and an H200: what the label says, what DynamicMIG publishes."""
_LARGEST_DIFFERENCE = 40
"""A GPU of any other size publishes at least 39/40 of what its label says. GPUs sold with different sizes differ by more."""


_VERSION = re.compile(r"(\d+)\.(\d+)\.(\d+)(-[0-9A-Za-z.-]+)?(?:\+[0-9A-Za-z.-]+)?", re.ASCII)
_PARTS = ("major", "minor", "patch")


@dataclass(frozen=True, slots=True)
class VersionPart:
    """One number of a version attribute compares to another number."""

    attribute: str
    part: Literal["major", "minor", "patch"]
    comparison: Comparison
    number: int

    def cel(self) -> str:
        """A guarded comparison of `.major()`, `.minor()` or `.patch()`."""
        version = f"{ATTRIBUTES}.{self.attribute}"
        return f"has({version}) && {version}.{self.part}() {self.comparison} {self.number}"

    def matches(self, device: Device) -> bool:
        """True if the number compares so."""
        match = _VERSION.fullmatch(str(attribute_of(device, self.attribute)))
        if match is None:
            return False
        number = int(match.group(_PARTS.index(self.part) + 1))
        return compare(self.comparison, number - self.number)

    def words(self) -> str:
        """`cudaComputeCapability major > 8`."""
        return f"{self.attribute} {self.part} {self.comparison} {self.number}"


@dataclass(frozen=True, slots=True)
class VersionIs:
    """A version attribute is exactly this version."""

    attribute: str
    version: tuple[int, int, int]

    def cel(self) -> str:
        """A guarded comparison with a `semver` literal."""
        version = f"{ATTRIBUTES}.{self.attribute}"
        return f'has({version}) && {version}.compareTo(semver("{self._text}")) == 0'

    def matches(self, device: Device) -> bool:
        """True if the versions are equal; a pre-release is another version."""
        match = _VERSION.fullmatch(str(attribute_of(device, self.attribute)))
        return match is not None and match.group(4) is None and tuple(map(int, match.group(1, 2, 3))) == self.version

    def words(self) -> str:
        """`driverVersion 580.95.5`."""
        return f"{self.attribute} {self._text}"

    @property
    def _text(self) -> str:
        return ".".join(map(str, self.version))


@dataclass(frozen=True, slots=True)
class VersionAtLeast:
    """A version attribute is at least this version: 9.0 is newer than 8.6."""

    attribute: str
    version: tuple[int, int, int]
    name: str
    """The word in messages: `driver`."""
    shown: str
    """The version as people write it: `580.95.05`."""

    def cel(self) -> str:
        """A guarded comparison with a `semver` literal."""
        version = f"{ATTRIBUTES}.{self.attribute}"
        return f'has({version}) && {version}.compareTo(semver("{".".join(map(str, self.version))}")) >= 0'

    def matches(self, device: Device) -> bool:
        """True if the version is not older; a pre-release is older than its release."""
        match = _VERSION.fullmatch(str(attribute_of(device, self.attribute)))
        if match is None:
            return False
        numbers = tuple(map(int, match.group(1, 2, 3)))
        return numbers > self.version or (numbers == self.version and match.group(4) is None)

    def words(self) -> str:
        """`driver 580.95.05 or newer`."""
        return f"{self.name} {self.shown} or newer"


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
        """True if all comparisons hold."""
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
    """The device's memory, in whole mebibytes as in labels, is within bounds.

    With the driver's feature gate DynamicMIG a whole GPU publishes the size of its largest MIG profile, which is less
    than what its node's label says. Such a GPU is within the bounds if what the label says is.
    """

    least: int | None = None
    most: int | None = None
    """In MiB. What a label rounds down to the bound is within it."""
    is_whole: bool = False
    """True if it is a condition on whole GPUs: MIG devices publish what their labels say."""

    def cel(self) -> str:
        """Guarded `compareTo`s. If DynamicMIG matters, GPUs are distinguished by a capacity that only it has."""
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
        """True if the memory is within the bounds."""
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
