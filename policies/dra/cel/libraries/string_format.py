"""`format`: values put into a text in place of clauses such as `%d` and `%.2f`."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, NamedTuple

from policies.dra.cel.declarations import Function, Library, member
from policies.dra.cel.errors import CelRuntimeError
from policies.dra.cel.kinds import kind
from policies.dra.cel.libraries.conversions import string_of
from policies.dra.cel.libraries.format_clauses import REFUSALS, ClauseError, read_precision
from policies.dra.cel.libraries.localized_numbers import fixed, scientific
from policies.dra.cel.libraries.nested_texts import Mark, is_list, nested_text
from policies.dra.cel.libraries.quoting import quoted
from policies.dra.cel.libraries.times import Duration, Timestamp
from policies.dra.cel.steps import spend_steps
from policies.dra.cel.types import DYN, STRING, Type, list_of, runtime_name
from policies.dra.cel.values import Map, size

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.dra.cel.values import List, Value

__all__ = ["LIBRARY"]

_DEFAULT_PRECISION = 6
_PRECISION = re.compile(r"\.([0-9]*)")
_VERBS = frozenset("sdfebxXo")
_LARGEST_PRECISION = 2**16
"""Where numbers of digits begin anew in golang.org/x/text."""
_STEPS_PER_PART = 20
"""What writing one element of a list is worth, besides its characters."""
_NAMED_NUMBERS = {"NaN": float("nan"), "Infinity": float("inf"), "-Infinity": float("-inf")}


class _Clause(NamedTuple):
    """What stands for one argument."""

    verb: str
    """One of `s d f e b x X o`."""
    precision: int
    """As written, or 6."""


def _format(template: str, arguments: List) -> str:
    """The template with each clause replaced by its argument; arguments that are left over do not matter.

    Source: cel-go ext/formatting.go, parseFormatString.
    """
    spend_steps(len(template))
    pieces: list[str] = []
    position = index = 0
    while (found := template.find("%", position)) >= 0:
        pieces.append(template[position:found])
        if template.startswith("%", found + 1):
            pieces.append("%")
            position = found + 2
            continue
        if index >= size(arguments):
            raise CelRuntimeError(f"index {index} out of range")
        clause, position = _clause(template, found + 1)
        pieces.append(_formatted(arguments[index], clause))
        index += 1
    pieces.append(template[position:])
    return "".join(pieces)


def _clause(template: str, position: int) -> tuple[_Clause, int]:
    """The clause behind a `%`, and where it ends."""
    if position == len(template):
        raise CelRuntimeError("unexpected end of string")
    precision = _DEFAULT_PRECISION
    written = _PRECISION.match(template, position)
    if written is not None:
        position = written.end()
        try:
            precision = read_precision(written[1], is_last=position == len(template))
        except ClauseError as error:
            raise CelRuntimeError(str(error)) from error
    verb = template[position]
    if verb not in _VERBS:
        first_byte = chr(verb.encode()[0])
        raise CelRuntimeError(f'could not parse formatting clause: unrecognized formatting clause "{first_byte}"')
    return _Clause(verb, precision), position + 1


def _formatted(value: Value, clause: _Clause) -> str:
    try:
        if clause.verb == "s":
            return _string(value)
        text = _number(value, clause)
    except CelRuntimeError as error:
        raise CelRuntimeError(f"error during formatting: {error.message}") from error
    spend_steps(len(text))
    return text


def _refused(value: Value, clause: str) -> CelRuntimeError:
    return CelRuntimeError(f"{REFUSALS[clause.lower()]}, was given {kind(value)}")


def _number(value: Value, clause: _Clause) -> str:
    spend_steps(min(clause.precision, _LARGEST_PRECISION))
    match clause.verb:
        case "f":
            return fixed(_double(value, "f"), clause.precision)
        case "e":
            return scientific(_double(value, "e"), clause.precision)
        case "b" if isinstance(value, bool):
            return str(int(value))
        case "x" | "X" if isinstance(value, str | bytes):
            digits = (value.encode() if isinstance(value, str) else value).hex()
            return digits.upper() if clause.verb == "X" else digits
    if not isinstance(value, int) or isinstance(value, bool):
        raise _refused(value, clause.verb)
    return format(int(value), clause.verb)


def _double(value: Value, verb: str) -> float:
    if isinstance(value, str) and value in _NAMED_NUMBERS:
        return _NAMED_NUMBERS[value]
    if not isinstance(value, float):
        raise _refused(value, verb)
    return value


def _string(value: Value) -> str:
    if not isinstance(value, Map) and not is_list(value):
        return _plain(value, _refused(value, "s"))
    return nested_text(value, _piece, _sorted_entries)


def _piece(part: Value | Mark) -> str:
    text = part if isinstance(part, Mark) else _literal(part)
    spend_steps(len(text) + _STEPS_PER_PART)
    return text


def _sorted_entries(entries: Map) -> Iterator[tuple[Value | Mark, ...]]:
    spend_steps(len(entries))
    shown = [(_key(key), value) for key, value in entries.items()]
    shown.sort(key=lambda entry: entry[0])
    return ((Mark(f"{key}:"), value) for key, value in shown)


def _key(key: Value) -> str:
    if isinstance(key, str | int):
        return _literal(key)
    raise CelRuntimeError(f"no formatting function for map key of type {kind(key)}")


def _plain(value: Value, refused: CelRuntimeError) -> str:
    if value is None:
        return "null"
    if isinstance(value, Type):
        return runtime_name(value)
    if not isinstance(value, bool | int | float | str | bytes | Timestamp | Duration):
        raise refused
    try:
        text = string_of(value)
    except CelRuntimeError as error:
        raise CelRuntimeError(f"could not convert argument {quoted(error.message)} to string") from error
    spend_steps(len(text))
    return text


def _literal(value: Value) -> str:
    """A value inside a list or map, as CEL would write it."""
    if isinstance(value, float):
        return _double_literal(value)
    text = _plain(value, CelRuntimeError(f"no formatting function for {kind(value)}"))
    match value:
        case str():
            return quoted(text)
        case bytes():
            return f"b{quoted(text)}"
        case Timestamp():
            return f"timestamp({quoted(text)})"
        case Duration():
            return f"duration({quoted(text)})"
        case _:
            return text


def _double_literal(value: float) -> str:
    if math.isnan(value):
        return '"NaN"'
    if math.isinf(value):
        return '"+Inf"' if value > 0 else '"-Inf"'
    return f"{value:.6f}"


LIBRARY = Library(functions=(Function("format", (member("string_format", (STRING, list_of(DYN)), STRING, _format),)),))
"""Source: cel-go ext/formatting.go; in version 2 of ext.Strings, that of before version 4."""
