"""Static types of expressions, and how Kubernetes' messages spell types."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass(frozen=True, slots=True)
class Type:
    """A type; two are the same when name, kind and parameters are."""

    name: str
    """`int`, `list`, `map`, `optional_type`, `kubernetes.Quantity`, `A` for a type parameter."""
    parameters: tuple[Type, ...] = ()
    kind: str = "primitive"
    """`primitive`, `dyn`, `any`, `error`, `null`, `list`, `map`, `opaque`, `object`, `type` or `parameter`."""

    def __str__(self) -> str:
        """As messages show it: `list(string)`, `map(string, dyn)`, `optional_type(int)`."""
        return f"{self.name}({', '.join(map(str, self.parameters))})" if self.parameters else self.name


DYN = Type("dyn", kind="dyn")
ANY = Type("any", kind="any")
"""A value of unknown type, as device attributes are while list-typed attributes are off."""
ERROR = Type("!error!", kind="error")
NULL = Type("null", kind="null")
BOOL = Type("bool")
INT = Type("int")
UINT = Type("uint")
DOUBLE = Type("double")
STRING = Type("string")
BYTES = Type("bytes")
TIMESTAMP = Type("timestamp")
DURATION = Type("duration")


def list_of(element: Type) -> Type:
    """The type of lists of one element type."""
    return Type("list", (element,), "list")


def map_of(key: Type, value: Type) -> Type:
    """The type of maps."""
    return Type("map", (key, value), "map")


def opaque(name: str, *parameters: Type) -> Type:
    """A type without fields, such as `kubernetes.Quantity`."""
    return Type(name, parameters, "opaque")


def optional_of(value: Type) -> Type:
    """The type of what `optional.of` makes."""
    return opaque("optional_type", value)


def type_of(described: Type) -> Type:
    """The type of a type."""
    return Type("type", (described,), "type")


def type_parameter(name: str) -> Type:
    """A type that is found by looking at the arguments."""
    return Type(name, kind="parameter")


_RUNTIME_NAMES = {
    "null": "null_type",
    "any": "google.protobuf.Any",
    "duration": "google.protobuf.Duration",
    "timestamp": "google.protobuf.Timestamp",
}

_LONGEST_SPELLING = 1000
"""Types with more parts are cut: no message needs them, and a type can be much longer than its expression."""


def declared_name(type_: Type) -> str:
    """A type as issues spell it (cel-go `checker.FormatCELType`): `map(string, duration)`."""
    return _spell(type_, lambda part: part.name)


def result_name(type_: Type) -> str:
    """A type as Kubernetes names the result of an expression (cel-go `Type.String`)."""
    return _spell(type_, runtime_name)


def runtime_name(type_: Type) -> str:
    """A type's name without parameters, as values know it (cel-go `Type.TypeName`)."""
    return _RUNTIME_NAMES.get(type_.name, type_.name)


def _spell(type_: Type, name: Callable[[Type], str]) -> str:
    pieces: list[str] = []
    pending: list[Type | str] = [type_]
    while pending:
        part = pending.pop()
        if len(pieces) >= _LONGEST_SPELLING:
            return "".join((*pieces, "…"))
        if isinstance(part, str):
            pieces.append(part)
            continue
        pieces.append(name(part))
        if part.parameters:
            pending += _parameter_list(part.parameters)
    return "".join(pieces)


def _parameter_list(parameters: tuple[Type, ...]) -> list[Type | str]:
    """The pieces of `(a, b)`, last first."""
    pieces: list[Type | str] = [")"]
    for parameter in reversed(parameters):
        pieces += (parameter, ", ")
    pieces[-1] = "("
    return pieces
