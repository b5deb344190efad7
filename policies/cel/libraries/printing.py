"""Values and texts as Go's `%v` and `%q` print them into cel-go's messages."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, TypeGuard

from policies.cel.errors import spend_steps
from policies.cel.kinds import display_text
from policies.cel.values import Concatenation, Map

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from policies.cel.values import List, Value

__all__ = ["Mark", "is_list", "nested_text", "printed_text", "quoted_text"]

_ESCAPES = {
    '"': '\\"',
    "\\": "\\\\",
    "\a": "\\a",
    "\b": "\\b",
    "\f": "\\f",
    "\n": "\\n",
    "\r": "\\r",
    "\t": "\\t",
    "\v": "\\v",
}
_SURROGATES = 0xDC00
_FIRST_ESCAPED = 0xDC80
_LAST_ESCAPED = 0xDCFF
_WIDEST_BYTE = 0x80
_WIDEST_SHORT = 0x10000


def quoted_text(text: str) -> str:
    """The text as a Go string literal, with characters escaped that are not printable or not UTF-8.

    Args:
        text: Such bytes stand in it as Python's `surrogateescape` puts them there.

    Source: Go's strconv.Quote.
    """
    if text.isascii() and text.isprintable() and '"' not in text and "\\" not in text:
        return f'"{text}"'
    return '"' + "".join(_ESCAPES.get(character) or _printable(character) for character in text) + '"'


def _printable(character: str) -> str:
    if character.isprintable():
        return character
    code = ord(character)
    if _FIRST_ESCAPED <= code <= _LAST_ESCAPED:
        return f"\\x{code - _SURROGATES:02x}"
    if code < _WIDEST_BYTE:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < _WIDEST_SHORT else f"\\U{code:08x}"


class Mark(str):
    """Brackets, commas and the like between values."""

    __slots__ = ()


def is_list(value: Value) -> TypeGuard[List]:
    """Whether a value is a list."""
    return isinstance(value, tuple | Concatenation)


def nested_text(
    value: Value,
    piece: Callable[[Value | Mark], str],
    entries: Callable[[Map], Iterable[tuple[Value | Mark, ...]]],
) -> str:
    """A value with all that is inside it.

    Args:
        value: The value.
        piece: The text of a mark, or of a value that is neither list nor map; pays for its work.
        entries: The parts of each entry of a map, in order.
    """
    pieces: list[str] = []
    pending: list[Iterator[Value | Mark]] = [iter((value,))]
    while pending:
        for part in pending[-1]:
            if isinstance(part, Map):
                pending.append(_inside("{", entries(part), "}"))
                break
            if is_list(part):
                pending.append(_inside("[", ((element,) for element in part), "]"))
                break
            pieces.append(piece(part))
        else:
            pending.pop()
    return "".join(pieces)


def _inside(opening: str, members: Iterable[tuple[Value | Mark, ...]], closing: str) -> Iterator[Value | Mark]:
    yield Mark(opening)
    for index, parts in enumerate(members):
        spend_steps(1)
        yield from chain((Mark(", "),) if index else (), parts)
    yield Mark(closing)


def printed_text(value: Value) -> str:
    """A value as messages that Go composes show it: `[1, 2]`, `{a: 1}`, bytes by their numbers."""
    return nested_text(value, _printed_piece, _entries)


def _printed_piece(part: Value | Mark) -> str:
    if isinstance(part, Mark):
        return part
    text = _simple(part)
    spend_steps(len(text))
    return text


def _entries(entries: Map) -> Iterator[tuple[Value | Mark, ...]]:
    return ((key, Mark(": "), value) for key, value in entries.items())


def _simple(value: Value) -> str:
    if value is None:
        return "0"
    if isinstance(value, bytes):
        spend_steps(len(value))
        return f"[{' '.join(map(str, value))}]"
    return display_text(value)
