"""Functions of strings, regular expressions among them; and `size` of any value.

Patterns are Go's. They run in RE2, whose time grows with the length of the text and with the size of the pattern, but
never with their combinations.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Protocol, cast

from policies.cel.declarations import Overload, function, member
from policies.cel.errors import CelRuntimeError, spend_steps
from policies.cel.kinds import printed_text
from policies.cel.libraries.regex_syntax import translate_pattern
from policies.cel.types import BOOL, BYTES, INT, STRING, list_of, map_of, type_parameter
from policies.cel.values import Map
from policies.cel.values import size as list_size

if TYPE_CHECKING:
    from policies.cel.values import List


_LONGEST_PATTERN = 1 << 16
"""In characters; a selector itself is never longer than 10 KiB."""
_LARGEST_PROGRAM_BYTES = 8 << 20
"""RE2's own default. It allows about 87 000 instructions, where Go allows 3.3 million."""
_LARGEST_PROGRAM = 87_000
_INSTRUCTIONS_PER_STEP = 100
"""RE2 follows so many of a program's instructions in the time that other work takes for one step."""
_STEPS_PER_PATTERN = 60
_STEPS_PER_CHARACTER = 2
"""The steps of reading a pattern, counted even if it is cached: answers depend on no cache."""
_KEPT_PROGRAMS = 4
"""They are kept with their own caches, at worst 6 MB each."""
_KEPT_PATTERNS = 16
"""Of at most 64 Ki characters, as RE2 reads them."""
_TOO_LONG = f"regular expression too long: this evaluator stops at {_LONGEST_PATTERN} characters"
_TOO_LARGE = "regular expression too large: this evaluator stops at 8 MiB, Kubernetes at 128 MiB; repeat less in it"


class _Span(Protocol):
    """Where a match is."""

    def start(self) -> int: ...
    def end(self) -> int: ...


class _Program(Protocol):
    """A pattern that google-re2 compiled."""

    @property
    def programsize(self) -> int: ...
    def search(self, text: bytes, pos: int = 0) -> _Span | None: ...


def compile_pattern(pattern: str) -> str:
    """A pattern, checked as Go does it, and written for RE2.

    Raises:
        CelRuntimeError: the pattern is invalid, with the error text of Go's regexp.Compile; or too long.
    """
    if len(pattern) > _LONGEST_PATTERN:
        raise CelRuntimeError(_TOO_LONG)
    return _compile_cached(pattern)


@lru_cache(maxsize=_KEPT_PATTERNS)
def _compile_cached(pattern: str) -> str:
    return translate_pattern(pattern)


@lru_cache(maxsize=_KEPT_PROGRAMS)
def _program(pattern: str) -> _Program | None:
    """The pattern as RE2 compiles it; None if it is too large."""
    import re2

    options = re2.Options()
    options.max_mem = _LARGEST_PROGRAM_BYTES
    options.never_capture = True
    options.log_errors = False
    try:
        return cast("_Program", re2.compile(pattern, options))
    except re2.error:
        return None
    finally:
        re2.purge()  # its own cache would keep 128 more


def _ready(pattern: str) -> _Program:
    """The program of a pattern that `compiled` has written; paid for as if it had to be made now."""
    program = _program(pattern)
    spend_steps(_LARGEST_PROGRAM if program is None else program.programsize)
    if program is None:
        raise CelRuntimeError(_TOO_LARGE)
    return program


