"""Calls as the cost estimator sees them, and cel-go's estimates for its own functions, by overload id.

Sources: cel-go v0.26.0 checker/cost.go (`functionCost`), ext/lists.go and ext/sets.go.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from policies.cel.cost.sizes import (
    LIST_COST,
    REGEX_FACTOR,
    STRING_FACTOR,
    UNKNOWN,
    Estimate,
    FieldPath,
    declared_size,
    exactly,
    wrap_uint64,
)
from policies.cel.syntax import Literal
from policies.cel.values import UINT64_MAX

if TYPE_CHECKING:
    from collections.abc import Mapping

    from policies.cel.syntax import Expression
    from policies.cel.types import Type

__all__ = [
    "EXTENSION_ESTIMATES",
    "NOMINAL",
    "ONE",
    "STANDARD_ESTIMATES",
    "CallEstimate",
    "EstimatedCall",
    "Estimator",
    "Operand",
    "match_estimate",
]


@dataclass(frozen=True, slots=True)
class Operand:
    """A target or argument of a call, as far as its size is concerned."""

    expression: Expression | None
    """None for the elements of a list, which no expression stands for."""
    type: Type
    path: FieldPath
    computed_size: Estimate | None
    """The size that the expression itself implies."""

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


def match_estimate(subject: Estimate, pattern: Estimate) -> Estimate:
    """The cost of applying a regular expression; an empty subject counts as one character."""
    return subject.plus(ONE).times_factor(STRING_FACTOR).times(pattern.times_factor(REGEX_FACTOR))


def _first_argument_read(call: EstimatedCall) -> CallEstimate | None:
    return CallEstimate(call.arguments[0].size.times_factor(STRING_FACTOR)) if len(call.arguments) == 1 else None


def _string_to_bytes(call: EstimatedCall) -> CallEstimate | None:
    size = call.arguments[0].size
    return CallEstimate(size.times_factor(STRING_FACTOR), Estimate(size.minimum, wrap_uint64(size.maximum * 4)))


def _bytes_to_string(call: EstimatedCall) -> CallEstimate | None:
    size = call.arguments[0].size
    return CallEstimate(size.times_factor(STRING_FACTOR), Estimate(size.minimum // 4, size.maximum))


def _quote(call: EstimatedCall) -> CallEstimate | None:
    size = call.arguments[0].size
    quoted = Estimate(wrap_uint64(size.minimum + 2), wrap_uint64(size.maximum * 2 + 2))
    return CallEstimate(size.times_factor(STRING_FACTOR), quoted)


def _format_string(call: EstimatedCall) -> CallEstimate | None:
    return CallEstimate(call.target.size.times_factor(STRING_FACTOR)) if call.target else None


def _in_list(call: EstimatedCall) -> CallEstimate | None:
    return CallEstimate(call.arguments[1].size.times_factor(1))


def _matches(call: EstimatedCall) -> CallEstimate | None:
    return CallEstimate(match_estimate(call.target.size, call.arguments[0].size)) if call.target else None


def _contains(call: EstimatedCall) -> CallEstimate | None:
    if call.target is None:
        return None
    part = call.arguments[0].size.times_factor(STRING_FACTOR)
    return CallEstimate(call.target.size.times_factor(STRING_FACTOR).times(part))


def _concatenation(call: EstimatedCall) -> CallEstimate | None:
    size = call.arguments[0].size.plus(call.arguments[1].size)
    return CallEstimate(size.times_factor(STRING_FACTOR), size)


def _list_concatenation(call: EstimatedCall) -> CallEstimate | None:
    return CallEstimate(ONE, call.arguments[0].size.plus(call.arguments[1].size))


def _comparison(call: EstimatedCall) -> CallEstimate | None:
    most = min(call.arguments[0].size.maximum, call.arguments[1].size.maximum)
    return CallEstimate(Estimate(min(most, 1), most).times_factor(STRING_FACTOR))


_ORDERS = ("less", "greater", "less_equals", "greater_equals")

STANDARD_ESTIMATES: Mapping[str, Estimator] = {
    "string_format": _format_string,
    "string_to_bytes": _string_to_bytes,
    "bytes_to_string": _bytes_to_string,
    "strings_quote": _quote,
    "starts_with_string": _first_argument_read,
    "ends_with_string": _first_argument_read,
    "in_list": _in_list,
    "matches_string": _matches,
    "contains_string": _contains,
    "add_string": _concatenation,
    "add_bytes": _concatenation,
    "add_list": _list_concatenation,
    "equals": _comparison,
    "not_equals": _comparison,
    **{f"{order}_{kind}": _comparison for order in _ORDERS for kind in ("string", "bytes")},
}


def _made_list(size: Estimate, factor: float) -> CallEstimate:
    """A list made in a walk over so many elements."""
    return CallEstimate(size.times_factor(factor).plus(ONE).plus(exactly(LIST_COST)), size)


def _int_literal(operand: Operand, otherwise: int) -> int:
    """The value of an int that is written out; negative ones count as 0."""
    literal = operand.expression
    if not isinstance(literal, Literal) or type(literal.value) is not int:
        return otherwise
    return max(literal.value, 0)


def _slice(call: EstimatedCall) -> CallEstimate | None:
    if call.target is None:
        return None
    start = _int_literal(call.arguments[0], 0)
    end = _int_literal(call.arguments[1], call.target.size.maximum)
    return _made_list(exactly(wrap_uint64(end - start)), 1)


def _range(call: EstimatedCall) -> CallEstimate | None:
    return _made_list(exactly(_int_literal(call.arguments[0], UINT64_MAX)), 1)


def _reverse(call: EstimatedCall) -> CallEstimate | None:
    return _made_list(call.target.size, 1) if call.target else None


def _flatten(call: EstimatedCall) -> CallEstimate | None:
    depth = _int_literal(call.arguments[0], UINT64_MAX) if call.arguments else 1
    return _made_list(call.target.size, float(depth)) if call.target else None


def _distinct(call: EstimatedCall) -> CallEstimate | None:
    return _made_list(call.target.size.times(call.target.size), 2) if call.target else None


def _sort_by(call: EstimatedCall) -> CallEstimate | None:
    keys = call.arguments[0].size
    return _made_list(keys.times(keys), 2)


def _sort_by_text(call: EstimatedCall) -> CallEstimate | None:
    keys = call.arguments[0].size
    return _made_list(keys.times(keys), 2 + STRING_FACTOR)


def _sort_text(call: EstimatedCall) -> CallEstimate | None:
    return _made_list(call.target.size.times(call.target.size), 2 + STRING_FACTOR) if call.target else None


def _sets(call: EstimatedCall) -> CallEstimate | None:
    return CallEstimate(call.arguments[0].size.times(call.arguments[1].size).times_factor(1).plus(ONE))


def _sets_twice(call: EstimatedCall) -> CallEstimate | None:
    return CallEstimate(call.arguments[0].size.times(call.arguments[1].size).times_factor(2).plus(ONE))


_SORTED_SCALARS = ("int", "uint", "double", "bool", "google.protobuf.Duration", "google.protobuf.Timestamp")

EXTENSION_ESTIMATES: Mapping[str, Estimator] = {
    "list_slice": _slice,
    "lists_range": _range,
    "list_reverse": _reverse,
    "list_flatten": _flatten,
    "list_flatten_int": _flatten,
    "list_distinct": _distinct,
    **{f"list_{kind}_sort": _distinct for kind in _SORTED_SCALARS},
    **{f"list_{kind}_sort": _sort_text for kind in ("string", "bytes")},
    **{f"list_{kind}_sortByAssociatedKeys": _sort_by for kind in _SORTED_SCALARS},
    **{f"list_{kind}_sortByAssociatedKeys": _sort_by_text for kind in ("string", "bytes")},
    "list_sets_contains_list": _sets,
    "list_sets_intersects_list": _sets,
    "list_sets_equivalent_list": _sets_twice,
}
