"""Timestamps and durations: values, arithmetic, and the functions that take them apart."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, ClassVar

from policies.cel.declarations import Function, Library, Overload, member
from policies.cel.errors import NO_OVERLOAD, CelRuntimeError
from policies.cel.libraries.time_texts import (
    NANOSECONDS_PER_SECOND,
    CivilTime,
    civil_time,
    go_duration_text,
    go_timestamp_text,
    seconds_east,
)
from policies.cel.types import DURATION, INT, STRING, TIMESTAMP, Type
from policies.kubernetes.quantities import INT64_MAX, INT64_MIN

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = [
    "LIBRARY",
    "TIMESTAMP_OVERFLOW",
    "Duration",
    "Timestamp",
    "add",
    "is_in_range",
    "subtract",
]

TIMESTAMP_OVERFLOW = "timestamp overflow"
_INTEGER_OVERFLOW = "integer overflow"
_FIRST_SECOND = -62_135_596_800
_LAST_SECOND = 253_402_300_799
"""0001-01-01T00:00:00Z and 9999-12-31T23:59:59Z (cel-go common/types/timestamp.go)."""


@dataclass(frozen=True, slots=True, order=True)
class Timestamp:
    """A moment between the years 1 and 9999; moments are equal wherever they were written."""

    cel_type: ClassVar[Type] = TIMESTAMP

    nanoseconds: int
    """Since 1970-01-01T00:00:00Z."""
    offset: int = field(default=0, compare=False)
    """Seconds east of UTC where it was written; only its text shows them."""

    @property
    def seconds(self) -> int:
        """Whole seconds since 1970, rounded down."""
        return self.nanoseconds // NANOSECONDS_PER_SECOND

    def __str__(self) -> str:
        """As messages show it."""
        return go_timestamp_text(self.nanoseconds, self.offset)


@dataclass(frozen=True, slots=True, order=True)
class Duration:
    """A length of time of less than 293 years."""

    cel_type: ClassVar[Type] = DURATION

    nanoseconds: int
    """Within 64 bits."""

    def __str__(self) -> str:
        """As messages show it."""
        return go_duration_text(self.nanoseconds)


def is_in_range(nanoseconds: int) -> bool:
    """True if nanoseconds since 1970 are a timestamp that CEL knows."""
    return _FIRST_SECOND <= nanoseconds // NANOSECONDS_PER_SECOND <= _LAST_SECOND


def add(left: Timestamp | Duration, right: Timestamp | Duration) -> Timestamp | Duration:
    """The sum of two durations, or of a timestamp and a duration in either order.

    Raises:
        CelRuntimeError: it is out of range; or both are timestamps, `no such overload`.
    """
    if isinstance(left, Duration):
        if isinstance(right, Duration):
            return Duration(_within_64_bits(left.nanoseconds + right.nanoseconds))
        left, right = right, left
    if isinstance(right, Timestamp):
        raise CelRuntimeError(NO_OVERLOAD)
    return _shift(left, right.nanoseconds)


def subtract(left: Timestamp | Duration, right: Timestamp | Duration) -> Timestamp | Duration:
    """The difference of two timestamps or two durations, or a timestamp so much earlier.

    Raises:
        CelRuntimeError: it is out of range; or a timestamp is taken from a duration, `no such overload`.
    """
    if isinstance(left, Timestamp):
        if isinstance(right, Timestamp):
            return Duration(_nanoseconds_between(left, right))
        return _shift(left, _within_64_bits(-right.nanoseconds))
    if isinstance(right, Timestamp):
        raise CelRuntimeError(NO_OVERLOAD)
    return Duration(_within_64_bits(left.nanoseconds - right.nanoseconds))


def _shift(moment: Timestamp, nanoseconds: int) -> Timestamp:
    moved = moment.nanoseconds + nanoseconds
    if not is_in_range(moved):
        raise CelRuntimeError(TIMESTAMP_OVERFLOW)
    return Timestamp(moved, moment.offset)


def _nanoseconds_between(left: Timestamp, right: Timestamp) -> int:
    """Overflows where cel-go does: when the whole seconds alone are too many, too."""
    whole = _within_64_bits((left.seconds - right.seconds) * NANOSECONDS_PER_SECOND)
    fraction = left.nanoseconds % NANOSECONDS_PER_SECOND - right.nanoseconds % NANOSECONDS_PER_SECOND
    return _within_64_bits(whole + fraction)


def _within_64_bits(number: int) -> int:
    if not INT64_MIN <= number <= INT64_MAX:
        raise CelRuntimeError(_INTEGER_OVERFLOW)
    return number


def _of_timestamp(read: Callable[[CivilTime], int], moment: Timestamp, zone: str = "UTC") -> int:
    return read(civil_time(moment.seconds + seconds_east(zone, moment.seconds)))


def _milliseconds(moment: Timestamp, zone: str = "UTC") -> int:
    seconds_east(zone, moment.seconds)
    return moment.nanoseconds % NANOSECONDS_PER_SECOND // 1_000_000


def _in_units(unit: int, duration: Duration) -> int:
    """Whole units towards zero, by the doubles that Go's Hours, Minutes and Seconds return."""
    whole, rest = divmod(abs(duration.nanoseconds), unit)
    number = int(float(whole) + float(rest) / float(unit))
    return -number if duration.nanoseconds < 0 else number


