"""Functions of strings: the standard library, ext.Strings in version 2; and `size` of any value."""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.cel.declarations import Function, Library, function, member
from policies.cel.errors import CelRuntimeError, spend_steps
from policies.cel.libraries.printing import printed_text
from policies.cel.types import BOOL, BYTES, INT, STRING, list_of, map_of, type_parameter
from policies.cel.values import Map
from policies.cel.values import size as list_size

if TYPE_CHECKING:
    from policies.cel.values import List

__all__ = ["LIBRARY"]

_UPPER_TO_LOWER = {code: code + 32 for code in range(ord("A"), ord("Z") + 1)}
_LOWER_TO_UPPER = {code: code - 32 for code in range(ord("a"), ord("z") + 1)}
_WHITE_SPACE = "\t\n\v\f\r \u0085\u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u2028\u2029\u202f\u205f\u3000"
"""Unicode's property White_Space, which Go trims; Python's strip also takes the separators 0x1c to 0x1f."""
_STEPS_PER_PART = 10
"""What joining one more text is worth, besides its characters."""
_QUOTED = str.maketrans(
    {
        "\a": "\\a",
        "\b": "\\b",
        "\f": "\\f",
        "\n": "\\n",
        "\r": "\\r",
        "\t": "\\t",
        "\v": "\\v",
        "\\": "\\\\",
        '"': '\\"',
    }
)


def _size(value: str | bytes | List | Map) -> int:
    return len(value) if isinstance(value, str | bytes | Map) else list_size(value)


def _contains(text: str, part: str) -> bool:
    return part in text


def _out_of_range(index: int) -> CelRuntimeError:
    return CelRuntimeError(f"index out of range: {index}")


def _char_at(text: str, index: int) -> str:
    """Empty at the very end of the text."""
    if not 0 <= index <= len(text):
        raise _out_of_range(index)
    return text[index : index + 1]


def _index_of(text: str, part: str, offset: int = 0) -> int:
    """An empty part is found at the offset, wherever that is."""
    if not part:
        return offset
    if offset < 0:
        raise _out_of_range(offset)
    return text.find(part, offset)


def _last_index_of(text: str, part: str) -> int:
    return text.rfind(part)


def _last_index_of_from(text: str, part: str, offset: int) -> int:
    """The last place at or before the offset; none when the offset is beyond the text."""
    if not part:
        return offset
    if offset < 0:
        raise _out_of_range(offset)
    return text.rfind(part, 0, offset + len(part)) if offset < len(text) else -1


def _lower_ascii(text: str) -> str:
    return text.translate(_UPPER_TO_LOWER)


def _upper_ascii(text: str) -> str:
    return text.translate(_LOWER_TO_UPPER)


def _replace(text: str, old: str, new: str, limit: int = -1) -> str:
    """All of them if the limit is negative; an empty old one is before every character and at the end."""
    found = text.count(old)
    replaced = found if limit < 0 else min(limit, found)
    spend_steps(len(text) + replaced * len(new))
    return text.replace(old, new, replaced)


def _split(text: str, separator: str, limit: int = -1) -> tuple[str, ...]:
    """At most `limit` parts, the last with all the rest; an empty separator splits every character."""
    if limit == 0:
        return ()
    if separator:
        return tuple(text.split(separator, limit - 1 if limit > 0 else -1))
    if limit < 0 or limit > len(text):
        return tuple(text)
    return (*text[: limit - 1], text[limit - 1 :])


def _substring_from(text: str, start: int) -> str:
    if not 0 <= start <= len(text):
        raise _out_of_range(start)
    return text[start:]


def _substring_range(text: str, start: int, end: int) -> str:
    if start > end:
        raise CelRuntimeError(f"invalid substring range. start: {start}, end: {end}")
    for index in (start, end):
        if not 0 <= index <= len(text):
            raise _out_of_range(index)
    return text[start:end]


def _trim(text: str) -> str:
    return text.strip(_WHITE_SPACE)


def _quote(text: str) -> str:
    """As a CEL literal; only what CEL has an escape of its own for is escaped."""
    return f'"{text.translate(_QUOTED)}"'


def _join(parts: List, separator: str = "") -> str:
    texts: list[str] = []
    for part in parts:
        if not isinstance(part, str):
            raise CelRuntimeError(f"join: invalid input: {printed_text(part)}")
        spend_steps(len(part) + len(separator) + _STEPS_PER_PART)
        texts.append(part)
    return separator.join(texts)


_A, _B = type_parameter("A"), type_parameter("B")
_LIST, _MAP, _STRINGS = list_of(_A), map_of(_A, _B), list_of(STRING)

LIBRARY = Library(
    functions=(
        Function(
            "size",
            (
                function("size_bytes", (BYTES,), INT, _size),
                member("bytes_size", (BYTES,), INT, _size),
                function("size_list", (_LIST,), INT, _size),
                member("list_size", (_LIST,), INT, _size),
                function("size_map", (_MAP,), INT, _size),
                member("map_size", (_MAP,), INT, _size),
                function("size_string", (STRING,), INT, _size),
                member("string_size", (STRING,), INT, _size),
            ),
        ),
        Function("contains", (member("contains_string", (STRING, STRING), BOOL, _contains),)),
        Function("endsWith", (member("ends_with_string", (STRING, STRING), BOOL, str.endswith),)),
        Function("startsWith", (member("starts_with_string", (STRING, STRING), BOOL, str.startswith),)),
        Function("charAt", (member("string_char_at_int", (STRING, INT), STRING, _char_at),)),
        Function(
            "indexOf",
            (
                member("string_index_of_string", (STRING, STRING), INT, _index_of),
                member("string_index_of_string_int", (STRING, STRING, INT), INT, _index_of),
            ),
        ),
        Function(
            "lastIndexOf",
            (
                member("string_last_index_of_string", (STRING, STRING), INT, _last_index_of),
                member("string_last_index_of_string_int", (STRING, STRING, INT), INT, _last_index_of_from),
            ),
        ),
        Function("lowerAscii", (member("string_lower_ascii", (STRING,), STRING, _lower_ascii),)),
        Function(
            "replace",
            (
                member("string_replace_string_string", (STRING, STRING, STRING), STRING, _replace),
                member("string_replace_string_string_int", (STRING, STRING, STRING, INT), STRING, _replace),
            ),
        ),
        Function(
            "split",
            (
                member("string_split_string", (STRING, STRING), _STRINGS, _split),
                member("string_split_string_int", (STRING, STRING, INT), _STRINGS, _split),
            ),
        ),
        Function(
            "substring",
            (
                member("string_substring_int", (STRING, INT), STRING, _substring_from),
                member("string_substring_int_int", (STRING, INT, INT), STRING, _substring_range),
            ),
        ),
        Function("trim", (member("string_trim", (STRING,), STRING, _trim),)),
        Function("upperAscii", (member("string_upper_ascii", (STRING,), STRING, _upper_ascii),)),
        Function("strings.quote", (function("strings_quote", (STRING,), STRING, _quote),)),
        Function(
            "join",
            (
                member("list_join", (_STRINGS,), STRING, _join),
                member("list_join_string", (_STRINGS, STRING), STRING, _join),
            ),
        ),
    )
)
"""Source: cel-go common/stdlib/standard.go and ext/strings.go."""
