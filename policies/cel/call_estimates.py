"""Estimates of what one call costs: cel-go's own by overload id, and Kubernetes' by function name.

Kubernetes' estimates come before cel-go's for standard functions and after those for its extensions. Sources: cel-go v0.26.0
checker/cost.go (`functionCost`), ext/lists.go and ext/sets.go; k8s.io/apiserver/pkg/cel/library/cost.go (`EstimateCallCost`)
and, for `includes` of DRA, k8s.io/dynamic-resource-allocation/cel/compile.go.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from policies.cel.sizes import (
    INCLUDES_MAX,
    LIST_COST,
    REGEX_FACTOR,
    STRING_FACTOR,
    STRUCT_COST,
    UNKNOWN,
    Estimate,
    FieldPath,
    declared_size,
    exactly,
    saturate,
    uint64,
    wrap_uint64,
)
from policies.cel.syntax import Literal
from policies.cel.values import UINT64_MAX

if TYPE_CHECKING:
    from collections.abc import Mapping

    from policies.cel.syntax import Expression
    from policies.cel.types import Type


AUTHORIZATION_CHECK = 350_000
"""The charge of Kubernetes for a call of an authorizer's `check`."""


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

    @property
    def reading(self) -> Estimate:
        """The cost of reading the text once."""
        return self.size.times_factor(STRING_FACTOR)


@dataclass(frozen=True, slots=True)
class EstimatedCall:
    """A call of one overload."""

    function: str
    overload_id: str
    operands: tuple[Operand, ...]
    """The target of a method comes first."""


class CallEstimate(NamedTuple):
    """The cost of one call without its arguments, and the size of its result where that is known."""

    cost: Estimate
    result_size: Estimate | None = None


_Estimator = Callable[[EstimatedCall], CallEstimate | None]
"""None leaves the call to the next estimator."""

_ONE = exactly(1)
_NOMINAL = CallEstimate(_ONE)


def _match(call: EstimatedCall) -> Estimate:
    """The cost of applying a regular expression; an empty subject counts as one character."""
    subject, pattern = call.operands[0].size, call.operands[1].size
    return subject.plus(_ONE).times_factor(STRING_FACTOR).times(pattern.times_factor(REGEX_FACTOR))


def _string_to_bytes(call: EstimatedCall) -> CallEstimate:
    text = call.operands[0]
    return CallEstimate(text.reading, Estimate(text.size.minimum, wrap_uint64(text.size.maximum * 4)))


