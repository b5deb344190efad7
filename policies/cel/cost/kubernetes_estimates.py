"""Kubernetes' estimates for its libraries and for some of cel-go's functions, by function name.

They come before cel-go's estimates for standard functions and after those for its extensions. Sources:
k8s.io/apiserver/pkg/cel/library/cost.go (`EstimateCallCost`) and, for `includes`,
k8s.io/dynamic-resource-allocation/cel/compile.go.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from policies.cel.cost.sizes import (
    INCLUDES_MAX,
    LIST_COST,
    REGEX_FACTOR,
    STRING_FACTOR,
    STRUCT_COST,
    Estimate,
    exactly,
    saturate,
    uint64,
    wrap_uint64,
)
from policies.cel.cost.standard_estimates import (
    EXTENSION_ESTIMATES,
    NOMINAL,
    ONE,
    STANDARD_ESTIMATES,
    CallEstimate,
    Operand,
    match_estimate,
)
from policies.cel.syntax import Literal

if TYPE_CHECKING:
    from collections.abc import Mapping

    from policies.cel.cost.standard_estimates import EstimatedCall, Estimator

__all__ = ["NOMINAL_FUNCTIONS", "estimate_call"]

_AUTHORIZATION_CHECK = 350_000
_ADDRESS = Estimate(4, 16)
"""Bytes of an IP address."""
_NAMED_FORMAT_MAX = 64
_NAMED_FORMAT_REGEX = 128.0


def _nominal(call: EstimatedCall) -> CallEstimate | None:
    return NOMINAL


def _authorization_check(call: EstimatedCall) -> CallEstimate | None:
    return CallEstimate(exactly(_AUTHORIZATION_CHECK))


def _label_selector(call: EstimatedCall) -> CallEstimate | None:
    if len(call.arguments) != 1:
        return None
    length = call.arguments[0].size
    requirements = length.times_factor(0.5).times_factor(float(LIST_COST + STRUCT_COST))
    return CallEstimate(exactly(LIST_COST).plus(length.times_factor(STRING_FACTOR)).plus(requirements))


def _elements(container: Operand) -> Operand | None:
    """The elements of a list, or None for what is not known to be one."""
    if not container.type.parameters:
        return None
    path = container.path.copied_with("@items") if container.path else container.path
    return Operand(None, container.type.parameters[0], path, None)


def _walk(call: EstimatedCall) -> CallEstimate | None:
    if call.target is None:
        return None
    elements = _elements(call.target)
    if elements is None:
        return CallEstimate(call.target.size.times_factor(STRING_FACTOR))
    each = ONE
    if elements.type.name in {"string", "bytes"}:
        each = each.plus(elements.size.times_factor(STRING_FACTOR))
    return CallEstimate(call.target.size.times(each))


def _argument_rewritten(call: EstimatedCall) -> CallEstimate | None:
    if len(call.arguments) != 1:
        return None
    size = call.arguments[0].size
    return CallEstimate(size.times_factor(STRING_FACTOR), size)


def _target_rewritten(call: EstimatedCall) -> CallEstimate | None:
    if call.target is None:
        return None
    return CallEstimate(call.target.size.times_factor(STRING_FACTOR), call.target.size)


def _argument_parsed(call: EstimatedCall) -> CallEstimate | None:
    return CallEstimate(call.arguments[0].size.times_factor(STRING_FACTOR)) if call.arguments else None


def _argument_parsed_twice(call: EstimatedCall) -> CallEstimate | None:
    return CallEstimate(call.arguments[0].size.times_factor(2 * STRING_FACTOR)) if call.arguments else None


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


def _replace(call: EstimatedCall) -> CallEstimate | None:
    if call.target is None:
        return None
    text = call.target.size
    size = _replaced_size(text, call.arguments[0].size, call.arguments[1].size)
    return CallEstimate(text.times_factor(2 * STRING_FACTOR), size)


def _split(call: EstimatedCall) -> CallEstimate | None:
    if call.target is None:
        return None
    size = call.target.size
    most = size.maximum
    limit = call.arguments[1].expression if len(call.arguments) > 1 else None
    if isinstance(limit, Literal) and type(limit.value) is int:
        most = wrap_uint64(limit.value)
    return CallEstimate(size.times_factor(2 * STRING_FACTOR), Estimate(0, most))


def _join(call: EstimatedCall) -> CallEstimate | None:
    if call.target is None:
        return None
    count = call.target.size
    elements = _elements(call.target)
    size = Estimate(0, 0) if elements is None else count.times(elements.size)
    if call.arguments:
        separators = Estimate(max(count.minimum - 1, 0), max(count.maximum - 1, 0))
        size = size.plus(call.arguments[0].size.times(separators))
    return CallEstimate(size.times_factor(STRING_FACTOR), size)


def _find(call: EstimatedCall) -> CallEstimate | None:
    if call.target is None or not call.arguments:
        return None
    subject = call.target.size
    return CallEstimate(match_estimate(subject, call.arguments[0].size), Estimate(0, subject.maximum))


def _ip(call: EstimatedCall) -> CallEstimate | None:
    return NOMINAL if call.overload_id == "cidr_ip" else _argument_parsed(call)


def _contains_ip(call: EstimatedCall) -> CallEstimate | None:
    cost = _ADDRESS.plus(_ADDRESS).times_factor(STRING_FACTOR)
    if call.overload_id == "cidr_contains_ip_string":
        cost = cost.plus(call.arguments[0].size.times_factor(STRING_FACTOR))
    return CallEstimate(cost)


def _contains_cidr(call: EstimatedCall) -> CallEstimate | None:
    cost = _ADDRESS.plus(_ADDRESS).times_factor(STRING_FACTOR)
    cost = cost.plus(_ADDRESS.times_factor(STRING_FACTOR)).plus(ONE)
    if call.overload_id == "cidr_contains_cidr_string":
        cost = cost.plus(call.arguments[0].size.times_factor(STRING_FACTOR))
    return CallEstimate(cost)


def _validate(call: EstimatedCall) -> CallEstimate | None:
    cost = call.arguments[0].size.times_factor(STRING_FACTOR)
    return CallEstimate(cost.times_factor(_NAMED_FORMAT_REGEX * REGEX_FACTOR))


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
    left, right = call.arguments
    if left.type.name != right.type.name:
        return None
    if left.type.name in _COMPARED_AT_ONCE:
        return NOMINAL
    if left.type.name == "kubernetes.NamedFormat":
        return CallEstimate(Estimate(1, _NAMED_FORMAT_MAX).times_factor(STRING_FACTOR))
    if left.type.name == "kubernetes.URL":
        size = right.computed_size or ONE
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


def _includes(call: EstimatedCall) -> CallEstimate | None:
    """As `in` with the longest list. Source: compile.go of DRA, `draCostEstimator`."""
    return CallEstimate(Estimate(0, INCLUDES_MAX)) if call.overload_id == "dra_includes_dyn_dyn" else None


KUBERNETES_ESTIMATES: Mapping[str, Estimator] = {
    "includes": _includes,
    "check": _authorization_check,
    "_==_": _equality,
    "replace": _replace,
    "split": _split,
    "join": _join,
    "ip": _ip,
    "ip.isCanonical": _argument_parsed_twice,
    "containsIP": _contains_ip,
    "containsCIDR": _contains_cidr,
    "validate": _validate,
    **dict.fromkeys(NOMINAL_FUNCTIONS, _nominal),
    **dict.fromkeys(("fieldSelector", "labelSelector"), _label_selector),
    **dict.fromkeys(("isSorted", "sum", "max", "min", "indexOf", "lastIndexOf"), _walk),
    **dict.fromkeys(("url", "jsonpatch.escapeKey"), _argument_rewritten),
    **dict.fromkeys(("lowerAscii", "upperAscii", "substring", "trim"), _target_rewritten),
    **dict.fromkeys(("find", "findAll"), _find),
    **dict.fromkeys(("cidr", "isIP", "isCIDR"), _argument_parsed),
    **dict.fromkeys(("quantity", "isQuantity", "semver", "isSemver"), _argument_parsed),
}


def estimate_call(call: EstimatedCall) -> CallEstimate:
    """The cost of one overload without its arguments; 1 where no estimator knows it.

    Source: the order is that of cel-go v0.26.0 checker/cost.go, `functionCost`.
    """
    for estimator in (
        EXTENSION_ESTIMATES.get(call.overload_id),
        KUBERNETES_ESTIMATES.get(call.function),
        STANDARD_ESTIMATES.get(call.overload_id),
    ):
        estimate = estimator(call) if estimator is not None else None
        if estimate is not None:
            return estimate
    return NOMINAL
