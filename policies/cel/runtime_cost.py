"""The cost of an evaluation: a charge for each call, and constants for everything else."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import chain
from typing import TYPE_CHECKING

from policies.cel.call_estimates import AUTHORIZATION_CHECK, NOMINAL_FUNCTIONS
from policies.cel.errors import CelRuntimeError, EvaluationAborted, spend_steps
from policies.cel.kinds import go_type
from policies.cel.libraries.formats import Format
from policies.cel.libraries.ips import CIDR, IP
from policies.cel.libraries.quantities import Quantity
from policies.cel.libraries.semvers import Semver
from policies.cel.libraries.urls import URL
from policies.cel.sizes import LIST_COST, REGEX_FACTOR, STRING_FACTOR, STRUCT_COST, scaled_cost, uint64, wrap_uint64
from policies.cel.values import Absent, Concatenation, Map, Optional, UInt, Value, size

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


Outcome = Value | CelRuntimeError
"""The outcome of an argument or a call."""

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


_ORDERS = ("less", "greater", "less_equals", "greater_equals")


def _target_read(arguments: Sequence[Outcome], _: Outcome) -> int:
    return scaled_cost(held_size(arguments[0]), STRING_FACTOR)


def _second_read(arguments: Sequence[Outcome], _: Outcome) -> int:
    return scaled_cost(held_size(arguments[1]), STRING_FACTOR)


def _comparison_cost(arguments: Sequence[Outcome], _: Outcome) -> int:
    return scaled_cost(min(held_size(arguments[0]), held_size(arguments[1])), STRING_FACTOR)


def _concatenation_cost(arguments: Sequence[Outcome], _: Outcome) -> int:
    return scaled_cost(held_size(arguments[0]) + held_size(arguments[1]), STRING_FACTOR)


def _containment_cost(arguments: Sequence[Outcome], _: Outcome) -> int:
    part_cost = scaled_cost(held_size(arguments[1]), STRING_FACTOR)
    return wrap_uint64(scaled_cost(held_size(arguments[0]), STRING_FACTOR) * part_cost)


_STANDARD_CHARGES: Mapping[str, Charge] = {
    **dict.fromkeys(("starts_with_string", "ends_with_string", "string_to_bytes", "bytes_to_string"), _target_read),
    **dict.fromkeys(("strings_quote", "string_format"), _target_read),
    **dict.fromkeys(("starts_with_read_string", "ends_with_read_string"), _second_read),
    "in_list": lambda arguments, _: held_size(arguments[1]),
    "equals": _comparison_cost,
    "not_equals": _comparison_cost,
    **{f"{order}_{kind}": _comparison_cost for order in _ORDERS for kind in ("string", "bytes")},
    "add_string": _concatenation_cost,
    "add_bytes": _concatenation_cost,
    "matches_string": lambda arguments, _: match_cost(held_size(arguments[0]), held_size(arguments[1])),
    "contains_string": _containment_cost,
}


def _list_made(elements: int, factor: float) -> int:
    return wrap_uint64(uint64(float(wrap_uint64(elements)) * factor) + 1 + LIST_COST)


def _result_made(_: Sequence[Outcome], result: Outcome) -> int:
    return _list_made(outcome_size(result), 1)


def _flatten_cost(arguments: Sequence[Outcome], _: Outcome) -> int:
    depth = 1
    if len(arguments) > 1:
        level = arguments[1]
        if not isinstance(level, int) or isinstance(level, bool | UInt):
            raise EvaluationAborted(f"{_PANIC} ref.Val is {_go_type(level)}, not types.Int")
        depth = level
    return _list_made(outcome_size(arguments[0]), float(depth))


def _all_compared(outcome: Outcome) -> int:
    """Each element of a list with each, as sorting may; cel-go panics on anything but a list."""
    if not isinstance(outcome, tuple | Concatenation):
        found = _go_type(outcome)
        missing = "Contains" if found in _ADDABLE else "Add"
        raise EvaluationAborted(f"{_PANIC} {found} is not traits.Lister: missing method {missing}")
    count = size(outcome)
    has_text = count > 0 and isinstance(outcome[0], str | bytes)
    return _list_made(count * count, 2 + STRING_FACTOR if has_text else 2)


_PANIC = "internal error: interface conversion:"
_ADDABLE = frozenset(f"types.{name}" for name in ("Int", "Uint", "Double", "String", "Bytes", "Timestamp", "Duration"))


def _go_type(outcome: Outcome) -> str:
    return "*types.Err" if isinstance(outcome, CelRuntimeError) else go_type(outcome)


def _pairs(arguments: Sequence[Outcome]) -> int:
    return wrap_uint64(outcome_size(arguments[0]) * outcome_size(arguments[1]))


_SORTED = (
    *("int", "uint", "double", "bool", "string", "bytes"),
    *("google.protobuf.Duration", "google.protobuf.Timestamp"),
)

_EXTENSION_CHARGES: Mapping[str, Charge] = {
    **dict.fromkeys(("list_slice", "lists_range", "list_reverse"), _result_made),
    "list_flatten": _flatten_cost,
    "list_flatten_int": _flatten_cost,
    "list_distinct": lambda arguments, _: _all_compared(arguments[0]),
    **{f"list_{kind}_sort": lambda arguments, _: _all_compared(arguments[0]) for kind in _SORTED},
    **{f"list_{kind}_sortByAssociatedKeys": lambda arguments, _: _all_compared(arguments[1]) for kind in _SORTED},
    "list_sets_contains_list": lambda arguments, _: wrap_uint64(1 + _pairs(arguments)),
    "list_sets_intersects_list": lambda arguments, _: wrap_uint64(1 + _pairs(arguments)),
    "list_sets_equivalent_list": lambda arguments, _: wrap_uint64(1 + uint64(float(_pairs(arguments)) * 2)),
}
"""These come before Kubernetes' own, and those before the standard ones."""


