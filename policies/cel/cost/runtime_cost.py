"""The cost of an evaluation: a charge for each call, and constants for everything else."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import chain
from typing import TYPE_CHECKING

from policies.cel.cost.kubernetes_estimates import NOMINAL_FUNCTIONS
from policies.cel.cost.sizes import (
    LIST_COST,
    REGEX_FACTOR,
    STRING_FACTOR,
    STRUCT_COST,
    scaled_cost,
    uint64,
    wrap_uint64,
)
from policies.cel.errors import CelRuntimeError, EvaluationAborted, spend_steps
from policies.cel.kinds import go_type
from policies.cel.libraries.formats import Format
from policies.cel.libraries.ips import CIDR, IP
from policies.cel.libraries.quantities import Quantity
from policies.cel.libraries.semvers import Semver
from policies.cel.libraries.urls import URL
from policies.cel.values import Absent, Concatenation, Map, Optional, UInt, Value, size

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from policies.cel.values import List

__all__ = [
    "ATTRIBUTE",
    "EXTENSION_CHARGES",
    "QUALIFIER",
    "STANDARD_CHARGES",
    "Charge",
    "Outcome",
    "call_charge",
    "match_cost",
    "outcome_size",
    "stops_early",
]


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


_AUTHORIZATION_CHECK = 350_000
_END = CelRuntimeError("")
"""Marks the end of a walk through values, as nothing in them can."""


def nominal(arguments: Sequence[Outcome], result: Outcome) -> int:
    """1, for any arguments."""
    return 1


def _authorization_check(arguments: Sequence[Outcome], result: Outcome) -> int:
    return _AUTHORIZATION_CHECK


def _selector_parsed(arguments: Sequence[Outcome], result: Outcome) -> int:
    length = outcome_size(arguments[1])
    requirements = scaled_cost(scaled_cost(length, 0.5), float(LIST_COST + STRUCT_COST))
    return LIST_COST + scaled_cost(length, STRING_FACTOR) + requirements


def _walk_cost(arguments: Sequence[Outcome], result: Outcome) -> int:
    """Charges each text in a value by its bytes, everything else in it 1, and containers nothing."""
    total = 0
    pending: list[Iterator[Outcome]] = [iter(arguments[:1])]
    while pending:
        value = next(pending[-1], _END)
        if value is _END:
            pending.pop()
        elif isinstance(value, str | bytes):
            length = len(value.encode()) if isinstance(value, str) else len(value)
            total += uint64(float(length) * STRING_FACTOR)
        elif isinstance(value, tuple | Concatenation | Map):
            spend_steps(1 if isinstance(value, Concatenation) else 1 + len(value))
            pending.append(chain.from_iterable(value.items()) if isinstance(value, Map) else iter(value))
        else:
            total += 1
    return wrap_uint64(total)


def _argument_read(arguments: Sequence[Outcome], result: Outcome) -> int:
    return scaled_cost(outcome_size(arguments[0]), STRING_FACTOR)


def _argument_read_twice(arguments: Sequence[Outcome], result: Outcome) -> int:
    return scaled_cost(outcome_size(arguments[0]), 2 * STRING_FACTOR)


def _result_read_twice(arguments: Sequence[Outcome], result: Outcome) -> int:
    return scaled_cost(outcome_size(result), 2 * STRING_FACTOR)


def _found(arguments: Sequence[Outcome], result: Outcome) -> int:
    return match_cost(outcome_size(arguments[0]), outcome_size(arguments[1]))


def _ip_contained(arguments: Sequence[Outcome], result: Outcome) -> int:
    return scaled_cost(2 * outcome_size(arguments[0]), STRING_FACTOR)


def _cidr_contained(arguments: Sequence[Outcome], result: Outcome) -> int:
    block = outcome_size(arguments[0])
    return scaled_cost(2 * block, STRING_FACTOR) + scaled_cost(block, STRING_FACTOR) + 1


def _with_text_read(charge: Charge) -> Charge:
    """A charge plus that of reading the second argument, a text."""

    def both(arguments: Sequence[Outcome], result: Outcome) -> int:
        return charge(arguments, result) + scaled_cost(outcome_size(arguments[1]), STRING_FACTOR)

    return both


_REGEX_SIZES = {
    "DNS1123Label": 30,
    "DNS1123Subdomain": 60,
    "DNS1035Label": 30,
    "QualifiedName": 60,
    "DNS1123LabelPrefix": 30,
    "DNS1123SubdomainPrefix": 60,
    "DNS1035LabelPrefix": 30,
    "LabelValue": 40,
    "URI": 1103,
    "uuid": 70,
    "byte": 84,
    "date": 71,
    "datetime": 71,
}
"""How long the regular expression of each named format is taken to be; library/format.go, `MaxRegexSize`."""


def _validate_cost(arguments: Sequence[Outcome], result: Outcome) -> int:
    named = arguments[0]
    if not isinstance(named, Format):
        return 1
    return match_cost(outcome_size(arguments[1]), _REGEX_SIZES[named.name])


_COMPARED_AT_ONCE = frozenset({Quantity, Semver, IP, CIDR, URL, Format})


def _equality(arguments: Sequence[Outcome], result: Outcome) -> int:
    return 1 if type(arguments[0]) in _COMPARED_AT_ONCE else STANDARD_CHARGES["equals"](arguments, result)


KUBERNETES_OVERLOAD_CHARGES: Mapping[str, Charge] = {
    "cidr_ip": nominal,
    "cidr_contains_ip_string": _with_text_read(_ip_contained),
    "cidr_contains_cidr_string": _with_text_read(_cidr_contained),
}
"""Overloads that cost other than their functions."""

KUBERNETES_CHARGES: Mapping[str, Charge] = {
    "check": _authorization_check,
    "join": _result_read_twice,
    "ip.isCanonical": _argument_read_twice,
    "containsIP": _ip_contained,
    "containsCIDR": _cidr_contained,
    "validate": _validate_cost,
    "_==_": _equality,
    **dict.fromkeys(NOMINAL_FUNCTIONS, nominal),
    **dict.fromkeys(("fieldSelector", "labelSelector"), _selector_parsed),
    **dict.fromkeys(("isSorted", "sum", "max", "min", "indexOf", "lastIndexOf"), _walk_cost),
    **dict.fromkeys(("url", "lowerAscii", "upperAscii", "substring", "trim", "jsonpatch.escapeKey"), _argument_read),
    **dict.fromkeys(("cidr", "isIP", "isCIDR", "ip"), _argument_read),
    **dict.fromkeys(("quantity", "isQuantity", "semver", "isSemver"), _argument_read),
    **dict.fromkeys(("replace", "split"), _argument_read_twice),
    **dict.fromkeys(("find", "findAll"), _found),
}


ATTRIBUTE = 1
QUALIFIER = 1


def call_charge(function: str, overload_id: str) -> Charge:
    """The function that computes the cost of each call; sums of costs wrap around at 2^64, as in cel-go.

    The charge raises EvaluationAborted where cel-go's own computation of the cost panics.

    Args:
        function: its full name, as `function_name` returns it.
        overload_id: the one overload that it can run, or empty.
    """
    return (
        EXTENSION_CHARGES.get(overload_id)
        or KUBERNETES_OVERLOAD_CHARGES.get(overload_id)
        or KUBERNETES_CHARGES.get(function)
        or STANDARD_CHARGES.get(overload_id, nominal)
    )


_SINGLE_IMPLEMENTATIONS = frozenset(
    {
        *("_+_", "_-_", "_*_", "_/_", "_%_", "_<_", "_<=_", "_>_", "_>=_", "_==_", "_!=_", "@in"),
        "@sortByAssociatedKeys",
    }
)
"""Functions of two arguments and many overloads that one piece of code serves."""

_COMPILED_PATTERNS = frozenset({"matches", "find", "findAll"})


def stops_early(function: str, overload_id: str, argument_count: int, *, constant_pattern: bool) -> bool:
    """True if a call leaves the arguments after one that failed alone, and is then not charged.

    Args:
        function: its full name.
        overload_id: the one overload it can run, or empty.
        argument_count: with the target.
        constant_pattern: whether the second argument is a constant string; the functions of regular expressions are
            then planned otherwise.
    """
    if argument_count != 2:
        return argument_count > 2
    if function in _COMPILED_PATTERNS and constant_pattern:
        return True
    if overload_id:
        return overload_id == "string_format"
    return function not in _SINGLE_IMPLEMENTATIONS
