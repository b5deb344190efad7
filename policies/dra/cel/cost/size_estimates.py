"""Ranges of sizes and costs, in the unsigned 64-bit arithmetic of cel-go's cost estimator.

A number that is computed in Python must be the number that Kubernetes computed in Go, overflow and rounding included,
because it decides which selectors the API server accepts. Source: cel-go v0.26.0 checker/cost.go.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from policies.dra.cel.values import UINT64_MAX

__all__ = [
    "LIST_COST",
    "MAP_COST",
    "REGEX_FACTOR",
    "STRING_FACTOR",
    "STRUCT_COST",
    "UNKNOWN",
    "Estimate",
    "exactly",
    "saturate",
    "scaled_cost",
    "uint64",
    "wrap_uint64",
]

LIST_COST = 10
"""The cost of a list of any length; this and the next from cel-go common/cost.go."""
MAP_COST = 30
STRUCT_COST = 40
STRING_FACTOR = 0.1
"""Cost units per character of a string that is read once."""
REGEX_FACTOR = 0.25
"""Cost units per character of a pattern, for each unit that reading the subject costs."""

_TWO_TO_63 = 2.0**63
_TWO_TO_64 = 2.0**64


def saturate(number: int) -> int:
    """The number, or the greatest that 64 bits hold."""
    return min(number, UINT64_MAX)


def wrap_uint64(number: int) -> int:
    """The number as Go's unchecked 64-bit arithmetic leaves it."""
    return number & UINT64_MAX


def uint64(number: float) -> int:
    """What Go's `uint64(number)` gives on amd64, where it is not defined by the language too.

    Negative numbers wrap around, and what does not fit becomes 2^63.
    """
    if 0.0 <= number < _TWO_TO_64:
        return int(number)
    if -_TWO_TO_63 < number < 0.0:
        return wrap_uint64(int(number))
    return 2**63


def scaled_cost(size: int, factor: float) -> int:
    """A size times a cost factor, rounded up; saturated."""
    size_as_float = float(size)
    if size_as_float > 0 and factor > 0 and size_as_float > _TWO_TO_64 / factor:
        return UINT64_MAX
    product = size_as_float * factor
    return UINT64_MAX if product >= _TWO_TO_64 else wrap_uint64(math.ceil(product))


class Estimate(NamedTuple):
    """A range in which a size or a cost lies; every operation saturates at 2^64 - 1."""

    minimum: int
    maximum: int

    def plus(self, other: Estimate) -> Estimate:
        """Both, one after the other."""
        return Estimate(saturate(self.minimum + other.minimum), saturate(self.maximum + other.maximum))

    def times(self, other: Estimate) -> Estimate:
        """One for each unit of the other."""
        return Estimate(saturate(self.minimum * other.minimum), saturate(self.maximum * other.maximum))

    def times_factor(self, factor: float) -> Estimate:
        """The cost of a size at a cost per unit, rounded up."""
        return Estimate(scaled_cost(self.minimum, factor), scaled_cost(self.maximum, factor))

    def union(self, other: Estimate) -> Estimate:
        """The range that holds both."""
        return Estimate(min(self.minimum, other.minimum), max(self.maximum, other.maximum))


UNKNOWN = Estimate(0, UINT64_MAX)
"""The size of a value of which nothing is known."""


def exactly(number: int) -> Estimate:
    """The range of one number."""
    return Estimate(number, number)
