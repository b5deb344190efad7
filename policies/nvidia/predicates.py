"""Predicates on NVIDIA devices: one tree that renders to CEL and evaluates here.

Every leaf guards what it reads, because one device without an attribute turns an unguarded selector into an error that
keeps the pod off every node. The two readings of a leaf, `cel` and `matches`, stand side by side and must agree.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, Protocol

from policies.nvidia.identifiers import DRIVER
from policies.nvidia.products import any_matches, fold_name, lower_ascii, regular_expression

if TYPE_CHECKING:
    from collections.abc import Iterable

    from policies.kubernetes.resourceslices import Attribute, Device


ATTRIBUTES = f'device.attributes["{DRIVER}"]'
CAPACITY = f'device.capacity["{DRIVER}"]'
"""Where CEL finds what the driver says of a device."""


class Predicate(Protocol):
    """A condition on one device."""

    def cel(self) -> str:
        """The condition as a CEL expression of a device selector."""
        ...

    def matches(self, device: Device) -> bool:
        """True if the device meets it; the same answer as the CEL gives."""
        ...

    def words(self) -> str:
        """The condition for people: `product NVIDIA-L40S`."""
        ...


def attribute_of(device: Device, name: str) -> Attribute | None:
    """An attribute that the driver gave the device, by its name in the driver's domain."""
    return device.attributes.get(f"{DRIVER}/{name}")


def cel_string(text: str) -> str:
    """A CEL string literal that no text can break out of."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + "".join(c if c.isprintable() else f"\\U{ord(c):08x}" for c in escaped) + '"'


Spelling = Literal["as is", "dashed", "lower dashed"]
"""The spelling of an attribute's text in a label: GPU Feature Discovery writes dashes for blanks, and families in lower case."""


@dataclass(frozen=True, slots=True)
class Present:
    """The device has the attribute."""

    attribute: str

    def cel(self) -> str:
        """`has(...)`."""
        return f"has({ATTRIBUTES}.{self.attribute})"

    def matches(self, device: Device) -> bool:
        """True if the attribute is there."""
        return attribute_of(device, self.attribute) is not None

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
    """The word in messages: `product`."""

    def cel(self) -> str:
        """A guarded comparison; `in` where there are several values."""
        text = f"{ATTRIBUTES}.{self.attribute}"
        guard = f"has({text})"
        if self.spelling == "lower dashed":
            text += ".lowerAscii()"
        if self.spelling != "as is":
            text += '.replace(" ", "-")'
        values = ", ".join(cel_string(value) for value in self.values)
        return f"{guard} && {text} == {values}" if len(self.values) == 1 else f"{guard} && {text} in [{values}]"

    def matches(self, device: Device) -> bool:
        """True if the text is one of the values."""
        text = attribute_of(device, self.attribute)
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
        return f'has({ATTRIBUTES}.profile) && {ATTRIBUTES}.profile.startsWith("{self.slices}g.")'

    def matches(self, device: Device) -> bool:
        """True if the profile begins so."""
        return str(attribute_of(device, "profile")).startswith(f"{self.slices}g.")

    def words(self) -> str:
        """`MIG profile 3g.*`."""
        return f"MIG profile {self.slices}g.*"


_MIG = "-mig-"
_NAME = f'{ATTRIBUTES}.productName.lowerAscii().replace(" ", "-")'
_WITH_PROFILE = f'({_NAME} + "{_MIG}" + {ATTRIBUTES}.profile.lowerAscii().replace("+", "."))'

_Matched = Literal["name", "name with profile", "either"]
_TEXTS: dict[_Matched, tuple[str, ...]] = {
    "name": (_NAME,),
    "name with profile": (_WITH_PROFILE,),
    "either": (_NAME, _WITH_PROFILE),
}


