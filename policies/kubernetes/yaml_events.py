"""Scalars of YAML as Kubernetes reads them, and the text of YAML or JSON as parser events.

Kubernetes reads YAML with sigs.k8s.io/yaml: go-yaml v2 decides what a scalar is, and the result is written as JSON.
Both steps leave traces that a reader of manifests has to reproduce, or it judges another object than the API server:
``y`` and ``on`` are booleans, ``010`` is eight, ``1:30`` and ``2024-01-01`` are strings, ``1.0`` arrives as the
integer 1, and the key ``1e6`` is spelled ``1e+06``.

A text is cut at its ``---`` lines first, because a parser cannot go on after a mistake and people want to hear about
the mistakes of all documents at once. A piece that is JSON is read as JSON: YAML 1.1 is not quite a superset of it
(surrogate pairs, tabs, keys beyond 1,024 characters). Everything else goes through libyaml, whose terse problems are
put into sentences here. Events are pulled one by one, so nothing in this module recurses however deep a text nests.

Sources: ``resolve`` in go.yaml.in/yaml/v2 (resolve.go), ``convertToJSONableObject`` in sigs.k8s.io/yaml (yaml.go).
"""

from __future__ import annotations

import json
import math
import re
import struct
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, NoReturn, Protocol, cast

import yaml

if TYPE_CHECKING:
    from collections.abc import Iterator


Scalar = str | int | float | bool | None
"""A scalar as go-yaml resolves it; floats may still be infinite or not a number."""

_WORDS: dict[str, Scalar] = {
    **dict.fromkeys(["y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"], True),
    **dict.fromkeys(["n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"], False),
    **dict.fromkeys(["", "~", "null", "Null", "NULL"], None),
    **dict.fromkeys([".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF"], math.inf),
    **dict.fromkeys(["-.inf", "-.Inf", "-.INF"], -math.inf),
    **dict.fromkeys([".nan", ".NaN", ".NAN"], math.nan),
}

_INTEGER = re.compile(
    r"(?P<sign>[-+]?)(?:0[xX](?P<hex>[0-9a-fA-F]+)|0[bB](?P<binary>[01]+)|0[oO]?(?P<octal>[0-7]+)|(?P<decimal>0|[1-9][0-9]*))"
)
_BASES = {"hex": 16, "binary": 2, "octal": 8, "decimal": 10}
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
# Go allows an underscore between two digits here, and nowhere else.
_FRACTION = re.compile(r"\.[0-9]+(?:_[0-9]+)*(?:[eE][-+]?[0-9]+(?:_[0-9]+)*)?")

_INT64_MIN, _INT64_END, _UINT64_END = -(2**63), 2**63, 2**64
_UINT64_DIGITS = 20
_LONGEST_SHOWN = 63

_TAG_PREFIX = "tag:yaml.org,2002:"
_TAGS = {
    "str": "a string",
    "int": "an integer",
    "float": "a number",
    "bool": "a boolean",
    "null": "null",
    "seq": "a list",
    "map": "a mapping",
}


def plain(text: str) -> Scalar:
    """The meaning of a scalar without quotes and without a tag.

    A number that fits neither int64 nor uint64 is a float, and one that fits no float is a string, as in Go.
    """
    first = text[:1]
    if first not in "yYnNtTfFoO~.+-0123456789":
        return text
    if text in _WORDS:
        return _WORDS[text]
    if first == ".":
        return _float(text, text) if _FRACTION.fullmatch(text) else text
    if first not in "+-0123456789":
        return text
    digits = text.replace("_", "")
    integer = _integer(digits)
    if integer is not None:
        return integer
    return _float(digits, text) if _FLOAT.fullmatch(digits) else text


def tagged_scalar(tag: str, text: str) -> Scalar:
    """The meaning of a scalar that carries a tag.

    Raises:
        ValueError: if the tag is not a type of JSON, or the text cannot be read as its type.
    """
    name = tag.removeprefix(_TAG_PREFIX)
    if tag == "!" or name == "str":
        return text
    expected = kind_of_tag(tag)
    scalar = plain(text)
    if name == "float" and isinstance(scalar, int) and not isinstance(scalar, bool):
        return float(scalar)
    if name != _tag_name(scalar):
        raise ValueError(f"{quote_text(text)} is not {expected}, which its tag !!{name} requires")
    return scalar


