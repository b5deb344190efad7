"""Look-ups in values: `a.b`, `a[i]`, `a.?b`, `has(a.b)`, `x in [constants]`, and inside optionals.

An optional that an attribute begins with is a variable, or a branch of a ternary. cel-go takes the value out as Go's own
and turns it into one of CEL's again. Nothing is changed for most. But an optional inside the optional is gone, a type is
only its name, and domains that are not there are no longer empty maps. Kubernetes' own types cannot be turned back: after
`cel.bind(v, device.attributes["x"].?version, ...)`, `v.hasValue()` is true and `v.value()` fails.

Not done as there: in a concatenation of two lists each element has the same fate.

Sources: cel-go interpreter/attributes.go `refQualify` and `applyQualifiers`, decorators.go
`maybeOptimizeSetMembership` and `evalSetMembership`, common/types/optional.go `Value`, provider.go `NativeToValue`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.cel.devices import DomainMap, StringMap
from policies.cel.errors import CelRuntimeError, EvaluationAborted
from policies.cel.kinds import Unconvertible, display_text, go_type, kind
from policies.cel.libraries.ips import CIDR, IP
from policies.cel.libraries.quantities import Quantity
from policies.cel.libraries.semvers import Semver
from policies.cel.libraries.urls import URL
from policies.cel.types import Type, runtime_name
from policies.cel.values import ABSENT, UNHASHABLE, Absent, Concatenation, Map, Optional, UInt, size

if TYPE_CHECKING:
    from policies.cel.values import Value

__all__ = ["checked_key", "find", "get", "is_member", "members", "rewrap_optional", "unwrap_optional"]

_INT_LIMIT = 2**63


def checked_key(key: Value) -> Value:
    """A key that was computed; raises CelRuntimeError if it is of a kind that no look-up takes."""
    if isinstance(key, str | bool | int | float):
        return key
    raise CelRuntimeError(f"invalid qualifier type: {go_type(key)}")


def get(operand: Value, key: Value) -> Value:
    """The value under a key, field or index.

    Raises:
        CelRuntimeError: not found: `no such key: x`, `index out of bounds: 3`; or the index is of a wrong kind.
    """
    found = find(operand, key)
    if not isinstance(found, Absent):
        return found
    if isinstance(operand, tuple | Concatenation):
        raise CelRuntimeError(f"index out of bounds: {display_text(key)}")
    raise CelRuntimeError(f"no such key: {display_text(key)}")


def find(operand: Value, key: Value) -> Value | Absent:
    """The value under a key, field or index, or ABSENT; values other than maps and lists have none.

    Raises:
        CelRuntimeError: the index of a list is not a whole number; or the operand cannot be converted.
    """
    if isinstance(operand, Map):
        return operand.find(key)
    if isinstance(operand, Unconvertible):
        raise operand.error
    if isinstance(operand, tuple | Concatenation):
        index = _index(key)
        return operand[index] if 0 <= index < size(operand) else ABSENT
    return ABSENT


def _index(key: Value) -> int:
    if isinstance(key, bool) or not isinstance(key, int | float):
        raise CelRuntimeError(f"unsupported index type '{kind(key)}' in list")
    if isinstance(key, float):
        if not (key.is_integer() and -_INT_LIMIT < key < _INT_LIMIT):
            raise CelRuntimeError(f"unsupported index value {display_text(key)} in list")
        return int(key)
    if isinstance(key, UInt) and key >= _INT_LIMIT:
        raise CelRuntimeError(f"unsupported index value {display_text(key)} in list")
    return key


def is_member(value: Value, among: frozenset[object]) -> bool:
    """True if a value is in a set made by `members`.

    Raises:
        EvaluationAborted: cel-go panics on bytes and versions, which it cannot look up.
    """
    if isinstance(value, str):
        return value in among
    if isinstance(value, bytes | Semver):
        raise EvaluationAborted(UNHASHABLE.format(go_type(value)))
    return isinstance(value, bool | int | float) and _member(value) in among


def _member(value: Value) -> object:
    """What stands for a value in the set; 1, 1u and 1.0 are different."""
    return value if value.__class__ is str else (value.__class__, value)


def members(elements: tuple[Value, ...]) -> frozenset[object]:
    """The elements, which are bools, strings and numbers, and of numbers their equals of other types."""
    found = set()
    for element in elements:
        found.add(_member(element))
        if isinstance(element, bool | str):
            continue
        for convert in (int, UInt, float):
            if element.__class__ is not convert and _fits(element, convert):
                found.add(_member(convert(element)))  # type: ignore[arg-type]  # a number
    return frozenset(found)


def _fits(number: Value, kind: type) -> bool:
    """True if a number has an equal of another type."""
    if kind is float:
        return True
    if isinstance(number, float) and not number.is_integer():
        return False
    return 0 <= number < 2**64 if kind is UInt else -(2**63) <= number < 2**63  # type: ignore[operator]  # a number


_GO_TYPES: dict[type, str] = {
    CIDR: "netip.Prefix",
    IP: "netip.Addr",
    Quantity: "*resource.Quantity",
    Semver: "semver.Version",
    URL: "*url.URL",
    Unconvertible: "*errors.errorString",
}


def unwrap_optional(value: Value) -> Value:
    """What comes out of an optional that has a value."""
    while isinstance(value, Optional):
        value = None if isinstance(value.value, Absent) else value.value
    if isinstance(value, Type):
        return runtime_name(value)
    if isinstance(value, DomainMap):
        return StringMap(dict(value.items()))
    go_type = _GO_TYPES.get(type(value))
    if go_type is None:
        return value
    text = value.message if isinstance(value, Unconvertible) else str(value)
    return Unconvertible(f"unsupported conversion to ref.Val: ({go_type}){text}")


def rewrap_optional(value: Value) -> Value:
    """The value of an attribute without look-ups."""
    if not isinstance(value, Optional) or isinstance(value.value, Absent):
        return value
    return Optional(unwrap_optional(value.value))
