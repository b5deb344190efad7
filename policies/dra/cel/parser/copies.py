"""Copies of trees: the same nodes anew, because what is known about a node is kept by its identity."""

from __future__ import annotations

from itertools import repeat
from typing import TYPE_CHECKING

from policies.dra.cel.syntax import (
    Call,
    Comprehension,
    Entry,
    Identifier,
    ListLiteral,
    Literal,
    MapLiteral,
    Select,
    StructLiteral,
)

if TYPE_CHECKING:
    from policies.dra.cel.syntax import Expression

__all__ = ["copy"]


def copy(node: Expression, offset: int) -> Expression:
    """A copy at the same place; only the entries of maps and messages move to the offset, as in cel-go.

    Recurses as deep as the tree, which `parts.MAX_DEPTH` limits. `map` rather than a comprehension keeps it at one
    frame for a node.
    """
    match node:
        case Literal():
            return Literal(node.offset, node.value)
        case Identifier():
            return Identifier(node.offset, node.name)
        case Select():
            return Select(node.offset, copy(node.operand, offset), node.field, node.test_only)
        case Call():
            target = node.target and copy(node.target, offset)
            return Call(node.offset, node.function, target, tuple(map(copy, node.arguments, repeat(offset))))
        case ListLiteral():
            return ListLiteral(node.offset, tuple(map(copy, node.elements, repeat(offset))), node.optional)
        case MapLiteral():
            return MapLiteral(node.offset, tuple(map(_entry, node.entries, repeat(offset))))
        case StructLiteral():
            return StructLiteral(node.offset, node.type_name, tuple(map(_entry, node.fields, repeat(offset))))
        case Comprehension():
            return _comprehension(node, offset)


def _entry(entry: Entry, offset: int) -> Entry:
    key = entry.key if isinstance(entry.key, str) else copy(entry.key, offset)
    return Entry(offset, key, copy(entry.value, offset), entry.optional)


def _comprehension(node: Comprehension, offset: int) -> Comprehension:
    return Comprehension(
        node.offset,
        copy(node.range, offset),
        node.variable,
        node.second_variable,
        node.accumulator,
        copy(node.initial, offset),
        copy(node.condition, offset),
        copy(node.step, offset),
        copy(node.result, offset),
    )
