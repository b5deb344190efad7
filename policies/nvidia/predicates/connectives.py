"""Predicates made of predicates: not, all of, any of."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from policies.nvidia.predicates.predicate import TextIn

if TYPE_CHECKING:
    from collections.abc import Iterable

    from policies.kubernetes.resourceslices import Device
    from policies.nvidia.predicates.predicate import Predicate

__all__ = ["FALSE", "TRUE", "AllOf", "AnyOf", "Not", "all_of", "any_of", "negate"]


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
