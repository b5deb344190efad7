"""`format`: values put into a text in place of clauses such as `%d` and `%.2f`.

cel-go prints `%f` and `%e` with golang.org/x/text/message in the locale en_US, whose habits include commas between
thousands, `∞`, superscript exponents, and numbers of digits that are kept in 8 and 16 bits.
"""

from __future__ import annotations

import math
import re
from decimal import Decimal
from typing import TYPE_CHECKING, NamedTuple

from policies.cel.declarations import Overload, member
from policies.cel.errors import CelRuntimeError, spend_steps
from policies.cel.kinds import Mark, is_list, kind, nested_text, quoted_text
from policies.cel.libraries.conversions import string_of
from policies.cel.libraries.times import Duration, Timestamp
from policies.cel.types import DYN, STRING, Type, list_of, runtime_name
from policies.cel.values import Map, size
from policies.kubernetes.quantities import INT64_MAX

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.cel.values import List, Value


REFUSALS = {
    "s": "string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, types, durations, "
    "and timestamps",
    "d": "decimal clause can only be used on integers",
    "f": "fixed-point clause can only be used on doubles",
    "e": "scientific clause can only be used on doubles",
    "b": "only integers and bools can be formatted as binary",
    "x": "only integers, byte buffers, and strings can be formatted as hex",
    "o": "octal clause can only be used on integers",
}
"""The error text of each clause for an argument that it does not take. Source: cel-go ext/formatting.go."""


class ClauseError(ValueError):
    """A clause that cannot be read; its text is cel-go's."""


def read_precision(digits: str, *, is_last: bool) -> int:
    """The precision that the digits after a dot specify.

    Args:
        digits: Perhaps none.
        is_last: Whether the text ends with them.

    Raises:
        ClauseError: they are invalid.
    """
    significant = digits.lstrip("0") or "0"
    if is_last:
        reason = "could not find end of precision specifier"
    elif not digits:
        reason = 'error while converting precision to integer: strconv.Atoi: parsing "": invalid syntax'
    elif len(significant) > len(str(INT64_MAX)) or int(significant) > INT64_MAX:
        reason = f'error while converting precision to integer: strconv.Atoi: parsing "{digits}": value out of range'
    else:
        return int(significant)
    raise ClauseError(f"could not parse formatting clause: error while parsing precision: {reason}")


_SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
_FRACTION_DIGITS = 6
_NO_VERB = "%!(NOVERB)"
_LARGEST_NUMBER_IN_FORMAT = 1_000_000


def fixed_point_text(number: float, precision: int) -> str:
    """`1,234.50`.

    Source: golang.org/x/text message/print.go, fmtDecimalFloat, and internal/number/format.go.
    """
    if _is_unreadable(precision):
        return _NO_VERB
    if not math.isfinite(number):
        return _special(number)
    at_most = (precision + 2**15) % 2**16 - 2**15
    digits = f"{abs(number):.{at_most}f}" if at_most >= 0 else f"{Decimal(repr(abs(number))):f}"
    whole, _, fraction = digits.partition(".")
    fraction = fraction.rstrip("0").ljust(precision % 2**8, "0")
    return f"{'-' if number < 0 else ''}{int(whole):,}{'.' if fraction else ''}{fraction}"


def scientific_text(number: float, width: int) -> str:
    """A mantissa of six decimals and a power of ten in superscript; the precision written is the width.

    Source: cel-go ext/formatting.go, Scientific; golang.org/x/text message/print.go, fmtScientific.
    """
    if _is_unreadable(width):
        return _NO_VERB
    text = _special(number)
    if math.isfinite(number):
        mantissa, _, power = f"{abs(number):.{_FRACTION_DIGITS}e}".partition("e")
        sign = "-" if number < 0 else ""
        exponent = f"{'-' if int(power) < 0 else ''}{abs(int(power)):02d}"
        text = f"{sign}{mantissa}\N{MULTIPLICATION SIGN}10{exponent.translate(_SUPERSCRIPTS)}"
    return text.rjust(width % 2**16)


def _is_unreadable(number_in_format: int) -> bool:
    """True if x/text gives up on a number before it has read all of its digits."""
    return number_in_format // 10 > _LARGEST_NUMBER_IN_FORMAT


def _special(number: float) -> str:
    if math.isnan(number):
        return "NaN"
    return "-∞" if number < 0 else "∞"


_DEFAULT_PRECISION = 6
_PRECISION = re.compile(r"\.([0-9]*)")
_VERBS = frozenset("sdfebxXo")
_LARGEST_PRECISION = 2**16
"""Where numbers of digits wrap around in golang.org/x/text."""
_STEPS_PER_PART = 20
"""The steps of writing one element of a list, besides its characters."""
_NAMED_NUMBERS = {"NaN": float("nan"), "Infinity": float("inf"), "-Infinity": float("-inf")}


class _Clause(NamedTuple):
    """The clause of one argument."""

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
        pieces.append(_format_value(arguments[index], clause))
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


def _format_value(value: Value, clause: _Clause) -> str:
    try:
        if clause.verb == "s":
            return _string(value)
        text = _number(value, clause)
    except CelRuntimeError as error:
        raise CelRuntimeError(f"error during formatting: {error.message}") from error
    spend_steps(len(text))
    return text


def _refusal(value: Value, clause: str) -> CelRuntimeError:
    return CelRuntimeError(f"{REFUSALS[clause.lower()]}, was given {kind(value)}")


def _number(value: Value, clause: _Clause) -> str:
    spend_steps(min(clause.precision, _LARGEST_PRECISION))
    match clause.verb:
        case "f":
            return fixed_point_text(_double(value, "f"), clause.precision)
        case "e":
            return scientific_text(_double(value, "e"), clause.precision)
        case "b" if isinstance(value, bool):
            return str(int(value))
        case "x" | "X" if isinstance(value, str | bytes):
            digits = (value.encode() if isinstance(value, str) else value).hex()
            return digits.upper() if clause.verb == "X" else digits
    if not isinstance(value, int) or isinstance(value, bool):
        raise _refusal(value, clause.verb)
    return format(int(value), clause.verb)


def _double(value: Value, verb: str) -> float:
    if isinstance(value, str) and value in _NAMED_NUMBERS:
        return _NAMED_NUMBERS[value]
    if not isinstance(value, float):
        raise _refusal(value, verb)
    return value


def _string(value: Value) -> str:
    if not isinstance(value, Map) and not is_list(value):
        return _plain(value, _refusal(value, "s"))
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
        raise CelRuntimeError(f"could not convert argument {quoted_text(error.message)} to string") from error
    spend_steps(len(text))
    return text


def _literal(value: Value) -> str:
    """A value inside a list or map, as CEL would write it."""
    if isinstance(value, float):
        return _double_literal(value)
    text = _plain(value, CelRuntimeError(f"no formatting function for {kind(value)}"))
    match value:
        case str():
            return quoted_text(text)
        case bytes():
            return f"b{quoted_text(text)}"
        case Timestamp():
            return f"timestamp({quoted_text(text)})"
        case Duration():
            return f"duration({quoted_text(text)})"
        case _:
            return text


def _double_literal(value: float) -> str:
    if math.isnan(value):
        return '"NaN"'
    if math.isinf(value):
        return '"+Inf"' if value > 0 else '"-Inf"'
    return f"{value:.6f}"


LIBRARY: tuple[Overload, ...] = (member("format", "string_format", (STRING, list_of(DYN)), STRING, _format),)
"""Source: cel-go ext/formatting.go; in version 2 of ext.Strings, that of before version 4."""
