"""What evaluating an expression costs: a charge for each call, and constants for everything else.

cel-go's cost tracker watches the plan that the planner makes of a tree, not the tree, and the plan has fewer nodes.
An evaluation with a meter charges as follows. An error is a value here: what fails is charged like what does
not, and evaluation goes on wherever cel-go's does.

Constants cost nothing: literals, names of types, and what is folded when the plan is made, which is a list or map
literal of constants only (the empty ones of macros and of `cel.bind` too), a type conversion (`int("1")`, `dyn(1)`,
`type(x)`; not other functions) of a constant, and `x in []`, which does not even evaluate x. `x in list` of a constant
list of bools, numbers and strings is a set look-up if its one overload is `in_list`, and costs no more than x.

An attribute is a name, or any other value, with all selects and indexes that follow; it is one node. Evaluating it
charges QUALIFIER for each select or index as it is applied, and ATTRIBUTE at the end.
* A qualifier that fails is charged, those after it are not; ATTRIBUTE is. A qualifier after or at a `?` that finds
  nothing, or fails, is not charged.
* `has(a.b)` charges its qualifiers, the tested one too, but not ATTRIBUTE.
* An index that is an attribute charges its own qualifiers but not its ATTRIBUTE; any other index what it costs. It is
  evaluated when its turn among the qualifiers comes.
* A value that is not an attribute charges what it costs, and ATTRIBUTE only if something is selected from it.

A ternary charges its condition and the branch it takes, a branch that is an attribute without ATTRIBUTE; selects and
indexes of a ternary belong to the branch taken, and there is no ATTRIBUTE for them either.

`&&`, `||`, `.or()`, `.orValue()`, comprehensions and `cel.bind` charge nothing themselves, only what they evaluate.
The initial value of an accumulator, so that of `cel.bind` too, is evaluated when its name is first read, or never.
A list literal that is not constant charges LIST_COST, a map MAP_COST, a message STRUCT_COST, after their elements up to
the first that fails.

Every other call charges `call_charge` after it ran or failed, if all arguments were evaluated; `stops_early` tells which
calls leave the arguments after a failed one alone.

After each charge the sum must be within the limit; beyond it evaluation is aborted, whatever `||` is around.

Sources: cel-go v0.26.0 interpreter/{runtimecost,planner,attributes,decorators,interpretable}.go, ext/lists.go,
ext/sets.go; k8s.io/apiserver/pkg/cel/library/cost.go (`CallCost`).
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING

from policies.dra.cel.cost.kubernetes_estimates import NOMINAL_FUNCTIONS
from policies.dra.cel.cost.size_estimates import (
    LIST_COST,
    STRING_FACTOR,
    STRUCT_COST,
    scaled_cost,
    uint64,
    wrap_uint64,
)
from policies.dra.cel.cost.standard_charges import EXTENSION_CHARGES, STANDARD_CHARGES, match_cost, outcome_size
from policies.dra.cel.errors import CelRuntimeError
from policies.dra.cel.libraries.cidrs import CIDR
from policies.dra.cel.libraries.formats import Format
from policies.dra.cel.libraries.ips import IP
from policies.dra.cel.libraries.quantities import Quantity
from policies.dra.cel.libraries.semvers import Semver
from policies.dra.cel.libraries.urls import URL
from policies.dra.cel.steps import spend_steps
from policies.dra.cel.values import Concatenation, Map

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from policies.dra.cel.cost.standard_charges import Charge, Outcome

__all__ = ["ATTRIBUTE", "QUALIFIER", "call_charge", "stops_early"]

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
