"""Syntax trees after macros are expanded, in the shapes of cel-go's `common/ast`, and checked trees."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from policies.cel.values import UInt

if TYPE_CHECKING:
    from collections.abc import Mapping

    from policies.cel.declarations import Overload
    from policies.cel.types import Type


Constant = bool | int | UInt | float | str | bytes | None


@dataclass(frozen=True, slots=True, eq=False)
class Literal:
    """A constant."""

    offset: int
    """Where it begins in the text, in code points; of an expanded macro, where the macro's call is."""
    value: Constant


@dataclass(frozen=True, slots=True, eq=False)
class Identifier:
    """A name: a variable, or a part of a qualified name; with a leading dot it is kept in `name`."""

    offset: int
    name: str


@dataclass(frozen=True, slots=True, eq=False)
class Select:
    """`operand.field`; as `has(operand.field)` it only tests for presence."""

    offset: int
    operand: Expression
    field: str
    test_only: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Call:
    """A call of a function or method; operators are functions with cel-go's names (`_&&_`)."""

    offset: int
    function: str
    target: Expression | None
    arguments: tuple[Expression, ...]


@dataclass(frozen=True, slots=True, eq=False)
class ListLiteral:
    """`[a, ?b]`."""

    offset: int
    elements: tuple[Expression, ...]
    optional: frozenset[int] = frozenset()
    """The indices of elements that are written with `?`."""


@dataclass(frozen=True, slots=True, eq=False)
class Entry:
    """One `key: value` of a map, or `field: value` of a message."""

    offset: int
    key: Expression | str
    value: Expression
    optional: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class MapLiteral:
    """`{key: value, ?key: value}`."""

    offset: int
    entries: tuple[Entry, ...]


@dataclass(frozen=True, slots=True, eq=False)
class StructLiteral:
    """`Type{field: value}`."""

    offset: int
    type_name: str
    fields: tuple[Entry, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Comprehension:
    """A fold over a list or map: what `all`, `map`, `cel.bind` and the other macros expand to.

    `accumulator` begins as `initial`; while `condition` holds, each element makes it `step`; the value is `result`.
    """

    offset: int
    range: Expression
    variable: str
    second_variable: str
    """The name of the second variable of a two-variable comprehension, else empty."""
    accumulator: str
    initial: Expression
    condition: Expression
    step: Expression
    result: Expression


Expression = Literal | Identifier | Select | Call | ListLiteral | MapLiteral | StructLiteral | Comprehension


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
    """True if the call's target is only part of the function's name, as in `sets.contains(a, b)`."""


@dataclass(frozen=True, slots=True)
class Checked:
    """A type-checked expression."""

    root: Expression
    types: Mapping[Expression, Type]
    """The final type of every node; free type parameters have become dyn."""
    names: Mapping[Expression, NameReference]
    """For each Identifier, and each Select that is a qualified name."""
    calls: Mapping[Expression, CallReference]


def function_name(call: Call, reference: CallReference | None) -> str:
    """The full name of what a call calls: `size`, `sets.contains`, `_+_`; without a leading dot."""
    if reference is not None and reference.is_namespaced and call.target is not None:
        return f"{_qualified_name(call.target)}.{call.function}".removeprefix(".")
    return call.function.removeprefix(".")


def _qualified_name(name: Expression) -> str:
    fields: list[str] = []
    while isinstance(name, Select):
        fields.append(name.field)
        name = name.operand
    if isinstance(name, Identifier):
        fields.append(name.name)
    return ".".join(reversed(fields))
