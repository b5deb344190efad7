"""How messages spell types: as they are declared, or by the names that values of them have at run time."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from policies.dra.cel.types import Type

__all__ = ["declared", "runtime", "runtime_name"]

_RUNTIME_NAMES = {
    "null": "null_type",
    "any": "google.protobuf.Any",
    "duration": "google.protobuf.Duration",
    "timestamp": "google.protobuf.Timestamp",
}

_LONGEST_SPELLING = 1000
"""Types with more parts are cut: no message needs them, and a type can be much longer than its expression."""


def declared(type_: Type) -> str:
    """A type as issues spell it (cel-go `checker.FormatCELType`): `map(string, duration)`."""
    return _spell(type_, lambda part: part.name)


def runtime(type_: Type) -> str:
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
            pending += _parenthesised(part.parameters)
    return "".join(pieces)


def _parenthesised(parameters: tuple[Type, ...]) -> list[Type | str]:
    """The pieces of `(a, b)`, last first."""
    pieces: list[Type | str] = [")"]
    for parameter in reversed(parameters):
        pieces += (parameter, ", ")
    pieces[-1] = "("
    return pieces
