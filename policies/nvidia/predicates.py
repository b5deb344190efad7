"""Predicates on NVIDIA devices: one tree that renders to CEL and evaluates here.

Every leaf guards what it reads, because one device without an attribute turns an unguarded selector into an error that
keeps the pod off every node. The two readings of a leaf, `cel` and `matches`, stand side by side and must agree.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, Protocol

from policies.kubernetes.quantities import parse_quantity

if TYPE_CHECKING:
    from collections.abc import Iterable
    from fractions import Fraction

    from policies.kubernetes.resourceslices import Attribute, Device

__all__ = [
    "FALSE",
    "TRUE",
    "AllOf",
    "AnyOf",
    "CapacityIs",
    "Comparison",
    "Not",
    "Predicate",
    "Present",
    "ProfileSlices",
    "TextIn",
    "VersionIs",
    "VersionPart",
    "all_of",
    "any_of",
    "negate",
    "quote",
]

DRIVER = "gpu.nvidia.com"
_ATTRIBUTES = f'device.attributes["{DRIVER}"]'
_CAPACITY = f'device.capacity["{DRIVER}"]'

Comparison = Literal["==", ">=", ">", "<"]
Spelling = Literal["as is", "dashed", "lower dashed"]
"""How a label spells an attribute's text: GPU Feature Discovery writes dashes for blanks, and families in lower case."""

_VERSION = re.compile(r"(\d+)\.(\d+)\.(\d+)(-[0-9A-Za-z.-]+)?(?:\+[0-9A-Za-z.-]+)?", re.ASCII)
_PARTS = ("major", "minor", "patch")


class Predicate(Protocol):
    """A condition on one device."""

    def cel(self) -> str:
        """The condition as a CEL expression of a device selector."""
        ...

    def matches(self, device: Device) -> bool:
        """Whether the device meets it; the same answer as the CEL gives."""
        ...

    def words(self) -> str:
        """The condition for people: `product NVIDIA-L40S`."""
        ...


@dataclass(frozen=True, slots=True)
class Present:
    """The device has the attribute."""

    attribute: str

    def cel(self) -> str:
        """`has(...)`."""
        return f"has({_ATTRIBUTES}.{self.attribute})"

    def matches(self, device: Device) -> bool:
        """Whether the attribute is there."""
        return _attribute(device, self.attribute) is not None

    def words(self) -> str:
        """`any productName`."""
        return f"any {self.attribute}"


@dataclass(frozen=True, slots=True)
class TextIn:
    """An attribute's text, in the spelling of labels, is one of some values."""

    attribute: str
    values: tuple[str, ...]
    spelling: Spelling = "as is"
    name: str = ""
    """What people call it: `product`."""

    def cel(self) -> str:
        """A guarded comparison; `in` where there are several values."""
        text = f"{_ATTRIBUTES}.{self.attribute}"
        guard = f"has({text})"
        if self.spelling == "lower dashed":
            text += ".lowerAscii()"
        if self.spelling != "as is":
            text += '.replace(" ", "-")'
        values = ", ".join(quote(value) for value in self.values)
        return f"{guard} && {text} == {values}" if len(self.values) == 1 else f"{guard} && {text} in [{values}]"

    def matches(self, device: Device) -> bool:
        """Whether the text is one of the values."""
        text = _attribute(device, self.attribute)
        if not isinstance(text, str):
            return False
        if self.spelling == "lower dashed":
            text = "".join(character.lower() if character.isascii() else character for character in text)
        if self.spelling != "as is":
            text = text.replace(" ", "-")
        return text in self.values

    def words(self) -> str:
        """`product A or B`."""
        return f"{self.name or self.attribute} {' or '.join(self.values)}"


@dataclass(frozen=True, slots=True)
class ProfileSlices:
    """The device is a MIG device of so many slices, whatever its memory."""

    slices: int

    def cel(self) -> str:
        """A guarded `startsWith`."""
        return f'has({_ATTRIBUTES}.profile) && {_ATTRIBUTES}.profile.startsWith("{self.slices}g.")'

    def matches(self, device: Device) -> bool:
        """Whether the profile begins so."""
        return str(_attribute(device, "profile")).startswith(f"{self.slices}g.")

    def words(self) -> str:
        """`MIG profile 3g.*`."""
        return f"MIG profile {self.slices}g.*"


@dataclass(frozen=True, slots=True)
class VersionPart:
    """One number of a version attribute compares to another number."""

    attribute: str
    part: Literal["major", "minor", "patch"]
    comparison: Comparison
    number: int

    def cel(self) -> str:
        """A guarded comparison of `.major()`, `.minor()` or `.patch()`."""
        version = f"{_ATTRIBUTES}.{self.attribute}"
        return f"has({version}) && {version}.{self.part}() {self.comparison} {self.number}"

    def matches(self, device: Device) -> bool:
        """Whether the number compares so."""
        match = _VERSION.fullmatch(str(_attribute(device, self.attribute)))
        if match is None:
            return False
        number = int(match.group(_PARTS.index(self.part) + 1))
        return _compare(self.comparison, number - self.number)

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
        version = f"{_ATTRIBUTES}.{self.attribute}"
        return f'has({version}) && {version}.compareTo(semver("{self._text}")) == 0'

    def matches(self, device: Device) -> bool:
        """Whether the versions are equal; a pre-release is another version."""
        match = _VERSION.fullmatch(str(_attribute(device, self.attribute)))
        return match is not None and match.group(4) is None and tuple(map(int, match.group(1, 2, 3))) == self.version

    def words(self) -> str:
        """`driverVersion 580.95.5`."""
        return f"{self.attribute} {self._text}"

    @property
    def _text(self) -> str:
        return ".".join(map(str, self.version))


