"""What follows an operand, field, method, index or message, and the tree that it makes of the operand."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from policies.cel.parser import parts
from policies.cel.parser.macros import MacroError, expand
from policies.cel.parser.parts import Complaint, EntryPart, Part, TooLarge

if TYPE_CHECKING:
    from lark import Token

__all__ = [
    "Field",
    "FieldSuffix",
    "Index",
    "Message",
    "MethodCall",
    "Misplaced",
    "Suffix",
    "at",
    "call_or_macro",
    "count_visit",
]

_MOST_VISITS = 250
"""cel-go's maxRecursionDepth, as its visitor counts."""

_NO_ESCAPED_NAMES = "unsupported syntax: '`'"
"""cel-go reads them only where EnableIdentEscapeSyntax is on, which it is not in Kubernetes 1.36."""


class Misplaced(Exception):  # noqa: N818 - `parse` raises its message as a CelCompileError
    """A brace after something else than a type's name, which an LALR grammar cannot refuse."""

    def __init__(self, offset: int) -> None:
        super().__init__(offset)
        self.offset = offset


class Field(NamedTuple):
    """A field of a message."""

    start: int
    entry: EntryPart | None
    """None if its name is one that cannot be used."""


class FieldSuffix(NamedTuple):
    """`.field` or `.?field`."""

    dot: Token
    field: Token
    is_optional: bool

    def of(self, operand: Part) -> Part:
        """The field of the operand."""
        escaped = self.field.type == "ESC_IDENTIFIER"
        name = "" if escaped else str(self.field)
        if self.is_optional:
            part = parts.call(at(self.dot), "_?._", operand, parts.literal(at(self.field), name))
        else:
            part = parts.select(at(self.dot), operand, name)
        if escaped:
            part.name = None
            part.complain(at(self.field), _NO_ESCAPED_NAMES)
        return count_visit(part)


class MethodCall(NamedTuple):
    """`.method(arguments)`."""

    opening: Token
    method: Token
    arguments: tuple[Part, ...]

    def of(self, target: Part) -> Part:
        """The call of the method on the target."""
        return count_visit(call_or_macro(at(self.opening), str(self.method), self.arguments, target))


class Index(NamedTuple):
    """`[index]` or `[?index]`."""

    opening: Token
    element: Part
    is_optional: bool

    def of(self, operand: Part) -> Part:
        """The element of the operand."""
        return count_visit(parts.call(at(self.opening), "_[?_]" if self.is_optional else "_[_]", operand, self.element))


class Message(NamedTuple):
    """`{field: value}` behind the name of a type."""

    opening: Token
    fields: tuple[Field, ...]

    def of(self, type_: Part) -> Part:
        """The message of the type of a qualified name, which may contain reserved words."""
        if type_.name is None:
            raise Misplaced(at(self.opening))
        entries = tuple(field.entry for field in self.fields if field.entry)
        part = parts.struct_literal(at(self.opening), type_.name, entries)
        for _ in range(len(self.fields) - len(entries)):
            part.complain(self.fields[0].start, _NO_ESCAPED_NAMES)
        return part


Suffix = FieldSuffix | MethodCall | Index | Message


def at(token: Token) -> int:
    """The offset of a token."""
    return token.start_pos or 0


def count_visit(part: Part) -> Part:
    """The part, one visit of cel-go's parser deeper.

    Raises:
        TooLarge: if that is more than cel-go allows.
    """
    part.visits += 1
    if part.visits > _MOST_VISITS:
        raise TooLarge("max recursion depth exceeded")
    return part


def call_or_macro(offset: int, function: str, arguments: tuple[Part, ...], target: Part | None = None) -> Part:
    """The call, or what it expands to if it is a macro's."""
    complaints: tuple[Complaint, ...] = ()
    for part in (target, *arguments) if target else arguments:
        complaints += part.complaints
    try:
        part = expand(offset, function, target, arguments) or parts.call(offset, function, *arguments, target=target)
    except MacroError as error:
        part = parts.failed_part(error.offset, error.message)
        complaints += part.complaints
    part.complaints = complaints
    return part
