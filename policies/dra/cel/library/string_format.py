"""`format`: values put into a text in place of clauses such as `%d` and `%.2f`."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, NamedTuple, TypeGuard

from policies.dra.cel.declarations import Function, Library, member
from policies.dra.cel.errors import CelRuntimeError
from policies.dra.cel.kinds import kind
from policies.dra.cel.library.conversions import string_of
from policies.dra.cel.library.localized_numbers import fixed, scientific
from policies.dra.cel.library.quoting import quoted
from policies.dra.cel.library.times import Duration, Timestamp
from policies.dra.cel.spelling import runtime_name
from policies.dra.cel.types import DYN, STRING, Type, list_of
from policies.dra.cel.values import Concatenation, Map, size
from policies.dra.cel.work import spend

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from policies.dra.cel.values import List, Value

__all__ = ["LIBRARY"]

_DEFAULT_PRECISION = 6
_PRECISION = re.compile(r"\.([0-9]*)")
_VERBS = frozenset("sdfebxXo")
_LARGEST_INT = 2**63 - 1
_LARGEST_PRECISION = 2**16
"""Where numbers of digits begin anew in golang.org/x/text."""
_STEPS_PER_PART = 20
"""What writing one element of a list is worth, besides its characters."""
_NAMED_NUMBERS = {"NaN": float("nan"), "Infinity": float("inf"), "-Infinity": float("-inf")}

_REFUSALS = {
    "s": "string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, types, durations, "
    "and timestamps, was given {}",
    "d": "decimal clause can only be used on integers, was given {}",
    "f": "fixed-point clause can only be used on doubles, was given {}",
    "e": "scientific clause can only be used on doubles, was given {}",
    "b": "only integers and bools can be formatted as binary, was given {}",
    "x": "only integers, byte buffers, and strings can be formatted as hex, was given {}",
    "o": "octal clause can only be used on integers, was given {}",
}


class _Clause(NamedTuple):
    """What stands for one argument."""

    verb: str
    """One of `s d f e b x X o`."""
    precision: int
    """As written, or 6."""


class _Mark(str):
    """Brackets and commas between values."""

    __slots__ = ()


def _format(template: str, arguments: List) -> str:
    """The template with each clause replaced by its argument; arguments that are left over do not matter.

    Source: cel-go ext/formatting.go, parseFormatString.
    """
    spend(len(template))
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
        precision = _precision(written[1], is_last=position == len(template))
    verb = template[position]
    if verb not in _VERBS:
        first_byte = chr(verb.encode()[0])
        raise CelRuntimeError(f'could not parse formatting clause: unrecognized formatting clause "{first_byte}"')
    return _Clause(verb, precision), position + 1


def _precision(digits: str, *, is_last: bool) -> int:
    significant = digits.lstrip("0") or "0"
    if is_last:
        reason = "could not find end of precision specifier"
    elif not digits:
        reason = 'error while converting precision to integer: strconv.Atoi: parsing "": invalid syntax'
    elif len(significant) > len(str(_LARGEST_INT)) or int(significant) > _LARGEST_INT:
        reason = f'error while converting precision to integer: strconv.Atoi: parsing "{digits}": value out of range'
    else:
        return int(significant)
    raise CelRuntimeError(f"could not parse formatting clause: error while parsing precision: {reason}")


def _formatted(value: Value, clause: _Clause) -> str:
    try:
        if clause.verb == "s":
            return _string(value)
        text = _number(value, clause)
    except CelRuntimeError as error:
        raise CelRuntimeError(f"error during formatting: {error.message}") from error
    spend(len(text))
    return text


def _refused(value: Value, clause: str) -> CelRuntimeError:
    return CelRuntimeError(_REFUSALS[clause.lower()].format(kind(value)))


def _number(value: Value, clause: _Clause) -> str:
    spend(min(clause.precision, _LARGEST_PRECISION))
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
    """Lists and maps are written without recursion: they may be nested as deep as one likes."""
    if not isinstance(value, Map) and not _is_list(value):
        return _plain(value, _refused(value, "s"))
    pieces: list[str] = []
    pending: list[Iterator[Value | _Mark]] = [iter((value,))]
    while pending:
        for part in pending[-1]:
            if isinstance(part, Map):
                pending.append(_inside("{", _sorted_entries(part), "}"))
                break
            if _is_list(part):
                pending.append(_inside("[", ((element,) for element in part), "]"))
                break
            text = part if isinstance(part, _Mark) else _literal(part)
            spend(len(text) + _STEPS_PER_PART)
            pieces.append(text)
        else:
            pending.pop()
    return "".join(pieces)


def _is_list(value: Value) -> TypeGuard[List]:
    return isinstance(value, tuple | Concatenation)


def _inside(opening: str, members: Iterable[tuple[Value | _Mark, ...]], closing: str) -> Iterator[Value | _Mark]:
    yield _Mark(opening)
    for index, parts in enumerate(members):
        if index:
            yield _Mark(", ")
        yield from parts
    yield _Mark(closing)


def _sorted_entries(entries: Map) -> Iterator[tuple[Value | _Mark, ...]]:
    spend(len(entries))
    shown = [(_key(key), value) for key, value in entries.items()]
    shown.sort(key=lambda entry: entry[0])
    return ((_Mark(f"{key}:"), value) for key, value in shown)


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
    spend(len(text))
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