@dataclass(frozen=True, slots=True)
class CapacityIs:
    """A capacity of the device lies where all of some comparisons hold."""

    name: str
    comparisons: tuple[tuple[Comparison, str], ...]
    """Each with a quantity: `(">=", "40960Mi")`."""

    def cel(self) -> str:
        """Guarded `compareTo`s; unified-memory GPUs publish no memory at all."""
        value = f"{_CAPACITY}.{self.name}"
        tests = [f'{value}.compareTo(quantity("{bound}")) {comparison} 0' for comparison, bound in self.comparisons]
        return " && ".join([f"has({value})", *tests])

    def matches(self, device: Device) -> bool:
        """Whether all comparisons hold."""
        value = device.capacity.get(f"{DRIVER}/{self.name}")
        return value is not None and all(
            _compare(comparison, value - parse_quantity(bound)) for comparison, bound in self.comparisons
        )

    def words(self) -> str:
        """`memory >= 40960Mi`."""
        tests = [f"{self.name} {comparison} {bound}" for comparison, bound in self.comparisons]
        return " and ".join(tests) or f"any {self.name}"


@dataclass(frozen=True, slots=True)
class Not:
    """The part does not hold; true where its guard fails, as `NotIn` is for nodes without the label."""

    part: Predicate

    def cel(self) -> str:
        """`!(...)` around the guarded part."""
        return f"!({self.part.cel()})"

    def matches(self, device: Device) -> bool:
        """Whether the part does not match."""
        return not self.part.matches(device)

    def words(self) -> str:
        """`not product X`."""
        words = self.part.words()
        return f"not ({words})" if isinstance(self.part, AllOf | AnyOf) else f"not {words}"


@dataclass(frozen=True, slots=True)
class AllOf:
    """Every part holds; without parts, always."""

    parts: tuple[Predicate, ...]

    def cel(self) -> str:
        """The parts joined by `&&`."""
        return (
            " && ".join(f"({part.cel()})" if isinstance(part, AnyOf) else part.cel() for part in self.parts) or "true"
        )

    def matches(self, device: Device) -> bool:
        """Whether all parts match."""
        return all(part.matches(device) for part in self.parts)

    def words(self) -> str:
        """The parts joined by commas."""
        return ", ".join(f"({part.words()})" if isinstance(part, AnyOf) else part.words() for part in self.parts)


@dataclass(frozen=True, slots=True)
class AnyOf:
    """Some part holds; without parts, never."""

    parts: tuple[Predicate, ...]

    def cel(self) -> str:
        """The parts joined by `||`."""
        return " || ".join(f"({part.cel()})" for part in self.parts) or "false"

    def matches(self, device: Device) -> bool:
        """Whether some part matches."""
        return any(part.matches(device) for part in self.parts)

    def words(self) -> str:
        """The parts joined by `or`."""
        return " or ".join(f"({part.words()})" if isinstance(part, AllOf) else part.words() for part in self.parts)


TRUE = AllOf(())
FALSE = AnyOf(())


def all_of(parts: Iterable[Predicate]) -> Predicate:
    """The conjunction, flattened, without repetitions, in an order that does not depend on the input's."""
    flat = [inner for part in parts for inner in (part.parts if isinstance(part, AllOf) else (part,))]
    if FALSE in flat:
        return FALSE
    ordered = _ordered(flat) if len(flat) > 1 else tuple(flat)
    return ordered[0] if len(ordered) == 1 else AllOf(ordered)


def any_of(parts: Iterable[Predicate]) -> Predicate:
    """The disjunction, flattened, without repetitions, in an order that does not depend on the input's."""
    flat = [inner for part in parts for inner in (part.parts if isinstance(part, AnyOf) else (part,))]
    if TRUE in flat:
        return TRUE
    ordered = _ordered(_merge_texts(flat)) if len(flat) > 1 else tuple(flat)
    return ordered[0] if len(ordered) == 1 else AnyOf(ordered)


def negate(part: Predicate) -> Predicate:
    """The negation; of constants, the other constant."""
    if part == TRUE:
        return FALSE
    return TRUE if part == FALSE else Not(part)


def quote(text: str) -> str:
    """A CEL string literal that no text can break out of."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + "".join(c if c.isprintable() else f"\\U{ord(c):08x}" for c in escaped) + '"'


def _merge_texts(parts: list[Predicate]) -> list[Predicate]:
    """One `in [...]` for several values of one attribute."""
    texts = [part for part in parts if isinstance(part, TextIn)]
    merged: list[Predicate] = [
        replace(first, values=tuple(sorted({value for text in same for value in text.values})))
        for first in {replace(text, values=()) for text in texts}
        for same in [[text for text in texts if replace(text, values=()) == first]]
    ]
    return [*merged, *(part for part in parts if not isinstance(part, TextIn))]


def _ordered(parts: list[Predicate]) -> tuple[Predicate, ...]:
    by_text = {part.cel(): part for part in parts}
    return tuple(by_text[text] for text in sorted(by_text))


def _attribute(device: Device, name: str) -> Attribute | None:
    return device.attributes.get(f"{DRIVER}/{name}")


def _compare(comparison: Comparison, difference: Fraction | int) -> bool:
    match comparison:
        case "==":
            return difference == 0
        case ">=":
            return difference >= 0
        case ">":
            return difference > 0
        case "<":
            return difference < 0