def kind_of_tag(tag: str) -> str:
    """The type that a tag promises, in words.

    Raises:
        ValueError: if the tag is not a type of JSON.
    """
    name = tag.removeprefix(_TAG_PREFIX)
    if name == tag or name not in _TAGS:
        short = tag if name == tag else f"!!{name}"
        raise ValueError(
            f"the tag {quote_text(short)} is not supported: objects of Kubernetes hold only strings, numbers, booleans, null, lists and mappings"
        )
    return _TAGS[name]


def value(scalar: Scalar) -> Scalar:
    """A scalar as it arrives at the API server, after the way through JSON.

    Go writes the float 2.0 to JSON as ``2``, and 3e17 as ``300000000000000000``; Kubernetes reads both as integers, and
    so do we.

    Raises:
        ValueError: if JSON has no such number.
    """
    if not isinstance(scalar, float):
        return scalar
    if not math.isfinite(scalar):
        raise ValueError("infinity and not-a-number do not exist in JSON; quote the value if a string is meant")
    if not scalar.is_integer():
        return scalar
    # Both languages choose the same shortest digits; zeros fill the rest, which is not always the exact value.
    written = int(Decimal(repr(scalar)))
    return written if _INT64_MIN <= written < _INT64_END else scalar


def key(scalar: Scalar) -> str:
    """The spelling of a scalar that is used as a key.

    Raises:
        ValueError: if sigs.k8s.io/yaml cannot turn it into the key of a JSON object.
    """
    if isinstance(scalar, str):
        return scalar
    if scalar is None:
        raise ValueError("null cannot be a key; write a name, or quote it")
    if isinstance(scalar, bool):
        return "true" if scalar else "false"
    if isinstance(scalar, float):
        return _float_key(scalar)
    if scalar >= _INT64_END:
        raise ValueError(f"the number {scalar} is too large for a key; quote it")
    return str(scalar)


def quote_text(text: str) -> str:
    """A text in double quotes, on one line and not too long, for use in a message."""
    return json.dumps(text if len(text) <= _LONGEST_SHOWN else f"{text[: _LONGEST_SHOWN - 1]}…", ensure_ascii=False)


def _integer(digits: str) -> int | None:
    match = _INTEGER.fullmatch(digits)
    if match is None or match.lastgroup is None:
        return None
    magnitude = match[match.lastgroup]
    # Python refuses to convert very long decimals; such a number is out of range whatever its digits are.
    if match.lastgroup == "decimal" and len(magnitude) > _UINT64_DIGITS:
        return None
    integer = int(match["sign"] + magnitude, _BASES[match.lastgroup])
    end = _INT64_END if match["sign"] else _UINT64_END
    return integer if _INT64_MIN <= integer < end else None


def _float(digits: str, text: str) -> float | str:
    number = float(digits)
    return text if math.isinf(number) else number


def _tag_name(scalar: Scalar) -> str:
    return {str: "str", int: "int", float: "float", bool: "bool", type(None): "null"}[type(scalar)]


def _float_key(number: float) -> str:
    """The number as Go's ``strconv.FormatFloat(number, 'g', -1, 32)`` writes it.

    These are the fewest digits that still name the same 32-bit float, in scientific form below 1e-4 and from 1e6 on.
    """
    if math.isnan(number):
        return ".nan"
    single = _single_precision(number)
    if math.isinf(single):
        return ".inf" if single > 0 else "-.inf"
    precision = next(digits for digits in range(17) if _single_precision(float(f"{single:.{digits}e}")) == single)
    scientific = f"{single:.{precision}e}"
    exponent = int(scientific.partition("e")[2])
    if -4 <= exponent < 6:
        return f"{single:.{max(precision - exponent, 0)}f}"
    return scientific


def _single_precision(number: float) -> float:
    try:
        (single,) = struct.unpack("<f", struct.pack("<f", number))
    except OverflowError:
        return math.copysign(math.inf, number)
    return float(single)


_PARSER = yaml.CSafeLoader if yaml.__with_libyaml__ else yaml.SafeLoader

# What libyaml and PyYAML count as the end of a line.
_BREAKS = "\n\r\x85\u2028\u2029"
_DOCUMENT_START = re.compile(f"\n---(?=[ \t{_BREAKS}]|\\Z)")
_UNREADABLE = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_SURROGATE = re.compile("[\ud800-\udfff]")

_JSON_START = re.compile(r'(?:---)?[ \t\r\n]*(?=[\[{"])')
_JSON_TOKEN = re.compile(r'\r\n?|\n|[\[\]{}]|"(?:[^"\\]++|\\.)*+"|[^ \t\r\n\[\]{},:"]+')

