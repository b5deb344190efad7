"""Percent-encoding as Go's net/url does it: what may stand in which part of a URL, and what `%41` means there."""

from __future__ import annotations

import re
from enum import Enum, auto

from policies.dra.cel.libraries.quoting import quoted

__all__ = ["Part", "UrlError", "decoded", "escape", "is_validly_escaped", "unescape"]

_UNRESERVED = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.~"
_LAST_HIGH_DIGIT_OF_ASCII = ord("7")
_ESCAPE = re.compile(rb"%([0-9A-Fa-f]{2})")
_INVALID = re.compile("[\udc80-\udcff]")


class Part(Enum):
    """A part of a URL that has rules of its own."""

    PATH = auto()
    HOST = auto()
    ZONE = auto()
    USER = auto()
    QUERY = auto()
    FRAGMENT = auto()


_ALLOWED = {
    Part.PATH: _UNRESERVED + b"$&+,/:;=@",
    Part.HOST: _UNRESERVED + b"!$&'()*+,;=:[]<>\"",
    Part.ZONE: _UNRESERVED + b"!$&'()*+,;=:[]<>\"",
    Part.USER: _UNRESERVED + b"$&+,;=",
    Part.QUERY: _UNRESERVED,
    Part.FRAGMENT: _UNRESERVED + b"$&+,/:;=?@!()*",
}
_NOT_ALLOWED = {part: re.compile(rb"[^" + re.escape(allowed) + rb"]") for part, allowed in _ALLOWED.items()}
_NOT_ALLOWED_ESCAPED = {
    part: re.compile(rb"[^" + re.escape(allowed + b"!$&'()*+,;=:@[]%") + rb"]") for part, allowed in _ALLOWED.items()
}
_SUSPECT = {part: re.compile(rb"%") for part in Part}
_SUSPECT[Part.HOST] = _SUSPECT[Part.ZONE] = re.compile(rb"[^" + re.escape(_ALLOWED[Part.HOST]) + rb"\x80-\xff]")


class UrlError(ValueError):
    """A text is no URL."""


def unescape(text: str, part: Part) -> bytes:
    """The bytes that a text stands for.

    Raises:
        UrlError: A `%` has no two hexadecimal digits behind it, or may not stand here, as other characters in a host.
    """
    written = text.encode(errors="surrogateescape")
    for suspect in _SUSPECT[part].finditer(written):
        if suspect[0] == b"%":
            _check(written[suspect.start() : suspect.start() + 3], part)
        else:
            raise UrlError(f"invalid character {quoted(suspect[0].decode())} in host name")
    if part is Part.QUERY:
        written = written.replace(b"+", b" ")
    return _ESCAPE.sub(_byte, written)


def _check(escaped: bytes, part: Part) -> None:
    match = _ESCAPE.fullmatch(escaped)
    if match is not None:
        if escaped == b"%25" or part not in {Part.HOST, Part.ZONE}:
            return
        if part is Part.HOST and escaped[1] > _LAST_HIGH_DIGIT_OF_ASCII:
            return
        if part is Part.ZONE and (_byte(match) == b" " or _byte(match) in _ALLOWED[Part.HOST]):
            return
    raise UrlError(f"invalid URL escape {quoted(escaped.decode(errors='surrogateescape'))}")


def _byte(match: re.Match[bytes]) -> bytes:
    return bytes((int(match[1], 16),))


def escape(data: bytes, part: Part) -> str:
    """The text that stands for bytes."""
    return _NOT_ALLOWED[part].sub(lambda match: b"%%%02X" % match[0][0], data).decode()


def is_validly_escaped(text: str, part: Part) -> bool:
    """Whether a text may stay as it was written."""
    return _NOT_ALLOWED_ESCAPED[part].search(text.encode()) is None


def decoded(data: bytes) -> str:
    """Bytes as text; each byte that is no UTF-8 becomes one replacement character, as cel-go counts them."""
    return _INVALID.sub("\ufffd", data.decode(errors="surrogateescape"))
