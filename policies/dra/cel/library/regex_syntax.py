"""The syntax of Go's regular expressions: what is wrong with a pattern, in Go's words, and the same pattern for RE2.

RE2 and Go read nearly the same language. Where they differ the pattern is rewritten: names of Unicode classes, and
names of groups, which Go lets repeat.
Source: Go 1.26 regexp/syntax/parse.go, with the flags of syntax.Perl.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import NoReturn

from policies.dra.cel.errors import CelRuntimeError
from policies.dra.cel.library.unicode_classes import unicode_class

__all__ = ["translated"]

_LARGEST_REPEAT = 1000
_LARGEST_HEIGHT = 1000
_LARGEST_SIZE = (128 << 20) // 40
"""What Go allows: copies of one thing, levels of nesting, instructions of 40 bytes in 128 MiB."""

_REPEAT = re.compile(r"\{(0|[1-9][0-9]*)(?:(,)(0|[1-9][0-9]*)?)?\}")
_DIGITS_THAT_COUNT = 9
_GROUP_NAME = re.compile(r"[A-Za-z0-9_]+")
_POSIX_CLASSES = frozenset(
    [
        "alnum",
        "alpha",
        "ascii",
        "blank",
        "cntrl",
        "digit",
        "graph",
        "lower",
        "print",
        "punct",
        "space",
        "upper",
        "word",
        "xdigit",
    ]
)
_OCTAL = re.compile(r"[1-7][0-7]{1,2}|0[0-7]{0,2}")
_HEXADECIMAL_DIGITS = re.compile(r"[0-9a-fA-F]*")
_LAST_CODE_POINT = 0x10FFFF
_C_ESCAPES = {"a": 7, "f": 12, "n": 10, "r": 13, "t": 9, "v": 11}


def translated(pattern: str) -> str:
    """A pattern that Go takes, written for RE2.

    Raises:
        CelRuntimeError: Go does not take it; the message is that of Go's regexp.Compile.
    """
    return _Parser(pattern).parse()


@dataclass(slots=True)
class _Part:
    """What a part of a pattern comes to: all that Go's limits ask about."""

    size: int = 1
    height: int = 1
    copies: int = 1
    """How often the most repeated thing in it is repeated."""
    is_literal: bool = False


class _Level:
    """What has been read between two brackets, or from a bracket on."""

    def __init__(self, *, captures: bool) -> None:
        self.captures = captures
        self.parts: list[_Part] = []
        """Since the last `|`."""
        self.alternatives: list[_Part] = []

    def end_alternative(self) -> None:
        self.alternatives.append(_together(self.parts, extra=0))
        self.parts = []

    def whole(self) -> _Part:
        """All of it as one part."""
        self.end_alternative()
        return _together(self.alternatives, extra=len(self.alternatives) - 1)


def _together(parts: list[_Part], extra: int) -> _Part:
    if len(parts) == 1:
        return parts[0]
    return _Part(
        size=max(1, sum(part.size for part in parts) + extra),
        height=1 + max((part.height for part in parts), default=0),
        copies=max((part.copies for part in parts), default=1),
    )