def _search(program: _Program, octets: bytes, start: int = 0) -> tuple[int, int] | None:
    r"""From where to where the first match goes.

    RE2 also finds nothing, as `\B`, between the bytes of one character, where Go does not look.
    """
    while True:
        spend_steps(program.programsize * (len(octets) - start) // _INSTRUCTIONS_PER_STEP)
        found = program.search(octets, start)
        if found is None:
            return None
        start = found.start()
        if start == _next_boundary(octets, start):
            return start, found.end()
        start = _next_boundary(octets, start)


def _next_boundary(octets: bytes, position: int) -> int:
    """The first place from a position on where a character begins or the text ends."""
    while octets[position : position + 1] and octets[position] & 0xC0 == 0x80:
        position += 1
    return position


def matches_regex(text: str, pattern: str) -> bool:
    """True if the pattern is found anywhere in the text."""
    _spend_on_reading(pattern)
    return _search(_ready(compile_pattern(pattern)), text.encode()) is not None


def _find(text: str, pattern: str) -> str:
    """The first match, or an empty text."""
    octets = text.encode()
    found = _search(_ready(_legal(pattern)), octets)
    return "" if found is None else octets[slice(*found)].decode()


def _find_all(text: str, pattern: str, limit: int = -1) -> tuple[str, ...]:
    """The matches that do not overlap; an empty one does not count right behind another.

    Source: Go's regexp.FindAllString.
    """
    octets = text.encode()
    program = _ready(_legal(pattern))
    matches: list[str] = []
    position, last_end = 0, -1
    while position <= len(octets) and (limit < 0 or len(matches) < limit):
        found = _search(program, octets, position)
        if found is None:
            break
        start, end = found
        if start < end or start != last_end:
            matches.append(octets[start:end].decode())
        last_end = end
        position = _next_boundary(octets, end + 1) if end == position else end
    return tuple(matches)


def _spend_on_reading(pattern: str) -> None:
    spend_steps(_STEPS_PER_PATTERN + _STEPS_PER_CHARACTER * len(pattern))


def _legal(pattern: str) -> str:
    """A pattern for `find`, compiled for RE2; Kubernetes' error text comes before Go's."""
    _spend_on_reading(pattern)
    try:
        return compile_pattern(pattern)
    except CelRuntimeError as error:
        raise CelRuntimeError(f"Illegal regex: {error.message}") from error


REGEX_LIBRARY: tuple[Overload, ...] = (
    function("matches", "matches", (STRING, STRING), BOOL, matches_regex),
    member("matches", "matches_string", (STRING, STRING), BOOL, matches_regex),
    member("find", "string_find_string", (STRING, STRING), STRING, _find),
    member("findAll", "string_find_all_string", (STRING, STRING), list_of(STRING), _find_all),
    member("findAll", "string_find_all_string_int", (STRING, STRING, INT), list_of(STRING), _find_all),
)
"""Source: cel-go common/stdlib/standard.go; k8s.io/apiserver/pkg/cel/library/regex.go."""


_UPPER_TO_LOWER = {code: code + 32 for code in range(ord("A"), ord("Z") + 1)}
_LOWER_TO_UPPER = {code: code - 32 for code in range(ord("a"), ord("z") + 1)}
_WHITE_SPACE = "\t\n\v\f\r \u0085\u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u2028\u2029\u202f\u205f\u3000"
"""Unicode's property White_Space, which Go trims; Python's strip also takes the separators 0x1c to 0x1f."""
_STEPS_PER_PART = 10
"""The steps of joining one more text, besides its characters."""
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


def out_of_range(index: int) -> CelRuntimeError:
    """The error for a place outside of a text."""
    return CelRuntimeError(f"index out of range: {index}")


def _char_at(text: str, index: int) -> str:
    """Empty at the very end of the text."""
    if not 0 <= index <= len(text):
        raise out_of_range(index)
    return text[index : index + 1]


def _index_of(text: str, part: str, offset: int = 0) -> int:
    """The first place at or behind the offset; an empty part is found at the offset, wherever that is."""
    if not part:
        return offset
    if offset < 0:
        raise out_of_range(offset)
    return text.find(part, offset)


def last_index_of_from(text: str, part: str, offset: int) -> int:
    """The last place at or before the offset; none when the offset is beyond the text."""
    if not part:
        return offset
    if offset < 0:
        raise out_of_range(offset)
    return text.rfind(part, 0, offset + len(part)) if offset < len(text) else -1


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
        raise out_of_range(start)
    return text[start:]


def _substring_range(text: str, start: int, end: int) -> str:
    if start > end:
        raise CelRuntimeError(f"invalid substring range. start: {start}, end: {end}")
    for index in (start, end):
        if not 0 <= index <= len(text):
            raise out_of_range(index)
    return text[start:end]


def _quote(text: str) -> str:
    """The text as a CEL literal, with the escapes that CEL has."""
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

LIBRARY: tuple[Overload, ...] = (
    function("size", "size_bytes", (BYTES,), INT, _size),
    member("size", "bytes_size", (BYTES,), INT, _size),
    function("size", "size_list", (_LIST,), INT, _size),
    member("size", "list_size", (_LIST,), INT, _size),
    function("size", "size_map", (_MAP,), INT, _size),
    member("size", "map_size", (_MAP,), INT, _size),
    function("size", "size_string", (STRING,), INT, _size),
    member("size", "string_size", (STRING,), INT, _size),
    member("contains", "contains_string", (STRING, STRING), BOOL, lambda text, part: part in text),
    member("endsWith", "ends_with_string", (STRING, STRING), BOOL, str.endswith),
    member("startsWith", "starts_with_string", (STRING, STRING), BOOL, str.startswith),
    member("charAt", "string_char_at_int", (STRING, INT), STRING, _char_at),
    member("indexOf", "string_index_of_string", (STRING, STRING), INT, _index_of),
    member("indexOf", "string_index_of_string_int", (STRING, STRING, INT), INT, _index_of),
    member("lastIndexOf", "string_last_index_of_string", (STRING, STRING), INT, str.rfind),
    member("lastIndexOf", "string_last_index_of_string_int", (STRING, STRING, INT), INT, last_index_of_from),
    member("lowerAscii", "string_lower_ascii", (STRING,), STRING, lambda text: text.translate(_UPPER_TO_LOWER)),
    member("replace", "string_replace_string_string", (STRING, STRING, STRING), STRING, _replace),
    member("replace", "string_replace_string_string_int", (STRING, STRING, STRING, INT), STRING, _replace),
    member("split", "string_split_string", (STRING, STRING), _STRINGS, _split),
    member("split", "string_split_string_int", (STRING, STRING, INT), _STRINGS, _split),
    member("substring", "string_substring_int", (STRING, INT), STRING, _substring_from),
    member("substring", "string_substring_int_int", (STRING, INT, INT), STRING, _substring_range),
    member("trim", "string_trim", (STRING,), STRING, lambda text: text.strip(_WHITE_SPACE)),
    member("upperAscii", "string_upper_ascii", (STRING,), STRING, lambda text: text.translate(_LOWER_TO_UPPER)),
    function("strings.quote", "strings_quote", (STRING,), STRING, _quote),
    member("join", "list_join", (_STRINGS,), STRING, _join),
    member("join", "list_join_string", (_STRINGS, STRING), STRING, _join),
)
"""Source: cel-go common/stdlib/standard.go and ext/strings.go."""
