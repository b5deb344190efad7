"""Conversions between types, `type` and `dyn`."""

from __future__ import annotations

import math
import re
from contextlib import suppress
from typing import TYPE_CHECKING

from policies.cel.declarations import Overload, function
from policies.cel.errors import CelRuntimeError
from policies.cel.kinds import display_text, kind, runtime_type
from policies.cel.libraries.times import (
    TIMESTAMP_OVERFLOW,
    Duration,
    Timestamp,
    duration_text,
    is_in_range,
    parse_duration,
    parse_timestamp,
    timestamp_text,
)
from policies.cel.types import (
    BOOL,
    BYTES,
    DOUBLE,
    DURATION,
    DYN,
    INT,
    STRING,
    TIMESTAMP,
    UINT,
    runtime_name,
    type_of,
    type_parameter,
)
from policies.cel.values import UINT64_MAX, UInt
from policies.kubernetes.quantities import INT64_MAX, INT64_MIN

if TYPE_CHECKING:
    from policies.cel.types import Type
    from policies.cel.values import Value


_INTEGER_OVERFLOW = "integer overflow"
_UNSIGNED_OVERFLOW = "unsigned integer overflow"

_LONGEST_NUMBER = 256
"""In characters. Go takes any number of zeros; longer texts are refused, because reading them is charged as one step."""
_INTEGER = re.compile(r"[+-]?[0-9]+")
_UNSIGNED = re.compile(r"[0-9]+")
_DIGITS = "[0-9]+(?:_[0-9]+)*"
_HEXADECIMALS = "[0-9a-fA-F]+(?:_[0-9a-fA-F]+)*"
_DECIMAL = re.compile(rf"[+-]?(?:{_DIGITS}(?:\.(?:{_DIGITS})?)?|\.{_DIGITS})(?:[eE][+-]?{_DIGITS})?")
_HEXADECIMAL = re.compile(
    rf"[+-]?0[xX](?:_?{_HEXADECIMALS}(?:\.(?:{_HEXADECIMALS})?)?|\.{_HEXADECIMALS})[pP][+-]?{_DIGITS}"
)
_SPECIAL = re.compile(r"[+-]?inf(?:inity)?|nan", re.IGNORECASE | re.ASCII)
_TRUE = frozenset({"1", "t", "T", "true", "TRUE", "True"})
_FALSE = frozenset({"0", "f", "F", "false", "FALSE", "False"})


def string_of(value: Value) -> str:
    """The text of a plain value, a type, a timestamp or a duration, as `string()` and `%s` make it.

    Raises:
        CelRuntimeError: bytes are not UTF-8; or values of this kind have no text.
    """
    match value:
        case str():
            return value
        case bytes():
            try:
                return value.decode()
            except UnicodeDecodeError:
                raise CelRuntimeError("invalid UTF-8 in bytes, cannot convert to string") from None
        case Timestamp():
            return timestamp_text(value.nanoseconds, value.offset)
        case Duration():
            return duration_text(value.nanoseconds)
        case None | bool() | int() | float():
            return display_text(value)
        case _:
            raise _no_conversion(value, STRING)


def _double_of_text(text: str) -> float:
    """A number as Go's strconv.ParseFloat reads it: `1e3`, `0x1p-2`, `Infinity`, `1_000`.

    Raises:
        CelRuntimeError: it is not a number, or larger than any double.
    """
    if len(text) <= _LONGEST_NUMBER:
        if _SPECIAL.fullmatch(text):
            return float(text)
        if _DECIMAL.fullmatch(text) and not math.isinf(number := float(text.replace("_", ""))):
            return number
        if _HEXADECIMAL.fullmatch(text):
            with suppress(OverflowError):
                return float.fromhex(text.replace("_", ""))
    raise _no_conversion(text, DOUBLE)


def _no_conversion(value: Value, target: Type) -> CelRuntimeError:
    return CelRuntimeError(f"type conversion error from '{kind(value)}' to '{runtime_name(target)}'")


def _identity(value: Value) -> Value:
    return value


def _bool_of_text(text: str) -> bool:
    if text not in _TRUE | _FALSE:
        raise _no_conversion(text, BOOL)
    return text in _TRUE


def _int_of_unsigned(number: UInt) -> int:
    if number > INT64_MAX:
        raise CelRuntimeError(_INTEGER_OVERFLOW)
    return int(number)


def _int_of_double(number: float) -> int:
    """Towards zero; the two ends of the range themselves are refused, too."""
    if not -(2.0**63) < number < 2.0**63:
        raise CelRuntimeError(_INTEGER_OVERFLOW)
    return int(number)


def _int_of_text(text: str) -> int:
    number = int(text) if len(text) <= _LONGEST_NUMBER and _INTEGER.fullmatch(text) else UINT64_MAX
    if not INT64_MIN <= number <= INT64_MAX:
        raise _no_conversion(text, INT)
    return number


