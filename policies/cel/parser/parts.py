"""Parts of a syntax tree that is being built, and what its literals stand for."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, NamedTuple

from policies.cel.syntax import (
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
from policies.cel.values import UInt

if TYPE_CHECKING:
    from collections.abc import Iterable

    from policies.cel.syntax import Constant, Expression


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
    is_of_escaped_field: bool = False
    """True for the value of a field of a message that has its name between backticks."""


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
        """The recursive visits that cel-go's parser needs for it; its own limit of 250 is about those."""
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
    """A placeholder for a part that is wrong, so that the text around it can still be read."""
    return Part(Literal(offset, None)).complain(offset, message)


def identifier(offset: int, name: str) -> Part:
    """A name."""
    return Part(Identifier(offset, name), (), name)


def select(offset: int, operand: Part, field: str) -> Part:
    """A field of something."""
    name = f"{operand.name}.{field}" if operand.name else None
    return Part(Select(offset, operand.node, field), (operand,), name)


def presence_test(offset: int, selection: Part, node: Select) -> Part:
    """`has(x.f)`: true if the field exists; `node` is that of the selection."""
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


_MOST_DIGITS = 20
"""Digits of the largest 64-bit number, in base 10; no number with more significant digits fits."""

_ESCAPE = re.compile(r"\\(?:[xX]([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([0-3][0-7]{2})|(.))")

_SIMPLE_ESCAPES = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
"""The others, quotes, backslash, backtick and question mark, stand for themselves."""

_LAST_CODE_POINT = 0x10FFFF
_SURROGATES = range(0xD800, 0xE000)


def int_literal(text: str) -> int:
    """The int that digits with an optional sign mean.

    Raises:
        ValueError: with cel-go's words, if it does not fit into 64 bits.
    """
    negative = text.startswith("-")
    number = _number(_unsigned_digits(text))
    if number is None or number > (1 << 63) - (not negative):
        raise ValueError("invalid int literal")
    return -number if negative else number


def uint_literal(text: str) -> UInt:
    """The uint that digits and a `u` mean.

    Raises:
        ValueError: with cel-go's words, if it does not fit into 64 bits.
    """
    number = _number(text[:-1])
    if number is None or number >= 1 << 64:
        raise ValueError("invalid uint literal")
    return UInt(number)


def double_literal(text: str) -> float:
    """The nearest double; what is too small is 0.

    Raises:
        ValueError: with cel-go's words, if it is beyond the largest double.
    """
    number = float(_unsigned_digits(text))
    if math.isinf(number):
        raise ValueError("invalid double literal")
    return -number if text.startswith("-") else number


def string_literal(text: str) -> str:
    r"""The value of a string literal, given with quotes and `r`; line ends become `\n`.

    Raises:
        ValueError: with cel-go's words, if an escape means no Unicode character.
    """
    content, is_raw = _content(text)
    return content if is_raw else _ESCAPE.sub(_character, content)


def bytes_literal(text: str) -> bytes:
    """The value of a bytes literal: its characters in UTF-8, octal and `x` escapes as single bytes.

    Raises:
        ValueError: with cel-go's words, if there is an escape for a Unicode character.
    """
    content, is_raw = _content(text[1:])
    if is_raw:
        return _utf8(content)
    result = bytearray()
    position = 0
    for escape in _ESCAPE.finditer(content):
        result += _utf8(content[position : escape.start()])
        result += _byte(escape)
        position = escape.end()
    return bytes(result + _utf8(content[position:]))


def _unsigned_digits(text: str) -> str:
    """The digits behind a sign; blanks, line ends and comments may be between them."""
    return text.rsplit(maxsplit=1)[-1].removeprefix("-")


def _number(digits: str) -> int | None:
    """The number, or None for one that is far too long."""
    base = 16 if digits.startswith("0x") else 10
    significant = digits.removeprefix("0x").lstrip("0")
    return int(significant or "0", base) if len(significant) <= _MOST_DIGITS else None


def _content(text: str) -> tuple[str, bool]:
    """The text between the quotes, with uniform line ends, and True if it is raw."""
    is_raw = text[0] in "rR"
    quoted = text[1:] if is_raw else text
    width = 3 if len(quoted) >= len('""""""') and quoted[:3] in ('"""', "'''") else 1
    return quoted[width:-width].replace("\r\n", "\n").replace("\r", "\n"), is_raw


def _character(escape: re.Match[str]) -> str:
    hexadecimal = escape[1] or escape[2] or escape[3]
    if hexadecimal:
        number = int(hexadecimal, 16)
        if number > _LAST_CODE_POINT or number in _SURROGATES:
            raise ValueError("invalid unicode code point")
        return chr(number)
    return chr(int(escape[4], 8)) if escape[4] else _SIMPLE_ESCAPES.get(escape[5], escape[5])


def _byte(escape: re.Match[str]) -> bytes:
    if escape[2] or escape[3]:
        raise ValueError("unable to unescape string")
    if escape[1]:
        return bytes((int(escape[1], 16),))
    return bytes((int(escape[4], 8),)) if escape[4] else _SIMPLE_ESCAPES.get(escape[5], escape[5]).encode()


def _utf8(text: str) -> bytes:
    """As UTF-8; a lone surrogate, which JSON may hold, as the three bytes it would have."""
    return text.encode("utf-8", "surrogatepass")