def _duration_milliseconds(duration: Duration) -> int:
    whole = abs(duration.nanoseconds) // 1_000_000
    return -whole if duration.nanoseconds < 0 else whole


def _timestamp_overloads(id_: str, zoned_id: str, read: Callable[..., int]) -> tuple[Overload, Overload]:
    return (
        member(id_, (TIMESTAMP,), INT, read),
        member(zoned_id, (TIMESTAMP, STRING), INT, read),
    )


def _field(name: str, id_: str, read: Callable[[CivilTime], int], *durations: Overload) -> Function:
    overloads = _timestamp_overloads(id_, f"{id_}_with_tz", partial(_of_timestamp, read))
    return Function(name, overloads + durations)


def _duration_overload(id_: str, read: Callable[[Duration], int]) -> Overload:
    return member(id_, (DURATION,), INT, read)


_HOUR = 3600 * NANOSECONDS_PER_SECOND
_MINUTE = 60 * NANOSECONDS_PER_SECOND

LIBRARY = Library(
    functions=(
        _field("getFullYear", "timestamp_to_year", lambda civil: civil.year),
        _field("getMonth", "timestamp_to_month", lambda civil: civil.month - 1),
        _field("getDayOfYear", "timestamp_to_day_of_year", lambda civil: civil.day_of_year),
        _field("getDayOfMonth", "timestamp_to_day_of_month", lambda civil: civil.day - 1),
        _field("getDate", "timestamp_to_day_of_month_1_based", lambda civil: civil.day),
        _field("getDayOfWeek", "timestamp_to_day_of_week", lambda civil: civil.day_of_week),
        _field(
            "getHours",
            "timestamp_to_hours",
            lambda civil: civil.hour,
            _duration_overload("duration_to_hours", partial(_in_units, _HOUR)),
        ),
        _field(
            "getMinutes",
            "timestamp_to_minutes",
            lambda civil: civil.minute,
            _duration_overload("duration_to_minutes", partial(_in_units, _MINUTE)),
        ),
        Function(
            "getSeconds",
            (
                *_timestamp_overloads(
                    "timestamp_to_seconds",
                    "timestamp_to_seconds_tz",
                    partial(_of_timestamp, lambda civil: civil.second),
                ),
                _duration_overload("duration_to_seconds", partial(_in_units, NANOSECONDS_PER_SECOND)),
            ),
        ),
        Function(
            "getMilliseconds",
            (
                *_timestamp_overloads("timestamp_to_milliseconds", "timestamp_to_milliseconds_with_tz", _milliseconds),
                _duration_overload("duration_to_milliseconds", _duration_milliseconds),
            ),
        ),
    )
)
"""Source: cel-go common/stdlib/standard.go."""
