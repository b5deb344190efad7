"""Predicates on attributes that are versions."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from policies.nvidia.predicates.predicate import ATTRIBUTES, Comparison, attribute_of, compare

if TYPE_CHECKING:
    from policies.kubernetes.resourceslices import Device

__all__ = ["VersionAtLeast", "VersionIs", "VersionPart"]

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
        """Whether the number compares so."""
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
        """Whether the versions are equal; a pre-release is another version."""
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
    """A version attribute is this version or a newer one, all numbers taken together: 9.0 is newer than 8.6."""

    attribute: str
    version: tuple[int, int, int]
    name: str
    """What people call it: `driver`."""
    shown: str
    """How people write the version: `580.95.05`."""

    def cel(self) -> str:
        """A guarded comparison with a `semver` literal."""
        version = f"{ATTRIBUTES}.{self.attribute}"
        return f'has({version}) && {version}.compareTo(semver("{".".join(map(str, self.version))}")) >= 0'

    def matches(self, device: Device) -> bool:
        """Whether the version is not older; a pre-release is older than its release."""
        match = _VERSION.fullmatch(str(attribute_of(device, self.attribute)))
        if match is None:
            return False
        numbers = tuple(map(int, match.group(1, 2, 3)))
        return numbers > self.version or (numbers == self.version and match.group(4) is None)

    def words(self) -> str:
        """`driver 580.95.05 or newer`."""
        return f"{self.name} {self.shown} or newer"
