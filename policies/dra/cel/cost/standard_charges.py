"""What evaluating calls of cel-go's own functions costs, by overload id and by sizes of values.

Sources: cel-go v0.26.0 interpreter/runtimecost.go (`costCall`), ext/lists.go and ext/sets.go.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from policies.dra.cel.cost.size_estimates import (
    LIST_COST,
    REGEX_FACTOR,
    STRING_FACTOR,
    scaled_cost,
    uint64,
    wrap_uint64,
)
from policies.dra.cel.errors import CelRuntimeError, EvaluationAborted
from policies.dra.cel.kinds import go_type
from policies.dra.cel.libraries.cidrs import CIDR
from policies.dra.cel.libraries.ips import IP
from policies.dra.cel.values import Absent, Concatenation, Map, Optional, UInt, Value, size

if TYPE_CHECKING:
    from collections.abc import Mapping

    from policies.dra.cel.values import List

__all__ = ["EXTENSION_CHARGES", "STANDARD_CHARGES", "Charge", "Outcome", "match_cost", "outcome_size"]

Outcome = Value | CelRuntimeError
"""What an argument or a call came to."""

Charge = Callable[[Sequence[Outcome], Outcome], int]
"""The cost of a call with these arguments and this result."""


def outcome_size(outcome: Outcome) -> int:
    """The `size` of texts, lists and maps, and the bytes of addresses; 1 for anything else, also errors."""
    if isinstance(outcome, str | bytes | tuple | Map):
        return len(outcome)
    if isinstance(outcome, Concatenation):
        return outcome.size
    if isinstance(outcome, IP):
        return outcome.bits // 8
    if isinstance(outcome, CIDR):
        return -(-outcome.length // 8)
    return 1


def held_size(outcome: Outcome) -> int:
    """As `outcome_size`, but an optional counts for what it holds."""
    while isinstance(outcome, Optional) and not isinstance(outcome.value, Absent):
        outcome = outcome.value
    return outcome_size(outcome)


def match_cost(subject_size: int, pattern_size: int) -> int:
    """The cost of applying a regular expression; a subject counts for one character more than it has."""
    subject_cost = uint64(math.ceil((1.0 + float(subject_size)) * STRING_FACTOR))
    return wrap_uint64(subject_cost * scaled_cost(pattern_size, REGEX_FACTOR))


def _target_read(arguments: Sequence[Outcome], result: Outcome) -> int:
    return scaled_cost(held_size(arguments[0]), STRING_FACTOR)


def _list_searched(arguments: Sequence[Outcome], result: Outcome) -> int:
    return held_size(arguments[1])


def _comparison_cost(arguments: Sequence[Outcome], result: Outcome) -> int:
    return scaled_cost(min(held_size(arguments[0]), held_size(arguments[1])), STRING_FACTOR)


def _concatenation_cost(arguments: Sequence[Outcome], result: Outcome) -> int:
    return scaled_cost(held_size(arguments[0]) + held_size(arguments[1]), STRING_FACTOR)


def _regex_cost(arguments: Sequence[Outcome], result: Outcome) -> int:
    return match_cost(held_size(arguments[0]), held_size(arguments[1]))


def _containment_cost(arguments: Sequence[Outcome], result: Outcome) -> int:
    part_cost = scaled_cost(held_size(arguments[1]), STRING_FACTOR)
    return wrap_uint64(scaled_cost(held_size(arguments[0]), STRING_FACTOR) * part_cost)


_ORDERS = ("less", "greater", "less_equals", "greater_equals")

STANDARD_CHARGES: Mapping[str, Charge] = {
    "starts_with_string": _target_read,
    "ends_with_string": _target_read,
    "string_to_bytes": _target_read,
    "bytes_to_string": _target_read,
    "strings_quote": _target_read,
    "string_format": _target_read,
    "in_list": _list_searched,
    "equals": _comparison_cost,
    "not_equals": _comparison_cost,
    **{f"{order}_{kind}": _comparison_cost for order in _ORDERS for kind in ("string", "bytes")},
    "add_string": _concatenation_cost,
    "add_bytes": _concatenation_cost,
    "matches_string": _regex_cost,
    "contains_string": _containment_cost,
}


def _list_made(elements: int, factor: float) -> int:
    return wrap_uint64(uint64(float(wrap_uint64(elements)) * factor) + 1 + LIST_COST)


def _result_made(arguments: Sequence[Outcome], result: Outcome) -> int:
    return _list_made(outcome_size(result), 1)


def _flatten_cost(arguments: Sequence[Outcome], result: Outcome) -> int:
    depth = 1
    if len(arguments) > 1:
        level = arguments[1]
        if not isinstance(level, int) or isinstance(level, bool | UInt):
            raise EvaluationAborted(f"{_PANIC} ref.Val is {_go_type(level)}, not types.Int")
        depth = level
    return _list_made(outcome_size(arguments[0]), float(depth))


def _elements_compared(arguments: Sequence[Outcome], result: Outcome) -> int:
    return _all_compared(_required_list(arguments[0]))


def _keys_compared(arguments: Sequence[Outcome], result: Outcome) -> int:
    return _all_compared(_required_list(arguments[1]))


def _all_compared(elements: List) -> int:
    """Each with each, as sorting and removing duplicates may."""
    count = size(elements)
    has_text = count > 0 and isinstance(elements[0], str | bytes)
    return _list_made(count * count, 2 + STRING_FACTOR if has_text else 2)


_PANIC = "internal error: interface conversion:"
_ADDABLE = frozenset(f"types.{name}" for name in ("Int", "Uint", "Double", "String", "Bytes", "Timestamp", "Duration"))


def _required_list(outcome: Outcome) -> List:
    """The list, where cel-go assumes that it is one and panics if it is not."""
    if isinstance(outcome, tuple | Concatenation):
        return outcome
    found = _go_type(outcome)
    missing = "Contains" if found in _ADDABLE else "Add"
    raise EvaluationAborted(f"{_PANIC} {found} is not traits.Lister: missing method {missing}")


def _go_type(outcome: Outcome) -> str:
    return "*types.Err" if isinstance(outcome, CelRuntimeError) else go_type(outcome)


def _sets_compared(arguments: Sequence[Outcome], result: Outcome) -> int:
    return wrap_uint64(1 + wrap_uint64(outcome_size(arguments[0]) * outcome_size(arguments[1])))


def _sets_compared_twice(arguments: Sequence[Outcome], result: Outcome) -> int:
    pairs = wrap_uint64(outcome_size(arguments[0]) * outcome_size(arguments[1]))
    return wrap_uint64(1 + uint64(float(pairs) * 2))


_SORTED = (
    *("int", "uint", "double", "bool", "string", "bytes"),
    *("google.protobuf.Duration", "google.protobuf.Timestamp"),
)

EXTENSION_CHARGES: Mapping[str, Charge] = {
    "list_slice": _result_made,
    "lists_range": _result_made,
    "list_reverse": _result_made,
    "list_flatten": _flatten_cost,
    "list_flatten_int": _flatten_cost,
    "list_distinct": _elements_compared,
    **{f"list_{kind}_sort": _elements_compared for kind in _SORTED},
    **{f"list_{kind}_sortByAssociatedKeys": _keys_compared for kind in _SORTED},
    "list_sets_contains_list": _sets_compared,
    "list_sets_intersects_list": _sets_compared,
    "list_sets_equivalent_list": _sets_compared_twice,
}
"""These come before Kubernetes' own, and those before the standard ones."""
