"""What calls of Kubernetes' functions, and of some of cel-go's, cost while they are evaluated, by function name.

Source: k8s.io/apiserver/pkg/cel/library/cost.go (`CallCost`, `actualSize`, `traversalCost`).
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING

from policies.dra.cel.cost.kubernetes_estimates import NOMINAL_FUNCTIONS
from policies.dra.cel.cost.outcome_sizes import matching, outcome_size
from policies.dra.cel.cost.size_estimates import LIST_COST, STRING_FACTOR, STRUCT_COST, factored, uint64, wrapped
from policies.dra.cel.cost.standard_charges import STANDARD_CHARGES
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

    from policies.dra.cel.cost.outcome_sizes import Charge, Outcome

__all__ = ["KUBERNETES_CHARGES", "KUBERNETES_OVERLOAD_CHARGES", "nominal"]

_AUTHORIZATION_CHECK = 350_000
_END = CelRuntimeError("")
"""Marks the end of a walk through values, as nothing in them can."""


def nominal(arguments: Sequence[Outcome], result: Outcome) -> int:
    """1, whatever the arguments."""
    return 1


def _authorization_check(arguments: Sequence[Outcome], result: Outcome) -> int:
    return _AUTHORIZATION_CHECK


def _selector_parsed(arguments: Sequence[Outcome], result: Outcome) -> int:
    length = outcome_size(arguments[1])
    requirements = factored(factored(length, 0.5), float(LIST_COST + STRUCT_COST))
    return LIST_COST + factored(length, STRING_FACTOR) + requirements


def _walked(arguments: Sequence[Outcome], result: Outcome) -> int:
    """Each text in a value for its length in bytes, everything else in it 1; containers nothing themselves."""
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
    return wrapped(total)


def _argument_read(arguments: Sequence[Outcome], result: Outcome) -> int:
    return factored(outcome_size(arguments[0]), STRING_FACTOR)


def _argument_read_twice(arguments: Sequence[Outcome], result: Outcome) -> int:
    return factored(outcome_size(arguments[0]), 2 * STRING_FACTOR)


def _result_read_twice(arguments: Sequence[Outcome], result: Outcome) -> int:
    return factored(outcome_size(result), 2 * STRING_FACTOR)


def _found(arguments: Sequence[Outcome], result: Outcome) -> int:
    return matching(outcome_size(arguments[0]), outcome_size(arguments[1]))


def _ip_contained(arguments: Sequence[Outcome], result: Outcome) -> int:
    return factored(2 * outcome_size(arguments[0]), STRING_FACTOR)


def _cidr_contained(arguments: Sequence[Outcome], result: Outcome) -> int:
    block = outcome_size(arguments[0])
    return factored(2 * block, STRING_FACTOR) + factored(block, STRING_FACTOR) + 1


def _with_text_read(charge: Charge) -> Charge:
    """A charge plus that of reading the second argument, a text."""

    def both(arguments: Sequence[Outcome], result: Outcome) -> int:
        return charge(arguments, result) + factored(outcome_size(arguments[1]), STRING_FACTOR)

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


def _validated(arguments: Sequence[Outcome], result: Outcome) -> int:
    named = arguments[0]
    if not isinstance(named, Format):
        return 1
    return matching(outcome_size(arguments[1]), _REGEX_SIZES[named.name])


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
    "validate": _validated,
    "_==_": _equality,
    **dict.fromkeys(NOMINAL_FUNCTIONS, nominal),
    **dict.fromkeys(("fieldSelector", "labelSelector"), _selector_parsed),
    **dict.fromkeys(("isSorted", "sum", "max", "min", "indexOf", "lastIndexOf"), _walked),
    **dict.fromkeys(("url", "lowerAscii", "upperAscii", "substring", "trim", "jsonpatch.escapeKey"), _argument_read),
    **dict.fromkeys(("cidr", "isIP", "isCIDR", "ip"), _argument_read),
    **dict.fromkeys(("quantity", "isQuantity", "semver", "isSemver"), _argument_read),
    **dict.fromkeys(("replace", "split"), _argument_read_twice),
    **dict.fromkeys(("find", "findAll"), _found),
}