def _bytes_to_string(call: EstimatedCall) -> CallEstimate:
    octets = call.operands[0]
    return CallEstimate(octets.reading, Estimate(octets.size.minimum // 4, octets.size.maximum))


def _quote(call: EstimatedCall) -> CallEstimate:
    text = call.operands[0]
    quoted = Estimate(wrap_uint64(text.size.minimum + 2), wrap_uint64(text.size.maximum * 2 + 2))
    return CallEstimate(text.reading, quoted)


def _first_read(call: EstimatedCall) -> CallEstimate:
    return CallEstimate(call.operands[0].reading)


def _second_read(call: EstimatedCall) -> CallEstimate:
    return CallEstimate(call.operands[1].reading)


def _concatenation(call: EstimatedCall) -> CallEstimate:
    size = call.operands[0].size.plus(call.operands[1].size)
    return CallEstimate(size.times_factor(STRING_FACTOR), size)


def _comparison(call: EstimatedCall) -> CallEstimate:
    most = min(call.operands[0].size.maximum, call.operands[1].size.maximum)
    return CallEstimate(Estimate(min(most, 1), most).times_factor(STRING_FACTOR))


_ORDERS = ("less", "greater", "less_equals", "greater_equals")

_STANDARD_ESTIMATES: Mapping[str, _Estimator] = {
    "string_format": _first_read,
    "string_to_bytes": _string_to_bytes,
    "bytes_to_string": _bytes_to_string,
    "strings_quote": _quote,
    **dict.fromkeys(("starts_with_string", "ends_with_string"), _second_read),
    **dict.fromkeys(("starts_with_read_string", "ends_with_read_string"), _second_read),
    "in_list": lambda call: CallEstimate(call.operands[1].size.times_factor(1)),
    "matches_string": lambda call: CallEstimate(_match(call)),
    "contains_string": lambda call: CallEstimate(call.operands[0].reading.times(call.operands[1].reading)),
    "add_string": _concatenation,
    "add_bytes": _concatenation,
    "add_list": lambda call: CallEstimate(_ONE, call.operands[0].size.plus(call.operands[1].size)),
    "equals": _comparison,
    "not_equals": _comparison,
    **{f"{order}_{kind}": _comparison for order in _ORDERS for kind in ("string", "bytes")},
}


def _made_list(size: Estimate, factor: float) -> CallEstimate:
    """A list made in a walk over so many elements."""
    return CallEstimate(size.times_factor(factor).plus(_ONE).plus(exactly(LIST_COST)), size)


def _each_with_each(operand: Operand, factor: float) -> CallEstimate:
    return _made_list(operand.size.times(operand.size), factor)


def _int_literal(operand: Operand, otherwise: int) -> int:
    """The value of an int that is written out; negative ones count as 0."""
    literal = operand.expression
    if not isinstance(literal, Literal) or type(literal.value) is not int:
        return otherwise
    return max(literal.value, 0)


def _slice(call: EstimatedCall) -> CallEstimate:
    elements, start, end = call.operands
    size = _int_literal(end, elements.size.maximum) - _int_literal(start, 0)
    return _made_list(exactly(wrap_uint64(size)), 1)


def _flatten(call: EstimatedCall) -> CallEstimate:
    depth = _int_literal(call.operands[1], UINT64_MAX) if len(call.operands) > 1 else 1
    return _made_list(call.operands[0].size, float(depth))


def _sets(call: EstimatedCall, factor: int) -> CallEstimate:
    return CallEstimate(call.operands[0].size.times(call.operands[1].size).times_factor(factor).plus(_ONE))


_SORTED_SCALARS = ("int", "uint", "double", "bool", "google.protobuf.Duration", "google.protobuf.Timestamp")

_SORT_FACTORS = {**dict.fromkeys(_SORTED_SCALARS, 2.0), **dict.fromkeys(("string", "bytes"), 2 + STRING_FACTOR)}


def _sort_estimator(position: int, factor: float) -> _Estimator:
    """The estimate of sorting by the keys at a position."""
    return lambda call: _each_with_each(call.operands[position], factor)


_EXTENSION_ESTIMATES: Mapping[str, _Estimator] = {
    "list_slice": _slice,
    "lists_range": lambda call: _made_list(exactly(_int_literal(call.operands[0], UINT64_MAX)), 1),
    "list_reverse": lambda call: _made_list(call.operands[0].size, 1),
    "list_flatten": _flatten,
    "list_flatten_int": _flatten,
    "list_distinct": _sort_estimator(0, 2),
    **{f"list_{kind}_sort": _sort_estimator(0, factor) for kind, factor in _SORT_FACTORS.items()},
    **{f"list_{kind}_sortByAssociatedKeys": _sort_estimator(1, factor) for kind, factor in _SORT_FACTORS.items()},
    "list_sets_contains_list": lambda call: _sets(call, 1),
    "list_sets_intersects_list": lambda call: _sets(call, 1),
    "list_sets_equivalent_list": lambda call: _sets(call, 2),
}


_ADDRESSES = Estimate(4, 16).plus(Estimate(4, 16)).times_factor(STRING_FACTOR)
"""The cost of reading two IP addresses of 4 or 16 bytes."""
_NAMED_FORMAT_MAX = 64
_NAMED_FORMAT_REGEX = 128.0


def _label_selector(call: EstimatedCall) -> CallEstimate:
    selector = call.operands[1]
    requirements = selector.size.times_factor(0.5).times_factor(float(LIST_COST + STRUCT_COST))
    return CallEstimate(exactly(LIST_COST).plus(selector.reading).plus(requirements))


def _elements(container: Operand) -> Operand | None:
    """The elements of a list, or None for what is not known to be one."""
    if not container.type.parameters:
        return None
    path = container.path.copied_with("@items") if container.path else container.path
    return Operand(None, container.type.parameters[0], path, None)


def _walk(call: EstimatedCall) -> CallEstimate:
    elements = _elements(call.operands[0])
    if elements is None:
        return _first_read(call)
    each = _ONE.plus(elements.reading) if elements.type.name in {"string", "bytes"} else _ONE
    return CallEstimate(call.operands[0].size.times(each))


def _includes(call: EstimatedCall) -> CallEstimate:
    """DRA's own function costs as much as `in` with the longest list, the other 1 for each element."""
    if call.overload_id == "dra_includes_dyn_dyn":
        return CallEstimate(Estimate(0, INCLUDES_MAX))
    target = call.operands[0]
    return CallEstimate(target.size) if _elements(target) is None else _walk(call)


def _rewritten(call: EstimatedCall) -> CallEstimate:
    return CallEstimate(call.operands[0].reading, call.operands[0].size)


def _quotient(size: int, divisor: int) -> int:
    return uint64(math.ceil(float(size) / float(divisor)))


def _replaced_size(text: Estimate, old: Estimate, new: Estimate) -> Estimate:
    """The size of a text in which one string was replaced by another wherever it occurs.

    At most: the shortest old strings became the longest new ones; at least: the other way round. An empty old string
    stands around each character. A replacement that cannot lengthen, or shorten, leaves that bound alone.
    """
    retained_most = retained_least = 0
    if old.minimum == 0:
        most, retained_most = saturate(text.maximum + 1), text.maximum
    elif new.maximum <= old.minimum:
        most, retained_most = 0, text.maximum
    else:
        most = _quotient(text.maximum, old.minimum)
    if old.maximum == 0:
        least, retained_least = saturate(text.minimum + 1), text.minimum
    elif old.maximum <= new.minimum:
        least, retained_least = 0, text.minimum
    else:
        least = _quotient(text.minimum, old.maximum)
    return Estimate(least, most).times(new).plus(Estimate(retained_least, retained_most))


def _replace(call: EstimatedCall) -> CallEstimate:
    text, old, new = (operand.size for operand in call.operands[:3])
    return CallEstimate(text.times_factor(2 * STRING_FACTOR), _replaced_size(text, old, new))


def _split(call: EstimatedCall) -> CallEstimate:
    size = call.operands[0].size
    most = size.maximum
    limit = call.operands[2].expression if len(call.operands) > 2 else None
    if isinstance(limit, Literal) and type(limit.value) is int:
        most = wrap_uint64(limit.value)
    return CallEstimate(size.times_factor(2 * STRING_FACTOR), Estimate(0, most))


def _join(call: EstimatedCall) -> CallEstimate:
    count = call.operands[0].size
    elements = _elements(call.operands[0])
    size = Estimate(0, 0) if elements is None else count.times(elements.size)
    if len(call.operands) > 1:
        separators = Estimate(max(count.minimum - 1, 0), max(count.maximum - 1, 0))
        size = size.plus(call.operands[1].size.times(separators))
    return CallEstimate(size.times_factor(STRING_FACTOR), size)


def _find(call: EstimatedCall) -> CallEstimate:
    return CallEstimate(_match(call), Estimate(0, call.operands[0].size.maximum))


def _contains_ip(call: EstimatedCall) -> CallEstimate:
    is_text = call.overload_id == "cidr_contains_ip_string"
    return CallEstimate(_ADDRESSES.plus(call.operands[1].reading) if is_text else _ADDRESSES)


def _contains_cidr(call: EstimatedCall) -> CallEstimate:
    cost = _ADDRESSES.plus(Estimate(4, 16).times_factor(STRING_FACTOR)).plus(_ONE)
    return CallEstimate(
        cost.plus(call.operands[1].reading) if call.overload_id == "cidr_contains_cidr_string" else cost
    )


_COMPARED_AT_ONCE = frozenset(
    {
        "net.IP",
        "net.CIDR",
        "kubernetes.Quantity",
        "kubernetes.Semver",
        "kubernetes.authorization.Authorizer",
        "kubernetes.authorization.PathCheck",
        "kubernetes.authorization.GroupCheck",
        "kubernetes.authorization.ResourceCheck",
        "kubernetes.authorization.Decision",
    }
)


def _equality(call: EstimatedCall) -> CallEstimate | None:
    left, right = call.operands
    if left.type.name != right.type.name:
        return None
    if left.type.name in _COMPARED_AT_ONCE:
        return _NOMINAL
    if left.type.name == "kubernetes.NamedFormat":
        return CallEstimate(Estimate(1, _NAMED_FORMAT_MAX).times_factor(STRING_FACTOR))
    if left.type.name == "kubernetes.URL":
        size = right.computed_size or _ONE
        return CallEstimate(Estimate(1, size.maximum).times_factor(STRING_FACTOR))
    return None


NOMINAL_FUNCTIONS = (
    # authorizers
    *("serviceAccount", "path", "group", "resource", "subresource", "namespace", "name"),
    *("allowed", "reason", "error", "errored"),
    # addresses
    *("masked", "prefixLength", "family", "isUnspecified", "isLoopback"),
    *("isLinkLocalMulticast", "isLinkLocalUnicast", "isGlobalUnicast"),
    # quantities and versions
    *("sign", "asInteger", "isInteger", "asApproximateFloat", "isGreaterThan", "isLessThan", "compareTo"),
    *("add", "sub", "major", "minor", "patch"),
    # URLs and formats
    *("getScheme", "getHostname", "getHost", "getPort", "getEscapedPath", "getQuery", "format.named"),
)
"""Functions whose calls cost 1, estimated and evaluated, for any arguments."""


_KUBERNETES_ESTIMATES: Mapping[str, _Estimator] = {
    "includes": _includes,
    "check": lambda _: CallEstimate(exactly(AUTHORIZATION_CHECK)),
    "_==_": _equality,
    "replace": _replace,
    "split": _split,
    "join": _join,
    "ip": lambda call: _NOMINAL if call.overload_id == "cidr_ip" else _first_read(call),
    "ip.isCanonical": lambda call: CallEstimate(call.operands[0].size.times_factor(2 * STRING_FACTOR)),
    "containsIP": _contains_ip,
    "containsCIDR": _contains_cidr,
    "validate": lambda call: CallEstimate(call.operands[1].reading.times_factor(_NAMED_FORMAT_REGEX * REGEX_FACTOR)),
    **dict.fromkeys(NOMINAL_FUNCTIONS, lambda _: _NOMINAL),
    **dict.fromkeys(("fieldSelector", "labelSelector"), _label_selector),
    **dict.fromkeys(("isSorted", "sum", "max", "min", "indexOf", "lastIndexOf"), _walk),
    **dict.fromkeys(("url", "lowerAscii", "upperAscii", "substring", "trim"), _rewritten),
    **dict.fromkeys(("find", "findAll"), _find),
    **dict.fromkeys(("cidr", "isIP", "isCIDR", "quantity", "isQuantity", "semver", "isSemver"), _first_read),
}


def estimate_call(call: EstimatedCall) -> CallEstimate:
    """The cost of one overload without its arguments; 1 where no estimator knows it.

    Source: the order is that of cel-go v0.26.0 checker/cost.go, `functionCost`.
    """
    for estimator in (
        _EXTENSION_ESTIMATES.get(call.overload_id),
        _KUBERNETES_ESTIMATES.get(call.function),
        _STANDARD_ESTIMATES.get(call.overload_id),
    ):
        estimate = estimator(call) if estimator is not None else None
        if estimate is not None:
            return estimate
    return _NOMINAL
