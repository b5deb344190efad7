"""Text in quotation marks, as Go's `%q` writes it into messages."""

from __future__ import annotations

__all__ = ["quoted"]

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


def quoted(text: str) -> str:
    """The text as a Go string literal; what cannot be printed is escaped, bytes in it that are no UTF-8 as such.

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
