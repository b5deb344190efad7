"""What the checker knows about an expression: the type of each part, and what each name and call stands for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from policies.dra.cel.declarations import Overload
    from policies.dra.cel.syntax import Expression
    from policies.dra.cel.types import Type

__all__ = ["CallReference", "Checked", "NameReference"]


@dataclass(frozen=True, slots=True)
class NameReference:
    """A name that stands for a variable, or for a type as a value."""

    name: str
    """The resolved name; for `net.IP` it is the whole of it, and the reference is that of the Select."""
    type_value: Type | None = None
    """The type it names, or None for a variable."""


@dataclass(frozen=True, slots=True)
class CallReference:
    """The overloads that a call may run, in order; one where the types decide it."""

    overloads: tuple[Overload, ...]
    is_namespaced: bool = False
    """Whether the call's target is only part of the function's name, as in `sets.contains(a, b)`."""


@dataclass(frozen=True, slots=True)
class Checked:
    """A type-checked expression."""

    root: Expression
    types: Mapping[Expression, Type]
    """The final type of every node; free type parameters have become dyn."""
    names: Mapping[Expression, NameReference]
    """For each Identifier, and each Select that is a qualified name."""
    calls: Mapping[Expression, CallReference]
