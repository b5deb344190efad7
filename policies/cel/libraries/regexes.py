"""Regular expressions: `matches` of the standard library, and Kubernetes' `find` and `findAll`.

Patterns are Go's. They run in RE2, whose time grows with the length of the text and with the size of the pattern, but
never with their combinations.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Protocol, cast

from policies.cel.declarations import Function, Library, function, member
from policies.cel.errors import CelRuntimeError, spend_steps
from policies.cel.libraries.regex_syntax import translate_pattern
from policies.cel.types import BOOL, INT, STRING, list_of

__all__ = ["LIBRARY", "compile_pattern"]

_LONGEST_PATTERN = 1 << 16
"""In characters; a selector itself is never longer than 10 KiB."""
_LARGEST_PROGRAM_BYTES = 8 << 20
"""RE2's own default. It allows about 87 000 instructions, where Go allows 3.3 million."""
_LARGEST_PROGRAM = 87_000
_INSTRUCTIONS_PER_STEP = 100
"""RE2 follows so many of a program's instructions in the time that other work takes for one step."""
_STEPS_PER_PATTERN = 60
_STEPS_PER_CHARACTER = 2
"""What it is worth to read a pattern, which has to be paid even where it is known: answers depend on no cache."""
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
    """What google-re2 makes of a pattern."""

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
    """What RE2 makes of a pattern; None if it is too large."""
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


def _matches(text: str, pattern: str) -> bool:
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


_STRINGS = list_of(STRING)

LIBRARY = Library(
    functions=(
        Function(
            "matches",
            (
                function("matches", (STRING, STRING), BOOL, _matches),
                member("matches_string", (STRING, STRING), BOOL, _matches),
            ),
        ),
        Function("find", (member("string_find_string", (STRING, STRING), STRING, _find),)),
        Function(
            "findAll",
            (
                member("string_find_all_string", (STRING, STRING), _STRINGS, _find_all),
                member("string_find_all_string_int", (STRING, STRING, INT), _STRINGS, _find_all),
            ),
        ),
    )
)
"""Source: cel-go common/stdlib/standard.go; k8s.io/apiserver/pkg/cel/library/regex.go."""