_END = CelRuntimeError("")
"""Marks the end of a walk through values, as nothing in them can."""


def _nominal(arguments: Sequence[Outcome], result: Outcome) -> int:
    return 1


def _selector_parsed(arguments: Sequence[Outcome], _: Outcome) -> int:
    length = outcome_size(arguments[1])
    requirements = scaled_cost(scaled_cost(length, 0.5), float(LIST_COST + STRUCT_COST))
    return LIST_COST + scaled_cost(length, STRING_FACTOR) + requirements


def _walk_cost(arguments: Sequence[Outcome], _: Outcome) -> int:
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


def _argument_read(arguments: Sequence[Outcome], _: Outcome) -> int:
    return scaled_cost(outcome_size(arguments[0]), STRING_FACTOR)


def _argument_read_twice(arguments: Sequence[Outcome], _: Outcome) -> int:
    return scaled_cost(outcome_size(arguments[0]), 2 * STRING_FACTOR)


def _found(arguments: Sequence[Outcome], _: Outcome) -> int:
    return match_cost(outcome_size(arguments[0]), outcome_size(arguments[1]))


def _ip_contained(arguments: Sequence[Outcome], _: Outcome) -> int:
    return scaled_cost(2 * outcome_size(arguments[0]), STRING_FACTOR)


def _cidr_contained(arguments: Sequence[Outcome], _: Outcome) -> int:
    block = outcome_size(arguments[0])
    return scaled_cost(2 * block, STRING_FACTOR) + scaled_cost(block, STRING_FACTOR) + 1


def _with_text_read(charge: Charge) -> Charge:
    """A charge plus that of reading the second argument, a text."""
    return lambda arguments, result: charge(arguments, result) + scaled_cost(outcome_size(arguments[1]), STRING_FACTOR)


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
"""The assumed length of the regular expression of each named format; library/format.go, `MaxRegexSize`."""


def _validate_cost(arguments: Sequence[Outcome], _: Outcome) -> int:
    named = arguments[0]
    return match_cost(outcome_size(arguments[1]), _REGEX_SIZES[named.name]) if isinstance(named, Format) else 1


_COMPARED_AT_ONCE = frozenset({Quantity, Semver, IP, CIDR, URL, Format})


def _equality(arguments: Sequence[Outcome], result: Outcome) -> int:
    return 1 if type(arguments[0]) in _COMPARED_AT_ONCE else _comparison_cost(arguments, result)


_KUBERNETES_OVERLOAD_CHARGES: Mapping[str, Charge] = {
    "cidr_ip": _nominal,
    "cidr_contains_ip_string": _with_text_read(_ip_contained),
    "cidr_contains_cidr_string": _with_text_read(_cidr_contained),
    "list_includes_dyn_dyn": _walk_cost,
}
"""Overloads that cost other than their functions."""

_KUBERNETES_CHARGES: Mapping[str, Charge] = {
    "check": lambda _arguments, _result: AUTHORIZATION_CHECK,
    "join": lambda _, result: scaled_cost(outcome_size(result), 2 * STRING_FACTOR),
    "ip.isCanonical": _argument_read_twice,
    "containsIP": _ip_contained,
    "containsCIDR": _cidr_contained,
    "validate": _validate_cost,
    "_==_": _equality,
    **dict.fromkeys(NOMINAL_FUNCTIONS, _nominal),
    **dict.fromkeys(("fieldSelector", "labelSelector"), _selector_parsed),
    **dict.fromkeys(("isSorted", "sum", "max", "min", "indexOf", "lastIndexOf"), _walk_cost),
    **dict.fromkeys(("url", "lowerAscii", "upperAscii", "substring", "trim"), _argument_read),
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
        _EXTENSION_CHARGES.get(overload_id)
        or _KUBERNETES_OVERLOAD_CHARGES.get(overload_id)
        or _KUBERNETES_CHARGES.get(function)
        or _STANDARD_CHARGES.get(overload_id, _nominal)
    )


_SINGLE_IMPLEMENTATIONS = frozenset(
    {*("_+_", "_-_", "_*_", "_/_", "_%_", "_<_", "_<=_", "_>_", "_>=_", "_==_", "_!=_", "@in"), "@sortByAssociatedKeys"}
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