_SENTENCES = {
    "mapping values are not allowed in this context": (
        'a "key: value" pair cannot stand here: check the indentation, or quote the text if ": " belongs to it'
    ),
    "block sequence entries are not allowed in this context": 'a "- " item cannot stand here: check the indentation',
    "did not find expected key": (
        "expected another key of the mapping that begins at line {line}: check the indentation and the quotes"
    ),
    "did not find expected '-' indicator": (
        'expected another "- " item of the list that begins at line {line}: check the indentation'
    ),
    "did not find expected ',' or ']'": 'expected "," or "]" in the list that begins at line {line}',
    "did not find expected ',' or '}'": 'expected "," or "}}" in the mapping that begins at line {line}',
    "did not find expected node content": "expected a value here",
    "did not find expected <document start>": (
        'the document ends before this: check the indentation, or begin another document with a line "---"'
    ),
    "did not find expected alphabetic or numeric character": (
        'expected a name after "&" or "*"; quote the text if the sign belongs to it'
    ),
    "found a tab character where an indentation space is expected": "a tab cannot indent; use spaces",
    "found invalid Unicode character escape code": (
        "this escape names no character; instead of a surrogate pair, write the character itself"
    ),
    "found unknown escape character": (
        "no such escape in double quotes: write two backslashes for one, or use single quotes"
    ),
}
# These are noticed far behind the mistake; it sits where the text in question begins.
_SENTENCES_ABOUT_THE_BEGINNING = {
    "could not find expected ':'": 'expected ":" after this key',
    "found unexpected end of stream": "the quoted text that begins here is never closed",
    "found unexpected document indicator": "the quoted text that begins here is never closed",
}


class Mark(Protocol):
    """A place in a piece, both numbers counted from 0; libyaml and PyYAML have a class of their own each."""

    line: int
    column: int


