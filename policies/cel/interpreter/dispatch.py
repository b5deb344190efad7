"""Choosing the overload of a call by what its arguments turn out to be.

Static types are not trusted: `x.orValue(1)` is an int to the checker even where `x` is a string.
Source: cel-go common/decls `FunctionDecl.Bindings` and common/types `IsAssignableRuntimeType` for the guards,
interpreter `planCall` for who gets which message.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.cel.errors import NO_OVERLOAD, CelRuntimeError
from policies.cel.interpreter.lookups import unwrap_optional
from policies.cel.kinds import kind
from policies.cel.types import runtime_name
from policies.cel.values import Concatenation, Map, size

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from policies.cel.declarations import Overload
    from policies.cel.types import Type
    from policies.cel.values import Value

__all__ = ["Dispatcher"]

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
            _looks_inside(parameter) for overload in self._overloads for parameter in overload.parameters
        )
        """Whether the overload depends on what lists and maps contain, not on the classes of arguments alone."""
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
        """What runs for such arguments; raises CelRuntimeError if nothing does."""
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


def _looks_inside(parameter: Type) -> bool:
    return parameter.kind in ("list", "map") and any(part.kind not in _ANYTHING for part in parameter.parameters)


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
