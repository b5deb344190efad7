"""Look-ups in values, and the overload of a call, by what operands turn out to be.

An optional that an attribute begins with is a variable, or a branch of a ternary. cel-go takes the value out as Go's own
and turns it into one of CEL's again. Nothing is changed for most. But an optional inside the optional is gone, a type is
only its name, and domains that are not there are no longer empty maps. Kubernetes' own types cannot be turned back: after
`cel.bind(v, device.attributes["x"].?version, ...)`, `v.hasValue()` is true and `v.value()` fails.
Not done as there: in a concatenation of two lists each element has the same fate.

Static types are not trusted: `x.orValue(1)` is an int to the checker even where `x` is a string.

Sources: cel-go interpreter/attributes.go `refQualify` and `applyQualifiers`, decorators.go
`maybeOptimizeSetMembership` and `evalSetMembership`, common/types/optional.go `Value`, provider.go `NativeToValue`;
common/decls `FunctionDecl.Bindings` and common/types `IsAssignableRuntimeType` for guards of overloads, and interpreter
`planCall` for their messages.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.cel.devices import DomainMap, StringMap
from policies.cel.errors import NO_OVERLOAD, CelRuntimeError, EvaluationAborted
from policies.cel.kinds import Unconvertible, display_text, go_type, kind
from policies.cel.libraries.ips import CIDR, IP
from policies.cel.libraries.quantities import Quantity
from policies.cel.libraries.semvers import Semver
from policies.cel.libraries.urls import URL
from policies.cel.types import Type, runtime_name
from policies.cel.values import ABSENT, UNHASHABLE, Absent, Concatenation, Map, Optional, UInt, size

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from policies.cel.declarations import Overload
    from policies.cel.values import Value


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
        if isinstance(key, bool) or not isinstance(key, int | float):
            raise CelRuntimeError(f"unsupported index type '{kind(key)}' in list")
        is_whole = not isinstance(key, float) or (key.is_integer() and key > -_INT_LIMIT)
        if not is_whole or (isinstance(key, float | UInt) and key >= _INT_LIMIT):
            raise CelRuntimeError(f"unsupported index value {display_text(key)} in list")
        index = int(key)
        return operand[index] if 0 <= index < size(operand) else ABSENT
    return ABSENT


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
    """The key of a value in the set; 1, 1u and 1.0 are different."""
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
    """The value of an optional that has one, as cel-go takes it out."""
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


_NUMBERS = frozenset({"int", "uint", "double"})
_TIMES = frozenset({"google.protobuf.Timestamp", "google.protobuf.Duration"})
_ORDERED = _NUMBERS | _TIMES | {"bool", "string", "bytes"}
_RECEIVERS = _TIMES | {"string"}
"""Kinds whose error for an unknown method does not name the method."""

_OPERATORS: dict[str, frozenset[str] | None] = {
    "_+_": _NUMBERS | _TIMES | {"string", "bytes", "list"},
    "_-_": _NUMBERS | _TIMES,
    "_*_": _NUMBERS,
    "_/_": _NUMBERS,
    "_%_": frozenset({"int", "uint"}),
    "-_": frozenset({"int", "double", "bool", "google.protobuf.Duration"}),
    "_<_": _ORDERED,
    "_<=_": _ORDERED,
    "_>_": _ORDERED,
    "_>=_": _ORDERED,
    "!_": None,
    "@in": None,
}
"""One implementation for all overloads, and the kinds of first operand that it takes; None for all."""

_SINGLE = {
    "size": frozenset({"string", "bytes", "list", "map"}),
    "matches": frozenset({"string"}),
    "sort": frozenset({"list"}),
    "@sortByAssociatedKeys": frozenset({"list"}),
    "type": None,
    "dyn": None,
}
"""Functions that cel-go implements at once for all overloads, and the kinds of first argument it demands."""

_UNGUARDED = frozenset({"contains", "endsWith", "startsWith"})
_UNLOOKED = frozenset({*_SINGLE, *_OPERATORS, "flatten"})
"""Functions that do not depend on what a list or map contains."""

_HOLD_TEXTS = frozenset({"optional_type", "type"})
"""Kinds that a regular expression which is compiled beforehand takes for the text that Go has for their value."""

_ANYTHING = frozenset({"dyn", "any", "parameter"})


class Dispatcher:
    """The overloads that one call may run; remembers which classes of arguments went to which."""

    __slots__ = ("_known", "_name", "_overloads", "_takes_constant_regex", "looks_inside", "overload_id")

    def __init__(
        self, name: str, candidates: Sequence[Overload], declared: Sequence[Overload], *, takes_constant_regex: bool
    ) -> None:
        """Take the overloads that the checker allows, all declared ones, and whether a regex is compiled."""
        arity = len(candidates[0].parameters)
        self._name = name
        self._takes_constant_regex = takes_constant_regex
        self._overloads = tuple(
            overload
            for overload in (declared if name in _SINGLE or name in _OPERATORS else candidates)
            if len(overload.parameters) == arity
        )
        self.looks_inside = name not in _UNLOOKED and any(
            parameter.kind in ("list", "map") and any(part.kind not in _ANYTHING for part in parameter.parameters)
            for overload in self._overloads
            for parameter in overload.parameters
        )
        """True if the overload depends on the contents of lists and maps, not on the classes of arguments alone."""
        self._known: dict[tuple[type, ...], Callable[..., Value]] = {}
        self.overload_id = candidates[0].id if len(candidates) == 1 else ""
        """By which the cost is known; empty where the checker could not decide."""

    def call(self, *arguments: Value) -> Value:
        """The function's result; raises CelRuntimeError if no overload takes such arguments."""
        if self.looks_inside:
            return self.find(arguments)(*arguments)
        classes = tuple([argument.__class__ for argument in arguments])
        run = self._known.get(classes)
        if run is None:
            run = self._known[classes] = self.find(arguments)
        return run(*arguments)

    def find(self, arguments: Sequence[Value]) -> Callable[..., Value]:
        """The implementation for such arguments; raises CelRuntimeError if no overload takes them."""
        kinds = [kind(argument) for argument in arguments]
        if self._name in _OPERATORS:
            operands = _OPERATORS[self._name]
            if operands is None or kinds[0] in operands:
                return self._overloads[0].implementation
            raise self._no_such_overload(kinds)
        for overload in self._overloads:
            if not all(_takes(parameter, name) for parameter, name in zip(overload.parameters, kinds, strict=True)):
                continue
            if not self.looks_inside or all(map(_takes_inside, overload.parameters, arguments)):
                return overload.implementation
        if self._takes_constant_regex and kinds[0] in _HOLD_TEXTS:
            return _on_text_inside(self._overloads[0].implementation)
        raise self._no_such_overload(kinds)

    def _no_such_overload(self, kinds: list[str]) -> CelRuntimeError:
        name = self._name
        if name in _UNGUARDED or self._takes_constant_regex:
            return CelRuntimeError(NO_OVERLOAD)
        if name in _OPERATORS or name in _SINGLE:
            operands = _OPERATORS[name] if name in _OPERATORS else _SINGLE[name]
            if operands is not None and kinds[0] not in operands | _RECEIVERS:
                return CelRuntimeError(f"no such overload: {name}")
            return CelRuntimeError(NO_OVERLOAD)
        if name == "flatten":
            receiver = "map(dyn, dyn)" if kinds[0] == "map" else kinds[0]
            return CelRuntimeError(f"no such overload: {receiver}.flatten({', '.join(kinds[1:])})")
        return CelRuntimeError(f"no such overload: {name}({', '.join(kinds)})")


def _takes(parameter: Type, name: str) -> bool:
    return parameter.kind in _ANYTHING or runtime_name(parameter) == name


def _on_text_inside(run: Callable[..., Value]) -> Callable[..., Value]:
    """A function of texts that also takes optional texts and types, as `dyn(a.?b).matches("c")` does."""

    def call(value: Value, *others: Value) -> Value:
        text = unwrap_optional(value)
        if not isinstance(text, str):
            raise CelRuntimeError(NO_OVERLOAD)
        return run(text, *others)

    return call


def _takes_inside(parameter: Type, argument: Value) -> bool:
    """True if the first element of a list, or entry of a map, is of the type that the parameter has."""
    if isinstance(argument, tuple | Concatenation) and parameter.kind == "list" and size(argument):
        inner: tuple[Value, ...] = (argument[0],)
    elif isinstance(argument, Map) and parameter.kind == "map" and len(argument):
        inner = next(argument.items())
    else:
        return True
    return all(
        _takes(part, kind(value)) and _takes_inside(part, value)
        for part, value in zip(parameter.parameters, inner, strict=True)
    )