class YAMLError(ValueError):
    """A text, or a document in it, that cannot be read.

    Attributes:
        message: What is wrong, in one sentence without a full stop.
        line: The line of the problem, counted from 1.
        column: The column of the problem in characters, counted from 1.
        text: The text of the document; empty where the text as a whole cannot be read.
        is_limit: True if the text passes a limit of this reader; other readers may read it.
    """

    def __init__(self, message: str, line: int, column: int, text: str = "", *, is_limit: bool = False) -> None:
        super().__init__(message, line, column)
        self.message = message
        self.line = line
        self.column = column
        self.text = text
        self.is_limit = is_limit

    def __str__(self) -> str:
        return f"{self.line}:{self.column}: {self.message}"


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a text, from one ``---`` line up to the next: as a rule one document.

    Attributes:
        text: The part, beginning at the first column of a line.
        line: How many lines lie before it.
        begin: How many characters lie before it.
    """

    text: str
    line: int
    begin: int = 0

    def events(self) -> Iterator[yaml.Event]:
        """The events of the piece; their marks count lines within the piece, from 0.

        Raises:
            YAMLError: when the parser reaches a mistake.
        """
        start = self._start_of_json()
        events = self._yaml_events() if start is None else self._json_events(start)
        return self._without_half_characters(events) if "\\u" in self.text or "\\U" in self.text else events

    def fail(self, message: str, mark: Mark, *, is_limit: bool = False) -> NoReturn:
        """Refuse the piece for what stands at a mark.

        Raises:
            YAMLError: always.
        """
        raise YAMLError(message, self.line + mark.line + 1, mark.column + 1, is_limit=is_limit) from None

    def fail_at(self, message: str, index: int) -> NoReturn:
        """Refuse the piece for the character at an index.

        Raises:
            YAMLError: always.
        """
        self.fail(message, _mark(self.text, index))

    def _yaml_events(self) -> Iterator[yaml.Event]:
        end: Mark = _mark(self.text, 0)
        try:
            parser = _PARSER(self.text)
            while (event := parser.get_event()) is not None:
                end = cast("Mark", event.end_mark)
                yield event
        except yaml.reader.ReaderError:
            index = next((match.start() for match in _UNREADABLE.finditer(self.text)), 0)
            code = f"{ord(self.text[index]):04X}"
            remedy = f'remove it, or write it as "\\u{code}" in double quotes'
            self.fail_at(f"the character U+{code} is not allowed in YAML; {remedy}", index)
        except yaml.MarkedYAMLError as error:
            self._fail_as_parser(error)
        except (ValueError, OverflowError):
            # Escapes that name no character slip through the parsers into Python's own conversions.
            self.fail("an escape after this place names no character of Unicode", end)

    def _fail_as_parser(self, error: yaml.MarkedYAMLError) -> NoReturn:
        problem = str(error.problem)
        mark = cast("yaml.Mark", error.problem_mark)
        begin = error.context_mark or mark
        if problem in _SENTENCES_ABOUT_THE_BEGINNING:
            self.fail(_SENTENCES_ABOUT_THE_BEGINNING[problem], begin)
        if problem == "found character that cannot start any token":
            character = self.text[mark.index]
            self.fail(
                "a tab cannot indent; use spaces"
                if character == "\t"
                else f'"{character}" cannot begin a value; quote it',
                mark,
            )
        line = self.line + begin.line + 1
        if problem in _SENTENCES:
            sentence = _SENTENCES[problem].format(line=line)
        else:
            sentence = f"{problem} ({error.context} at line {line})" if error.context_mark else problem
        # A parser that runs out of text points behind its end, at a line that no editor shows.
        self.fail_at(sentence, min(mark.index, len(self.text.rstrip())))

    def _start_of_json(self) -> int | None:
        start = _JSON_START.match(self.text)
        if start is None:
            return None
        try:
            _, end = _JSON.raw_decode(self.text, start.end())
        except (ValueError, RecursionError):
            return None
        return None if self.text[end:].strip(" \t\r\n") else start.end()

    def _json_events(self, start: int) -> Iterator[yaml.Event]:
        """The events of a text that is known to be one JSON value."""
        first = _mark(self.text, start)
        line, line_start = first.line, start - first.column
        yield yaml.DocumentStartEvent(first, first)
        for token in _JSON_TOKEN.finditer(self.text, start):
            word = token[0]
            if word in ("\n", "\r", "\r\n"):
                line, line_start = line + 1, token.end()
                continue
            mark = yaml.Mark("", token.start(), line, token.start() - line_start, None, 0)
            if word == "{":
                yield yaml.MappingStartEvent(None, None, implicit=True, start_mark=mark)
            elif word == "[":
                yield yaml.SequenceStartEvent(None, None, implicit=True, start_mark=mark)
            elif word == "}":
                yield yaml.MappingEndEvent(mark)
            elif word == "]":
                yield yaml.SequenceEndEvent(mark)
            elif word.startswith('"'):
                text = json.loads(word) if "\\" in word else word[1:-1]
                yield yaml.ScalarEvent(None, None, (False, True), text, mark)
            else:
                yield yaml.ScalarEvent(None, None, (True, False), word, mark)
        yield yaml.DocumentEndEvent(first)

    def _without_half_characters(self, events: Iterator[yaml.Event]) -> Iterator[yaml.Event]:
        for event in events:
            if isinstance(event, yaml.ScalarEvent) and (half := _SURROGATE.search(event.value)):
                message = f"the escape \\u{ord(half[0]):04x} is half of a character; write both halves, or the character itself"
                self.fail(message, cast("Mark", event.start_mark))
            yield event


def pieces(text: str) -> Iterator[Piece]:
    """A text cut before its ``---`` lines.

    A ``---`` in the first column begins a document wherever it stands: no scalar of YAML may contain one. It is no cut
    where it only ends the directives (``%YAML 1.1``) of its document.
    """
    begin = previous = line = 0
    for marker in _DOCUMENT_START.finditer(text):
        end = marker.start() + 1
        since_previous = text[previous:end]
        previous = end
        if since_previous.startswith("%") or "\n%" in since_previous:
            continue
        yield Piece(text[begin:end], line, begin)
        line += _line_breaks(text[begin:end])
        begin = end
    yield Piece(text[begin:], line, begin)


def _mark(text: str, index: int) -> yaml.Mark:
    before = text[:index]
    line_start = max(map(before.rfind, _BREAKS)) + 1
    return yaml.Mark("", index, _line_breaks(before), index - line_start, None, 0)


def _line_breaks(text: str) -> int:
    return sum(map(text.count, _BREAKS)) - text.count("\r\n")


def _no_constant(name: str) -> NoReturn:
    raise ValueError(name)


# Only judges whether a text is JSON: numbers stay text, which keeps very long ones from being converted.
_JSON = json.JSONDecoder(parse_int=str, parse_float=str, parse_constant=_no_constant)
