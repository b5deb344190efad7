"""`x in [constants]` as a look-up in a set.

Source: cel-go interpreter/decorators.go, maybeOptimizeSetMembership and evalSetMembership.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.dra.cel.errors import EvaluationAborted
from policies.dra.cel.kinds import go_type
from policies.dra.cel.libraries.semvers import Semver
from policies.dra.cel.values import UNHASHABLE, UInt

if TYPE_CHECKING:
    from policies.dra.cel.values import Value

__all__ = ["is_member", "members"]


def is_member(value: Value, among: frozenset[object]) -> bool:
    """Whether a value is in a set made by `members`.

    Raises:
        EvaluationAborted: cel-go panics on bytes and versions, which it cannot look up.
    """
    if isinstance(value, str):
        return value in among
    if isinstance(value, bytes | Semver):
        raise EvaluationAborted(UNHASHABLE.format(go_type(value)))
    return isinstance(value, bool | int | float) and _member(value) in among


def _member(value: Value) -> object:
    """What stands for a value in the set; 1, 1u and 1.0 are told apart."""
    return value if value.__class__ is str else (value.__class__, value)


def members(elements: tuple[Value, ...]) -> frozenset[object]:
    """The elements, which are bools, strings and numbers, and of numbers their equals of other types."""
    found = set()
    for element in elements:
        found.add(_member(element))
        if isinstance(element, bool | str):
            continue
        for convert in (int, UInt, float):
            if element.__class__ is not convert and _fits(element, convert):
                found.add(_member(convert(element)))  # type: ignore[arg-type]  # a number
    return frozenset(found)


def _fits(number: Value, kind: type) -> bool:
    """Whether a number has an equal of another type."""
    if kind is float:
        return True
    if isinstance(number, float) and not number.is_integer():
        return False
    return 0 <= number < 2**64 if kind is UInt else -(2**63) <= number < 2**63  # type: ignore[operator]  # a number
