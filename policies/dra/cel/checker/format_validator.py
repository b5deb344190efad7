"""Checks `"...".format([...])` before it runs, where both the format and the list are written out.

Source: cel-go v0.26 `ext/formatting.go`, stringFormatValidator.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, cast

from policies.dra.cel.libraries.format_clauses import REFUSALS, ClauseError, read_precision
from policies.dra.cel.spelling import runtime_name
from policies.dra.cel.syntax import ListLiteral, Literal, MapLiteral

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from policies.dra.cel.issues import IssueList
    from policies.dra.cel.syntax import Call, Expression
    from policies.dra.cel.types import Type

__all__ = ["validate_format"]

_PRECISION = re.compile(rb"\.([0-9]*)")

_STRING_TYPES = frozenset(
    {"list", "map", "int", "uint", "double", "bool", "string", "timestamp", "bytes", "duration", "type", "null"}
)
_NUMBER_OR_NAME = frozenset({"double", "string"})
_VERBS = {
    "d": frozenset({"int", "uint"}),
    "f": _NUMBER_OR_NAME,
    "e": _NUMBER_OR_NAME,
    "b": frozenset({"int", "uint", "bool"}),
    "x": frozenset({"int", "uint", "string", "bytes"}),
    "o": frozenset({"int", "uint"}),
    "s": _STRING_TYPES,
}
_VERBS["X"] = _VERBS["x"]
"""The types that each clause takes; `s` looks inside of lists and maps too."""


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
        try:
            read_precision(precision[1].decode(), is_last=position == len(text))
        except ClauseError as error:
            raise _FormatError(str(error)) from error
    verb = chr(text[position])
    if verb not in _VERBS:
        raise _FormatError(f'could not parse formatting clause: unrecognized formatting clause "{verb}"')
    return position + 1, verb


def _check_argument(verb: str, argument: Expression, types: Mapping[Expression, Type]) -> None:
    checked = _with_elements(argument) if verb == "s" else iter((argument,))
    for part in checked:
        type_ = types[part]
        if type_.kind != "dyn" and type_.name not in _VERBS[verb]:
            refusal = REFUSALS[verb.lower()]
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