@dataclass(frozen=True, slots=True)
class ProductLike:
    """The product's name matches some globs and none of some others.

    Globs are matched in lower case, dashes for blanks, with or without `NVIDIA-`; see `policies.nvidia.products`.
    """

    includes: tuple[str, ...]
    """None for every product."""
    excludes: tuple[str, ...] = ()
    of: _Matched = "name"
    """The text that is matched: the name, or, of MIG devices, the name with `-MIG-1g.5gb` as labels have it, or one of both.

    Excluding globs match one of both wherever there is a profile: who excludes a GPU wants no part of it.
    """

    def cel(self) -> str:
        """Guarded regular expressions."""
        guards = [f"has({ATTRIBUTES}.{name})" for name in self._attributes]
        includes = [_cel_of(self.includes, _TEXTS[self.of])] if self.includes else []
        excludes = [f"!{_cel_of(self.excludes, _TEXTS[self._excluded])}"] if self.excludes else []
        return " && ".join([*guards, *includes, *excludes])

    def matches(self, device: Device) -> bool:
        """True if the name is wanted."""
        values = [attribute_of(device, attribute) for attribute in self._attributes]
        texts = [value for value in values if isinstance(value, str)]
        if len(texts) < len(values):
            return False
        wanted = not self.includes or _match(self.includes, _names(self.of, *texts))
        return wanted and not _match(self.excludes, _names(self._excluded, *texts))

    def words(self) -> str:
        """`product H100* or A100-80GB*, not *MIG*`."""
        excludes = [f"not {glob}" for glob in self.excludes]
        return f"product {', '.join([*filter(None, [' or '.join(self.includes)]), *excludes]) or '*'}"

    @property
    def _attributes(self) -> tuple[str, ...]:
        return ("productName",) if self.of == "name" else ("productName", "profile")

    @property
    def _excluded(self) -> _Matched:
        return "name" if self.of == "name" else "either"


def _cel_of(globs: tuple[str, ...], texts: tuple[str, ...]) -> str:
    pattern = cel_string(regular_expression([glob.lower() for glob in globs]))
    tests = [f"{text}.matches({pattern})" for text in texts]
    return tests[0] if len(tests) == 1 else f"({' || '.join(tests)})"


def _match(globs: tuple[str, ...], names: tuple[str, ...]) -> bool:
    lower = [glob.lower() for glob in globs]
    return any(any_matches(lower, name) for name in names)


def _names(of: _Matched, name: str, profile: str = "") -> tuple[str, ...]:
    """The texts that are matched, folded."""
    plain = fold_name(name)
    full = f"{plain}{_MIG}{lower_ascii(profile).replace('+', '.')}"
    return {"name": (plain,), "name with profile": (full,), "either": (plain, full)}[of]


@dataclass(frozen=True, slots=True)
class Not:
    """The part does not hold; true where its guard fails, as `NotIn` is for nodes without the label."""

    part: Predicate

    def cel(self) -> str:
        """`!(...)` around the guarded part."""
        return f"!({self.part.cel()})"

    def matches(self, device: Device) -> bool:
        """True if the part does not match."""
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
        """True if all parts match."""
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
        """True if some part matches."""
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
    ordered = _sort_parts(flat) if len(flat) > 1 else tuple(flat)
    return ordered[0] if len(ordered) == 1 else AllOf(ordered)


def any_of(parts: Iterable[Predicate]) -> Predicate:
    """The disjunction, flattened, without repetitions, in an order that does not depend on the input's."""
    flat = [inner for part in parts for inner in (part.parts if isinstance(part, AnyOf) else (part,))]
    if TRUE in flat:
        return TRUE
    ordered = _sort_parts(_merge_texts(flat)) if len(flat) > 1 else tuple(flat)
    return ordered[0] if len(ordered) == 1 else AnyOf(ordered)


def negate(part: Predicate) -> Predicate:
    """The negation; of constants, the other constant."""
    if part == TRUE:
        return FALSE
    return TRUE if part == FALSE else Not(part)


def _merge_texts(parts: list[Predicate]) -> list[Predicate]:
    """One `in [...]` for several values of one attribute."""
    texts = [part for part in parts if isinstance(part, TextIn)]
    merged: list[Predicate] = [
        replace(first, values=tuple(sorted({value for text in same for value in text.values})))
        for first in {replace(text, values=()) for text in texts}
        for same in [[text for text in texts if replace(text, values=()) == first]]
    ]
    return [*merged, *(part for part in parts if not isinstance(part, TextIn))]


def _sort_parts(parts: list[Predicate]) -> tuple[Predicate, ...]:
    by_text = {part.cel(): part for part in parts}
    return tuple(by_text[text] for text in sorted(by_text))


@dataclass(frozen=True, slots=True)
class Shareable:
    """Several claims can hold the device."""

    def cel(self) -> str:
        """The field, which exists where the API server has DRAConsumableCapacity."""
        return "device.allowMultipleAllocations"

    def matches(self, device: Device) -> bool:
        """True if several claims can hold it."""
        return device.is_shareable

    def words(self) -> str:
        """`shareable`."""
        return "shareable"