def _uint_of_int(number: int) -> UInt:
    if number < 0:
        raise CelRuntimeError(_UNSIGNED_OVERFLOW)
    return UInt(number)


def _uint_of_double(number: float) -> UInt:
    if not 0 <= number < 2.0**64:
        raise CelRuntimeError(_UNSIGNED_OVERFLOW)
    return UInt(number)


def _uint_of_text(text: str) -> UInt:
    number = int(text) if len(text) <= _LONGEST_NUMBER and _UNSIGNED.fullmatch(text) else -1
    if not 0 <= number <= UINT64_MAX:
        raise _no_conversion(text, UINT)
    return UInt(number)


def _timestamp_of_seconds(seconds: int) -> Timestamp:
    nanoseconds = seconds * 1_000_000_000
    if not is_in_range(nanoseconds):
        raise CelRuntimeError(TIMESTAMP_OVERFLOW)
    return Timestamp(nanoseconds)


def _timestamp_of_text(text: str) -> Timestamp:
    read = parse_timestamp(text)
    if read is None:
        raise _no_conversion(text, TIMESTAMP)
    if not is_in_range(read[0]):
        raise CelRuntimeError(TIMESTAMP_OVERFLOW)
    return Timestamp(*read)


def _duration_of_int(number: int) -> Duration:
    """Declared by cel-go, and never possible."""
    raise _no_conversion(number, DURATION)


def _duration_of_text(text: str) -> Duration:
    nanoseconds = parse_duration(text)
    if nanoseconds is None:
        raise _no_conversion(text, DURATION)
    return Duration(nanoseconds)


_ANYTHING = type_parameter("A")

LIBRARY: tuple[Overload, ...] = (
    function("type", "type", (_ANYTHING,), type_of(_ANYTHING), runtime_type),
    function("bool", "bool_to_bool", (BOOL,), BOOL, _identity),
    function("bool", "string_to_bool", (STRING,), BOOL, _bool_of_text),
    function("bytes", "bytes_to_bytes", (BYTES,), BYTES, _identity),
    function("bytes", "string_to_bytes", (STRING,), BYTES, str.encode),
    function("double", "double_to_double", (DOUBLE,), DOUBLE, _identity),
    function("double", "int64_to_double", (INT,), DOUBLE, float),
    function("double", "string_to_double", (STRING,), DOUBLE, _double_of_text),
    function("double", "uint64_to_double", (UINT,), DOUBLE, float),
    function("duration", "duration_to_duration", (DURATION,), DURATION, _identity),
    function("duration", "int64_to_duration", (INT,), DURATION, _duration_of_int),
    function("duration", "string_to_duration", (STRING,), DURATION, _duration_of_text),
    function("dyn", "to_dyn", (_ANYTHING,), DYN, _identity),
    function("int", "int64_to_int64", (INT,), INT, _identity),
    function("int", "double_to_int64", (DOUBLE,), INT, _int_of_double),
    function("int", "duration_to_int64", (DURATION,), INT, lambda duration: duration.nanoseconds),
    function("int", "string_to_int64", (STRING,), INT, _int_of_text),
    function("int", "timestamp_to_int64", (TIMESTAMP,), INT, lambda timestamp: timestamp.seconds),
    function("int", "uint64_to_int64", (UINT,), INT, _int_of_unsigned),
    function("string", "string_to_string", (STRING,), STRING, _identity),
    function("string", "bool_to_string", (BOOL,), STRING, string_of),
    function("string", "bytes_to_string", (BYTES,), STRING, string_of),
    function("string", "double_to_string", (DOUBLE,), STRING, string_of),
    function("string", "duration_to_string", (DURATION,), STRING, string_of),
    function("string", "int64_to_string", (INT,), STRING, string_of),
    function("string", "timestamp_to_string", (TIMESTAMP,), STRING, string_of),
    function("string", "uint64_to_string", (UINT,), STRING, string_of),
    function("timestamp", "timestamp_to_timestamp", (TIMESTAMP,), TIMESTAMP, _identity),
    function("timestamp", "int64_to_timestamp", (INT,), TIMESTAMP, _timestamp_of_seconds),
    function("timestamp", "string_to_timestamp", (STRING,), TIMESTAMP, _timestamp_of_text),
    function("uint", "uint64_to_uint64", (UINT,), UINT, _identity),
    function("uint", "double_to_uint64", (DOUBLE,), UINT, _uint_of_double),
    function("uint", "int64_to_uint64", (INT,), UINT, _uint_of_int),
    function("uint", "string_to_uint64", (STRING,), UINT, _uint_of_text),
)
"""Source: cel-go common/stdlib/standard.go; what each does, common/types/*.go, ConvertToType."""
