"""The syntax tree of an expression after macros are expanded, in the shapes of cel-go's `common/ast`."""

from __future__ import annotations

from dataclasses import dataclass

from policies.dra.cel.values import UInt

__all__ = [
    "Call",
    "Comprehension",
    "Constant",
    "Entry",
    "Expression",
    "Identifier",
    "ListLiteral",
    "Literal",
    "MapLiteral",
    "Select",
    "StructLiteral",
]

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
    """A function on arguments, or a method on a target; operators are functions named as cel-go does (`_&&_`)."""

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
