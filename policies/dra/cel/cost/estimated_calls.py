"""Calls as the cost estimator sees them: functions, overloads, and what is known about the size of each argument."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from policies.dra.cel.cost.device_sizes import FieldPath, maximum_size
from policies.dra.cel.cost.size_estimates import REGEX_FACTOR, STRING_FACTOR, UNKNOWN, Estimate, exactly

if TYPE_CHECKING:
    from policies.dra.cel.syntax import Expression
    from policies.dra.cel.types import Type

__all__ = ["NOMINAL", "ONE", "CallEstimate", "EstimatedCall", "Estimator", "Operand", "declared_size", "matching"]


def declared_size(path: FieldPath) -> Estimate | None:
    """The size that Kubernetes declares for a part of `device`, or None."""
    maximum = maximum_size(path)
    return None if maximum is None else Estimate(0, maximum)


@dataclass(frozen=True, slots=True)
class Operand:
    """A target or argument of a call, as far as its size is concerned."""

    expression: Expression | None
    """None for the elements of a list, which no expression stands for."""
    type: Type
    path: FieldPath
    computed_size: Estimate | None
    """What the expression itself tells about its size."""

    @property
    def size(self) -> Estimate:
        """The best that is known about the size."""
        return self.computed_size or declared_size(self.path) or UNKNOWN


@dataclass(frozen=True, slots=True)
class EstimatedCall:
    """A call of one overload."""

    function: str
    overload_id: str
    target: Operand | None
    arguments: tuple[Operand, ...]


class CallEstimate(NamedTuple):
    """What one call costs without its arguments, and the size of its result where that is known."""

    cost: Estimate
    result_size: Estimate | None = None


Estimator = Callable[[EstimatedCall], CallEstimate | None]
"""None leaves the call to the next estimator."""

ONE = exactly(1)
NOMINAL = CallEstimate(ONE)


def matching(subject: Estimate, pattern: Estimate) -> Estimate:
    """The cost of applying a regular expression; an empty subject counts as one character."""
    return subject.plus(ONE).times_factor(STRING_FACTOR).times(pattern.times_factor(REGEX_FACTOR))
