"""Checks `"...".format([...])` before it runs, where both the format and the list are written out.

Source: cel-go v0.26 `ext/formatting.go`, stringFormatValidator.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, cast

from policies.dra.cel.spelling import runtime_name
from policies.dra.cel.syntax import ListLiteral, Literal, MapLiteral

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from policies.dra.cel.issues import IssueList
    from policies.dra.cel.syntax import Call, Expression
    from policies.dra.cel.types import Type

__all__ = ["validate_format"]

_PRECISION = re.compile(rb"\.([0-9]*)")
_LARGEST_PRECISION = str(2**63 - 1)

_STRING = "string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, types, durations, and timestamps"
_STRING_TYPES = frozenset(
    {"list", "map", "int", "uint", "double", "bool", "string", "timestamp", "bytes", "duration", "type", "null"}
)
_NUMBER_OR_NAME = frozenset({"double", "string"})
_VERBS: dict[str, tuple[str, frozenset[str]]] = {
    "d": ("decimal clause can only be used on integers", frozenset({"int", "uint"})),
    "f": ("fixed-point clause can only be used on doubles", _NUMBER_OR_NAME),
    "e": ("scientific clause can only be used on doubles", _NUMBER_OR_NAME),
    "b": ("only integers and bools can be formatted as binary", frozenset({"int", "uint", "bool"})),
    "x": (
        "only integers, byte buffers, and strings can be formatted as hex",
        frozenset({"int", "uint", "string", "bytes"}),
    ),
    "o": ("octal clause can only be used on integers", frozenset({"int", "uint"})),
}
_VERBS["X"] = _VERBS["x"]
"""What each clause says when it is refused, and the types it takes; `s` looks inside of lists and maps too."""


class _FormatError(Exception):
    """The first thing that is wrong, and what it is wrong with if that is not the call."""

    def __init__(self, message: str, culprit: Expression | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.culprit = culprit


def validate_format(call: Call, types: Mapping[Expression, Type], issues: IssueList) -> None:
    """Report a format that cannot be read, that its arguments do not fit, or that leaves some over."""
    if not isinstance(call.target, Literal) or not isinstance(call.target.value, str) or len(call.arguments) != 1:
        return
    given = call.arguments[0]
    if not isinstance(given, ListLiteral):
        return
    try:
        used = _check_clauses(call.target.value, given.elements, types)
    except _FormatError as error:
        issues.report((error.culprit or call).offset, error.message)
        return
    if len(given.elements) > used:
        issues.report(
            call.offset,
            f"too many arguments supplied to string.format (expected {used}, got {len(given.elements)})",
        )


def _check_clauses(format_: str, given: tuple[Expression, ...], types: Mapping[Expression, Type]) -> int:
    """How many arguments the format uses."""
    text = format_.encode(errors="surrogatepass")
    used = 0
    position = text.find(b"%")
    while position >= 0:
        position += 1
        if text[position : position + 1] == b"%":
            position += 1
        else:
            if position >= len(text):
                raise _FormatError("unexpected end of string")
            if used >= len(given):
                raise _FormatError(f"index {used} out of range")
            position, verb = _read_clause(text, position)
            _check_argument(verb, given[used], types)
            used += 1
        position = text.find(b"%", position)
    return used


def _read_clause(text: bytes, position: int) -> tuple[int, str]:
    """Where a clause that begins behind its percent sign ends, and its letter."""
    if precision := _PRECISION.match(text, position):
        position = precision.end()
        _check_precision(precision[1].decode(), is_last=position == len(text))
    verb = chr(text[position])
    if verb != "s" and verb not in _VERBS:
        raise _FormatError(f'could not parse formatting clause: unrecognized formatting clause "{verb}"')
    return position + 1, verb


def _check_precision(digits: str, *, is_last: bool) -> None:
    if is_last:
        reason = "could not find end of precision specifier"
    elif not digits:
        reason = 'error while converting precision to integer: strconv.Atoi: parsing "": invalid syntax'
    elif _is_greater(digits.lstrip("0"), _LARGEST_PRECISION):
        reason = f'error while converting precision to integer: strconv.Atoi: parsing "{digits}": value out of range'
    else:
        return
    raise _FormatError(f"could not parse formatting clause: error while parsing precision: {reason}")


def _is_greater(digits: str, limit: str) -> bool:
    """Whether one number is greater than another, however many digits it has."""
    return (len(digits), digits) > (len(limit), limit)


def _check_argument(verb: str, argument: Expression, types: Mapping[Expression, Type]) -> None:
    if verb == "s":
        refusal, accepted = _STRING, _STRING_TYPES
        checked = _with_elements(argument)
    else:
        refusal, accepted = _VERBS[verb]
        checked = iter((argument,))
    for part in checked:
        type_ = types[part]
        if type_.kind != "dyn" and type_.name not in accepted:
            raise _FormatError(f"error during formatting: {refusal}, was given {runtime_name(type_)}", part)


def _with_elements(argument: Expression) -> Iterator[Expression]:
    """An argument, and what is written inside it if it is a list or map."""
    pending = [argument]
    while pending:
        part = pending.pop()
        yield part
        match part:
            case ListLiteral():
                pending += reversed(part.elements)
            case MapLiteral():
                for entry in reversed(part.entries):
                    pending += (entry.value, cast("Expression", entry.key))