class _Parser:
    """Reads a pattern once, from left to right, without recursion."""

    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self._position = 0
        self._levels = [_Level(captures=False)]
        self._last_repeat: int | None = None
        """Where the repetition operator began that has just been read."""
        self._written: list[str] = []

    def parse(self) -> str:
        while self._position < len(self._pattern):
            repeat = self._read_one()
            self._last_repeat = repeat
        if len(self._levels) > 1:
            self._fail("missing closing )", self._pattern)
        self._check(self._levels[0].whole())
        return "".join(self._written)

    def _read_one(self) -> int | None:
        """Read the next element; where it is a repetition operator, the answer is where it began."""
        start = self._position
        match self._pattern[start]:
            case "(":
                self._open()
            case "|":
                self._levels[-1].end_alternative()
                self._copy(1)
            case ")":
                self._close()
            case "[":
                self._class()
            case "*" | "+" | "?":
                self._position += 1
                self._repeat(start, 0, None)
                return start
            case "{" if found := _REPEAT.match(self._pattern, start):
                self._counted_repeat(found)
                return start
            case "\\":
                self._backslash()
            case "^" | "$" | ".":
                self._push(_Part(), 1)
            case "{":
                self._push(_Part(is_literal=True), 1, r"\{")
            case _:
                self._push(_Part(is_literal=True), 1)
        return None

    def _fail(self, problem: str, part: str) -> NoReturn:
        raise CelRuntimeError(f"error parsing regexp: {problem}: `{part}`")

    def _since(self, start: int) -> str:
        return self._pattern[start : self._position]

    def _copy(self, length: int, instead: str | None = None) -> None:
        """Go on by some characters, and write them down, or something else."""
        start = self._position
        self._position += length
        self._written.append(self._since(start) if instead is None else instead)

    def _push(self, part: _Part, length: int, instead: str | None = None) -> None:
        parts = self._levels[-1].parts
        if len(parts) >= 2 and parts[-1].is_literal and parts[-2].is_literal:
            parts[-2].size += parts.pop().size
        parts.append(part)
        self._copy(length, instead)

    def _check(self, part: _Part) -> None:
        if part.size > _LARGEST_SIZE:
            self._fail("expression too large", self._pattern)
        if part.height > _LARGEST_HEIGHT:
            self._fail("expression nests too deeply", self._pattern)

    def _open(self) -> None:
        start = self._position
        if not self._pattern.startswith("(?", start):
            self._levels.append(_Level(captures=True))
            self._copy(1)
        elif self._pattern.startswith("(?<", start) and len(self._pattern) - start > 3:
            self._named_group(start + 3)
        elif self._pattern.startswith("(?P<", start) and len(self._pattern) - start > 4:
            self._named_group(start + 4)
        else:
            self._flags(start)

    def _named_group(self, name_start: int) -> None:
        end = self._pattern.find(">", self._position)
        if end < 0:
            self._fail("invalid named capture", self._pattern[self._position :])
        if not _GROUP_NAME.fullmatch(self._pattern, name_start, end):
            self._fail("invalid named capture", self._pattern[self._position : end + 1])
        self._levels.append(_Level(captures=True))
        self._copy(end + 1 - self._position, "(")

    def _flags(self, start: int) -> None:
        position = start + 2
        is_negative = saw_flag = False
        while position < len(self._pattern):
            character = self._pattern[position]
            position += 1
            if character in "imsU":
                saw_flag = True
            elif character == "-" and not is_negative:
                is_negative, saw_flag = True, False
            elif character in ":)" and (saw_flag or not is_negative):
                if character == ":":
                    self._levels.append(_Level(captures=False))
                self._copy(position - start, "" if position - start == 3 and character == ")" else None)
                return
            else:
                break
        self._fail("invalid or unsupported Perl syntax", self._pattern[start:position])

    def _close(self) -> None:
        if len(self._levels) == 1:
            self._fail("unexpected )", self._pattern)
        level = self._levels.pop()
        part = level.whole()
        if level.captures:
            part = _Part(part.size + 2, part.height + 1, part.copies)
        self._check(part)
        part.is_literal = part.is_literal and not level.captures
        self._push(part, 1)

    def _counted_repeat(self, found: re.Match[str]) -> None:
        self._position = found.end()
        low, comma, high = found.groups()
        if any(number and len(number) > _DIGITS_THAT_COUNT for number in (low, high)):
            self._fail("invalid repeat count", found[0])
        least = int(low)
        most = int(high) if high else None if comma else least
        if least > _LARGEST_REPEAT or (most is not None and (most > _LARGEST_REPEAT or least > most)):
            self._fail("invalid repeat count", found[0])
        self._repeat(found.start(), least, most, is_counted=True)

    def _repeat(self, start: int, least: int, most: int | None, *, is_counted: bool = False) -> None:
        if self._pattern.startswith("?", self._position):
            self._position += 1
        if self._last_repeat is not None:
            self._fail("invalid nested repetition operator", self._since(self._last_repeat))
        parts = self._levels[-1].parts
        if not parts:
            self._fail("missing argument to repetition operator", self._since(start))
        repeated = parts.pop()
        part = (
            _repeated(repeated, least, most)
            if is_counted
            else _Part(repeated.size + 2, repeated.height + 1, repeated.copies)
        )
        self._check(part)
        if is_counted and max(least, most or 0) >= 2 and part.copies > _LARGEST_REPEAT:
            self._fail("invalid repeat count", self._since(start))
        parts.append(part)
        self._written.append(self._since(start))

    def _backslash(self) -> None:
        following = self._pattern[self._position + 1 : self._position + 2]
        if following in ("A", "b", "B", "z"):
            self._push(_Part(), 2)
        elif following == "Q":
            self._quotation()
        elif following in ("p", "P"):
            start = self._position
            named = self._unicode_class()
            self._position = start
            self._push(_Part(), named[1], f"[{named[0]}]")
        elif following and following in "dDsSwW":
            self._push(_Part(), 2)
        else:
            self._push(_Part(is_literal=True), 0, _written(self._escape()))

    def _quotation(self) -> None:
        r"""`\Q...\E`, or without an end."""
        end = self._pattern.find("\\E", self._position + 2)
        quoted = self._pattern[self._position + 2 : end if end >= 0 else len(self._pattern)]
        self._position = end + 2 if end >= 0 else len(self._pattern)
        for character in quoted:
            self._push(_Part(is_literal=True), 0, _written(ord(character)))

    def _unicode_class(self) -> tuple[str, int]:
        r"""`\pL` or `\p{Greek}` for RE2, and how long it was."""
        start = self._position
        name_start = start + 2
        end = name_start + 1
        if self._pattern.startswith("{", name_start):
            end = self._pattern.find("}", name_start) + 1
            if end == 0:
                self._fail("invalid character class range", self._pattern[start:])
            name = self._pattern[name_start + 1 : end - 1]
        else:
            name = self._pattern[name_start:end]
        is_negated = (self._pattern[start + 1] == "P") != name.startswith("^")
        found = unicode_class(name.removeprefix("^"), is_negated=is_negated)
        if found is None:
            self._fail("invalid character class range", self._pattern[start:end])
        return found, end - start

    def _class(self) -> None:
        start = self._position
        self._position += 2 if self._pattern.startswith("^", start + 1) else 1
        written = [self._since(start)]
        is_first = True
        while is_first or not self._pattern.startswith("]", self._position):
            is_first = False
            written.append(self._class_member(start))
        length = self._position + 1 - start
        self._position = start
        self._push(_Part(), length, "".join((*written, "]")))

    def _class_member(self, class_start: int) -> str:
        start = self._position
        end = self._pattern.find(":]", start + 2) if self._pattern.startswith("[:", start) else -1
        if end >= 0:
            return self._posix_class(end + 2)
        following = self._pattern[start + 1 : start + 2] if self._pattern.startswith("\\", start) else ""
        if following in ("p", "P"):
            written, length = self._unicode_class()
            self._position += length
            return written
        if following and following in "dDsSwW":
            self._position += 2
            return self._since(start)
        return self._range(class_start)

    def _posix_class(self, end: int) -> str:
        name = self._pattern[self._position : end]
        self._position = end
        if name[2:-2].removeprefix("^") not in _POSIX_CLASSES:
            self._fail("invalid character class range", name)
        return name

    def _range(self, class_start: int) -> str:
        start = self._position
        low = high = self._class_character(class_start)
        rest = self._pattern[self._position : self._position + 2]
        if len(rest) == 2 and rest[0] == "-" and rest[1] != "]":
            self._position += 1
            high = self._class_character(class_start)
            if high < low:
                self._fail("invalid character class range", self._since(start))
        return _written(low) if low == high else f"{_written(low)}-{_written(high)}"

    def _class_character(self, class_start: int) -> int:
        if self._position == len(self._pattern):
            self._fail("missing closing ]", self._pattern[class_start:])
        if self._pattern[self._position] == "\\":
            return self._escape()
        self._position += 1
        return ord(self._pattern[self._position - 1])

    def _escape(self) -> int:
        r"""Read `\n`, `\x41` or another single character behind a backslash; the answer is its code point."""
        start = self._position
        self._position += 2
        following = self._pattern[start + 1 : start + 2]
        if not following:
            self._fail("trailing backslash at end of expression", "")
        octal = _OCTAL.match(self._pattern, start + 1)
        if octal:
            self._position = octal.end()
            return int(octal[0], 8)
        if following == "x":
            code = self._hexadecimal()
        elif following in _C_ESCAPES:
            code = _C_ESCAPES[following]
        else:
            code = ord(following) if following.isascii() and not following.isalnum() else -1
        if code < 0:
            self._fail("invalid escape sequence", self._since(start))
        return code

    def _hexadecimal(self) -> int:
        r"""Behind `\x`: two digits, or any number of them in braces; -1 if it is neither, with Go's idea of where."""
        if not self._pattern.startswith("{", self._position):
            digits = self._pattern[self._position : self._position + 2]
            self._position += len(digits)
            return int(digits, 16) if re.fullmatch("[0-9a-fA-F]{2}", digits) else -1
        found = _HEXADECIMAL_DIGITS.match(self._pattern, self._position + 1)
        digits = found[0] if found else ""
        significant = digits.lstrip("0")
        if len(significant) > 6 or int(significant or "0", 16) > _LAST_CODE_POINT:
            self._position += 1 + _digits_until_too_large(digits)
            return -1
        self._position = min(self._position + 2 + len(digits), len(self._pattern))
        return int(digits, 16) if digits and self._pattern[self._position - 1] == "}" else -1


def _written(code: int) -> str:
    return rf"\x{{{code:x}}}"


def _digits_until_too_large(digits: str) -> int:
    code = 0
    for index, digit in enumerate(digits, 1):
        code = code * 16 + int(digit, 16)
        if code > _LAST_CODE_POINT:
            return index
    return len(digits)


def _repeated(part: _Part, least: int, most: int | None) -> _Part:
    """A part between `least` and `most` times, or any number of times from `least` on."""
    if most is None:
        size = 1 + least * part.size if least else 2 + part.size
        copies = max(least, 1) * part.copies
    else:
        size = most * part.size + most - least
        copies = most * part.copies
    return _Part(max(1, size), part.height + 1, max(1, copies))
