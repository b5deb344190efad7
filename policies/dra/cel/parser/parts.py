"""Parts of a syntax tree that is being built, with what limits and messages need."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

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
    from collections.abc import Iterable

    from policies.dra.cel.syntax import Constant, Expression

__all__ = [
    "MAX_DEPTH",
    "MAX_NODES",
    "Complaint",
    "EntryPart",
    "Part",
    "TooLarge",
    "call",
    "comprehension",
    "failed_part",
    "identifier",
    "list_literal",
    "literal",
    "map_literal",
    "presence_test",
    "select",
    "struct_literal",
]

MAX_DEPTH = 260
"""The deepest tree, in nodes from the root to a leaf, after macros are expanded.

cel-go has no such limit, only the 250 for nesting in the text, which allow chains of 250 operators, and thousands of
levels to those who mix operators, lists and macros to reach them. This is ours: it allows each of the former and keeps
code that recurses over the tree, with up to three frames for a node, within Python's default limit of 1,000 frames.
"""

MAX_NODES = 20_000
"""The largest tree. Text of 10 KiB needs half of it, unless `optMap` in a chain copies what is before it, which cel-go
does without a limit until its memory ends."""


class Complaint(NamedTuple):
    """A mistake that shows only when a part is understood."""

    offset: int
    message: str


class TooLarge(Exception):  # noqa: N818 - `parse` raises its message as a CelCompileError
    """The tree would be beyond a limit."""


class Part:
    """An expression, and what a larger expression needs to know of it."""

    __slots__ = ("complaints", "depth", "name", "node", "size", "visits")

    def __init__(self, node: Expression, parts: Iterable[Part] = (), name: str | None = None) -> None:
        """Take an expression, its parts, and its name if it is a plain qualified name.

        Raises:
            TooLarge: if it is deeper than MAX_DEPTH or larger than MAX_NODES.
        """
        depth = visits = 0
        size = 1
        complaints: tuple[Complaint, ...] = ()
        for part in parts:
            depth = max(depth, part.depth)
            visits = max(visits, part.visits)
            size += part.size
            if part.complaints:
                complaints += part.complaints
        if depth >= MAX_DEPTH:
            raise TooLarge(f"expression recursion limit exceeded: {MAX_DEPTH} levels, macros expanded")
        if size > MAX_NODES:
            raise TooLarge(f"expression size limit exceeded: {MAX_NODES} nodes, macros expanded")
        self.node = node
        self.depth: int = depth + 1
        self.size: int = size
        self.visits: int = visits
        """How many recursive visits cel-go's parser needs for it; its own limit of 250 is about those."""
        self.complaints: tuple[Complaint, ...] = complaints
        self.name = name

    def complain(self, offset: int, message: str) -> Part:
        """Note that something is wrong with it."""
        self.complaints += (Complaint(offset, message),)
        return self

    def replace(self, node: Expression) -> Part:
        """Another expression that is just as deep and large; complaints about this one are not repeated."""
        part = Part(node)
        part.depth, part.size, part.visits = self.depth, self.size, self.visits
        return part


class EntryPart(NamedTuple):
    """An entry of a map or message, and its parts."""

    entry: Entry
    parts: tuple[Part, ...]


def literal(offset: int, value: Constant) -> Part:
    """A constant."""
    return Part(Literal(offset, value))


def failed_part(offset: int, message: str) -> Part:
    """What stands for a part that is wrong, so that what is around it can still be read."""
    return Part(Literal(offset, None)).complain(offset, message)


def identifier(offset: int, name: str) -> Part:
    """A name."""
    return Part(Identifier(offset, name), (), name)


def select(offset: int, operand: Part, field: str) -> Part:
    """A field of something."""
    name = f"{operand.name}.{field}" if operand.name else None
    return Part(Select(offset, operand.node, field), (operand,), name)


def presence_test(offset: int, selection: Part, node: Select) -> Part:
    """Whether what selects a field, which is the node of the part, would find it."""
    return selection.replace(Select(offset, node.operand, node.field, test_only=True))


def call(offset: int, function: str, *arguments: Part, target: Part | None = None) -> Part:
    """A call of a function or, with a target, of a method."""
    node = Call(offset, function, target.node if target else None, tuple(argument.node for argument in arguments))
    return Part(node, (target, *arguments) if target else arguments)


def list_literal(offset: int, elements: tuple[Part, ...], optional: frozenset[int] = frozenset()) -> Part:
    """A list with some optional elements."""
    return Part(ListLiteral(offset, tuple(element.node for element in elements), optional), elements)


def map_literal(offset: int, entries: tuple[EntryPart, ...] = ()) -> Part:
    """A map."""
    return Part(MapLiteral(offset, tuple(entry.entry for entry in entries)), _parts(entries))


def struct_literal(offset: int, type_name: str, fields: tuple[EntryPart, ...]) -> Part:
    """A message."""
    return Part(StructLiteral(offset, type_name, tuple(field.entry for field in fields)), _parts(fields))


def comprehension(
    offset: int,
    over: Part,
    variables: tuple[str, str],
    accumulator: tuple[str, Part],
    condition: Part,
    step: Part,
    result: Part,
) -> Part:
    """A fold; the second variable may be empty, and the accumulator comes with its initial value."""
    name, initial = accumulator
    nodes = (part.node for part in (initial, condition, step, result))
    return Part(Comprehension(offset, over.node, *variables, name, *nodes), (over, initial, condition, step, result))


def _parts(entries: tuple[EntryPart, ...]) -> Iterable[Part]:
    return (part for entry in entries for part in entry.parts)
