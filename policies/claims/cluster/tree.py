"""Walking the tree of a selector, with what the names of cel.bind stand for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.cel import (
    Call,
    Comprehension,
    Identifier,
    ListLiteral,
    Literal,
    MapLiteral,
    Select,
    StructLiteral,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from policies.cel import Expression
    from policies.claims.cluster.absence import Place

    Bound = Mapping[str, Expression]

__all__ = ["place_of", "text_of", "walk"]


def walk(root: Expression) -> Iterator[tuple[Expression, Bound]]:
    """Every part, outer ones first, with the names that are bound around it."""
    pending: list[tuple[Expression, Bound]] = [(root, {})]
    while pending:
        node, bound = pending.pop()
        yield node, bound
        pending += reversed(list(_parts(node, bound)))


def _parts(node: Expression, bound: Bound) -> Iterator[tuple[Expression, Bound]]:
    match node:
        case Select():
            yield node.operand, bound
        case Call():
            yield from ((part, bound) for part in (node.target, *node.arguments) if part is not None)
        case ListLiteral():
            yield from ((part, bound) for part in node.elements)
        case MapLiteral():
            for entry in node.entries:
                yield from ((part, bound) for part in (entry.key, entry.value) if not isinstance(part, str))
        case StructLiteral():
            yield from ((entry.value, bound) for entry in node.fields)
        case Comprehension():
            names = {node.variable, node.second_variable, node.accumulator}
            inner = {name: value for name, value in bound.items() if name not in names}
            if isinstance(node.range, ListLiteral) and not node.range.elements:
                inner[node.accumulator] = node.initial
            yield node.range, bound
            yield node.initial, bound
            yield node.step, inner
            yield node.result, inner


def place_of(node: Expression, bound: Bound) -> Place | None:
    """The place of the device that a part certainly is."""
    steps: list[str] = []
    for _ in range(_DEEPEST):
        match node:
            case Identifier(name="device") if "device" not in bound:
                return tuple(reversed(steps))
            case Identifier(name=name) if name in bound:
                node = bound[name]
            case Select(operand=operand, field=field, test_only=False):
                steps.append(field)
                node = operand
            case Call(function="_[_]", arguments=(operand, Literal(value=str(key)))):
                steps.append(key)
                node = operand
            case _:
                return None
    return None


def text_of(node: Expression) -> str | None:
    """The text that a part is, if it is one."""
    return node.value if isinstance(node, Literal) and isinstance(node.value, str) else None


_DEEPEST = 16
"""Steps from a part to the device; a place is three, and names stand between them."""
