r"""The syntax of Go's regular expressions: Go's errors for a pattern, and its translation for RE2.

RE2 and Go read nearly the same language. Where they differ the pattern is rewritten: names of groups, which Go lets repeat,
and names of Unicode classes in `\p{...}`. Both know Unicode's general categories and scripts. Go also takes long names, in
any case and with any `_`, `-` and spaces, and the code points that are not assigned.
Source: Go 1.26 regexp/syntax/parse.go, with the flags of syntax.Perl, and package unicode, which knows Unicode 15; limits of
repetition, nesting and size are those of repeatIsValid, calcHeight and calcSize. Go looks at a tree whose alternatives it
has factored; ours is not, and may be called too large where Go's is a little smaller.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from policies.cel.libraries.regex_characters import (
    PERL_CLASSES,
    UNICODE_CLASSES,
    CharacterReader,
    escape_code_point,
)

LARGEST_REPEAT = 1000
LARGEST_HEIGHT = 1000
LARGEST_SIZE = (128 << 20) // 40
"""Instructions of 40 bytes in 128 MiB."""


@dataclass(slots=True)
class Part:
    """The size, height and copies of a part of a pattern."""

    size: int = 1
    height: int = 1
    copies: int = 1
    """The number of repetitions of its most repeated part."""
    is_literal: bool = False

    def enclose(self) -> Part:
        """In a group that captures, or with `*`, `+` or `?` behind it."""
        return Part(self.size + 2, self.height + 1, self.copies)

    def repeat(self, least: int, most: int | None) -> Part:
        """So many times, or without an end."""
        if most is None:
            size = 1 + least * self.size if least else 2 + self.size
            copies = max(least, 1) * self.copies
        else:
            size = most * self.size + most - least
            copies = most * self.copies
        return Part(max(1, size), self.height + 1, max(1, copies))


class Level:
    """The parts read between two brackets, or from a bracket on."""

    def __init__(self, *, captures: bool) -> None:
        self.captures = captures
        self.parts: list[Part] = []
        """Since the last `|`."""
        self._alternatives: list[Part] = []

    def push(self, part: Part) -> None:
        """Add a part; literals grow together once nothing can repeat the last of them."""
        parts = self.parts
        if len(parts) > 1 and parts[-1].is_literal and parts[-2].is_literal:
            parts[-2].size += parts.pop().size
        parts.append(part)

    def end_alternative(self) -> None:
        """Begin the next alternative after a `|`."""
        self._alternatives.append(_sequence(self.parts, extra=0))
        self.parts = []

    def whole(self) -> Part:
        """All of it as one part."""
        self.end_alternative()
        return _sequence(self._alternatives, extra=len(self._alternatives) - 1)


def _sequence(parts: list[Part], extra: int) -> Part:
    if len(parts) == 1:
        return parts[0]
    return Part(
        size=max(1, sum(part.size for part in parts) + extra),
        height=1 + max((part.height for part in parts), default=0),
        copies=max((part.copies for part in parts), default=1),
    )


_REPEAT = re.compile(r"\{(0|[1-9][0-9]*)(?:(,)(0|[1-9][0-9]*)?)?\}")
_DIGITS_THAT_COUNT = 9
_GROUP_NAME = re.compile(r"[A-Za-z0-9_]+")
_ANCHORS = frozenset("AbBz")
_FLAGS = frozenset("imsU")
_NO_FLAGS = "(?)"


def translate_pattern(pattern: str) -> str:
    """A pattern that Go takes, written for RE2.

    Raises:
        CelRuntimeError: Go does not take it; the message is that of Go's regexp.Compile.
    """
    return _Parser(pattern).parse()


class _Parser(CharacterReader):
    """Reads a pattern once, from left to right, without recursion."""

    def __init__(self, pattern: str) -> None:
        super().__init__(pattern)
        self._levels = [Level(captures=False)]
        self._last_repeat: int | None = None
        """Where the repetition operator began that has just been read."""
        self._written: list[str] = []

    def parse(self) -> str:
        while self.position < len(self.pattern):
            start = self.position
            is_repeat = self._read_one(start)
            self._last_repeat = start if is_repeat else None
        if len(self._levels) > 1:
            self.fail("missing closing )", self.pattern)
        self._check(self._levels[0].whole())
        return "".join(self._written)

    def _read_one(self, start: int) -> bool:
        """Read the next element; whether it was a repetition operator."""
        match self.pattern[start]:
            case "(":
                self._open(start)
            case "|":
                self._levels[-1].end_alternative()
                self._copy(1)
            case ")":
                self._close()
            case "[":
                self._push(Part(), self.character_class())
            case "*" | "+" | "?":
                self.position += 1
                self._repeat(start)
                return True
            case "{" if found := _REPEAT.match(self.pattern, start):
                self._counted_repeat(found)
                return True
            case "\\":
                self._backslash(start)
            case "^" | "$" | ".":
                self._push_copy(Part(), 1)
            case _:
                self.position += 1
                self._push(Part(is_literal=True), escape_code_point(ord(self.pattern[start])))
        return False

    def _copy(self, length: int) -> None:
        """Go on by some characters, and write them down."""
        start = self.position
        self.position += length
        self._written.append(self.since(start))

    def _push_copy(self, part: Part, length: int) -> None:
        self._levels[-1].push(part)
        self._copy(length)

    def _push(self, part: Part, written: str) -> None:
        """Add a part that has been read, and what it is for RE2."""
        self._levels[-1].push(part)
        self._written.append(written)

    def _check(self, part: Part) -> None:
        if part.size > LARGEST_SIZE:
            self.fail("expression too large", self.pattern)
        if part.height > LARGEST_HEIGHT:
            self.fail("expression nests too deeply", self.pattern)

    def _open(self, start: int) -> None:
        rest = len(self.pattern) - start
        if not self.ahead("(?"):
            self._levels.append(Level(captures=True))
            self._copy(1)
        elif self.ahead("(?<") and rest > len("(?<"):
            self._named_group(start + len("(?<"))
        elif self.ahead("(?P<") and rest > len("(?P<"):
            self._named_group(start + len("(?P<"))
        else:
            self._flags(start)

    def _named_group(self, name_start: int) -> None:
        start = self.position
        self.position = self.pattern.find(">", start) + 1
        if self.position == 0:
            self.fail("invalid named capture", self.pattern[start:])
        if not _GROUP_NAME.fullmatch(self.pattern, name_start, self.position - 1):
            self.fail("invalid named capture", self.since(start))
        self._levels.append(Level(captures=True))
        self._written.append("(")

    def _flags(self, start: int) -> None:
        """Read flags such as `(?i)`, or the beginning of a group that does not capture."""
        is_negative = has_flag = False
        for character in self.pattern[start + 2 :]:
            self.position += 1
            if character in _FLAGS:
                has_flag = True
            elif character == "-" and not is_negative:
                is_negative, has_flag = True, False
            elif character in ":)" and (has_flag or not is_negative):
                if character == ":":
                    self._levels.append(Level(captures=False))
                self.position = start
                self._copy(self.pattern.index(character, start) + 1 - start)
                return
            else:
                break
        self.position += 2
        self.fail("invalid or unsupported Perl syntax", self.since(start))

    def _close(self) -> None:
        if len(self._levels) == 1:
            self.fail("unexpected )", self.pattern)
        level = self._levels.pop()
        part = level.whole().enclose() if level.captures else level.whole()
        self._check(part)
        self._push_copy(part, 1)

    def _counted_repeat(self, found: re.Match[str]) -> None:
        self.position = found.end()
        low, comma, high = found.groups()
        is_too_long = max(len(low), len(high or "")) > _DIGITS_THAT_COUNT
        least = LARGEST_REPEAT + 1 if is_too_long else int(low)
        most = least if is_too_long or not comma else int(high) if high else None
        if least > LARGEST_REPEAT or (most is not None and not least <= most <= LARGEST_REPEAT):
            self.fail("invalid repeat count", found[0])
        part = self._repeat(found.start(), (least, most))
        if max(least, most or 0) >= 2 and part.copies > LARGEST_REPEAT:
            self.fail("invalid repeat count", self.since(found.start()))

    def _repeat(self, start: int, times: tuple[int, int | None] | None = None) -> Part:
        """Let the operator that began there apply to what came before it; it is greedy, unless a `?` follows."""
        if self.ahead("?"):
            self.position += 1
        if self._last_repeat is not None:
            self.fail("invalid nested repetition operator", self.since(self._last_repeat))
        parts = self._levels[-1].parts
        if not parts:
            self.fail("missing argument to repetition operator", self.since(start))
        part = parts[-1].repeat(*times) if times else parts[-1].enclose()
        self._check(part)
        parts[-1] = part
        self._written.append(self.since(start))
        return part

    def _backslash(self, start: int) -> None:
        following = self.pattern[start + 1 : start + 2]
        if following == "Q":
            self._quotation(start + 2)
        elif following in UNICODE_CLASSES:
            self._push(Part(), f"[{self.unicode_class()}]")
        elif following in _ANCHORS or following in PERL_CLASSES:
            self._push_copy(Part(), 2)
        else:
            self._push(Part(is_literal=True), escape_code_point(self.escape()))

    def _quotation(self, start: int) -> None:
        r"""Read what is behind `\Q`, up to `\E` or to the end of the pattern."""
        end = self.pattern.find("\\E", start)
        quoted = self.pattern[start : end if end >= 0 else len(self.pattern)]
        self.position = end + 2 if end >= 0 else len(self.pattern)
        for character in quoted:
            self._push(Part(is_literal=True), escape_code_point(ord(character)))
        if not quoted:
            self._written.append(_NO_FLAGS)
