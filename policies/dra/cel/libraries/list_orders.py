"""Which values have an order, for functions that sort."""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.dra.cel.equality import compare
from policies.dra.cel.errors import CelRuntimeError
from policies.dra.cel.libraries.times import Duration, Timestamp
from policies.dra.cel.types import BOOL, BYTES, DOUBLE, DURATION, INT, STRING, TIMESTAMP, UINT
from policies.dra.cel.values import UInt

if TYPE_CHECKING:
    from policies.dra.cel.values import Value

__all__ = ["ORDERED_TYPES", "is_ordered", "order"]

ORDERED_TYPES = (INT, UINT, DOUBLE, BOOL, DURATION, TIMESTAMP, STRING, BYTES)
"""In the order in which both libraries of lists declare them."""

_ORDERED = frozenset({int, UInt, float, bool, Duration, Timestamp, str, bytes})


def is_ordered(value: Value) -> bool:
    """Whether a value is of a type that has an order."""
    return value.__class__ in _ORDERED


def order(left: Value, right: Value) -> int:
    """-1, 0 or 1 as the left value is less than, equal to or greater than the right one; 0 too where they do not compare.

    Functions on lists do not fail on values that do not compare, such as 1 and "a", or NaN and anything.
    """
    try:
        return compare(left, right)
    except CelRuntimeError:
        return 0
