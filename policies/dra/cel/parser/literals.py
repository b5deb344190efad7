"""What the literals of an expression stand for: numbers, and strings with their escapes undone."""

from __future__ import annotations

import math
import re

from policies.dra.cel.values import UInt

__all__ = ["bytes_literal", "double_literal", "int_literal", "string_literal", "uint_literal"]

_MOST_DIGITS = 20
"""Digits of the largest 64-bit number, in base 10; no number with more significant digits fits."""

_ESCAPE = re.compile(r"\\(?:[xX]([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([0-3][0-7]{2})|(.))")

_SIMPLE_ESCAPES = {
    "a": "\a",
    "b": "\b",
    "f": "\f",
    "n": "\n",
    "r": "\r",
    "t": "\t",
    "v": "\v",
}
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
    r"""What a string literal means, quotes and `r` included; line ends become `\n`.

    Raises:
        ValueError: with cel-go's words, if an escape means no Unicode character.
    """
    content, is_raw = _content(text)
    return content if is_raw else _ESCAPE.sub(_character, content)


def bytes_literal(text: str) -> bytes:
    """What a bytes literal means: its characters in UTF-8, octal and `x` escapes as single bytes.

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
    """What is between the quotes, with its line ends made uniform, and whether it is raw."""
    is_raw = text[0] in "rR"
    quoted = text[1:] if is_raw else text
    width = 3 if len(quoted) >= len('""""""') and quoted[:3] in ('"""', "'''") else 1
    return quoted[width:-width].replace("\r\n", "\n").replace("\r", "\n"), is_raw


def _character(escape: re.Match[str]) -> str:
    hexadecimal = escape[1] or escape[2] or escape[3]
    if hexadecimal:
        return _code_point(int(hexadecimal, 16))
    return chr(int(escape[4], 8)) if escape[4] else _SIMPLE_ESCAPES.get(escape[5], escape[5])


def _code_point(number: int) -> str:
    if number > _LAST_CODE_POINT or number in _SURROGATES:
        raise ValueError("invalid unicode code point")
    return chr(number)


def _byte(escape: re.Match[str]) -> bytes:
    if escape[2] or escape[3]:
        raise ValueError("unable to unescape string")
    if escape[1]:
        return bytes((int(escape[1], 16),))
    return bytes((int(escape[4], 8),)) if escape[4] else _SIMPLE_ESCAPES.get(escape[5], escape[5]).encode()


def _utf8(text: str) -> bytes:
    """As UTF-8; a lone surrogate, which JSON may hold, as the three bytes it would have."""
    return text.encode("utf-8", "surrogatepass")
