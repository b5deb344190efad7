"""Timestamps and durations: values, arithmetic, functions, and texts as Go reads and writes them."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import lru_cache, partial
from importlib import resources
from typing import TYPE_CHECKING, ClassVar, NamedTuple
from zoneinfo import ZoneInfo

from policies.cel.declarations import Overload, member
from policies.cel.errors import NO_OVERLOAD, CelRuntimeError
from policies.cel.kinds import quoted_text
from policies.cel.types import DURATION, INT, STRING, TIMESTAMP, Type
from policies.cel.values import wrap_int64
from policies.kubernetes.quantities import INT64_MAX, INT64_MIN

if TYPE_CHECKING:
    from collections.abc import Callable


SECONDS_PER_DAY = 86_400
_DAYS_PER_ERA = 146_097
"""The calendar repeats itself after 400 years."""
_EPOCH_IN_ERA_DAYS = 719_468
"""From March 1st of the year 0, where the counting is easiest, to January 1st of 1970."""
_DAYS_BEFORE_MONTH = (0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334)
_DAYS_IN_MONTH = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
_FEBRUARY = 2


class CivilTime(NamedTuple):
    """A date and a time of day."""

    year: int
    month: int
    """From 1."""
    day: int
    """Of the month, from 1."""
    hour: int
    minute: int
    second: int
    day_of_week: int
    """From 0, a Sunday."""
    day_of_year: int
    """From 0."""


def civil_time(seconds: int) -> CivilTime:
    """Date and time of day, so many seconds after 1970-01-01T00:00:00 in the same time zone."""
    days, second_of_day = divmod(seconds, SECONDS_PER_DAY)
    era, day_of_era = divmod(days + _EPOCH_IN_ERA_DAYS, _DAYS_PER_ERA)
    year_of_era = (day_of_era - day_of_era // 1460 + day_of_era // 36_524 - day_of_era // 146_096) // 365
    day_from_march = day_of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    month_from_march = (5 * day_from_march + 2) // 153
    day = day_from_march - (153 * month_from_march + 2) // 5 + 1
    month = month_from_march + 3 if month_from_march < 10 else month_from_march - 9
    year = era * 400 + year_of_era + (month <= _FEBRUARY)
    leap_day = month > _FEBRUARY and _is_leap(year)
    return CivilTime(
        year=year,
        month=month,
        day=day,
        hour=second_of_day // 3600,
        minute=second_of_day // 60 % 60,
        second=second_of_day % 60,
        day_of_week=(days + 4) % 7,
        day_of_year=_DAYS_BEFORE_MONTH[month - 1] + day - 1 + leap_day,
    )


def days_since_epoch(year: int, month: int, day: int) -> int:
    """The days from 1970-01-01 to a date."""
    before = year - 1
    leap_days = before // 4 - before // 100 + before // 400
    leap_day = month > _FEBRUARY and _is_leap(year)
    return before * 365 + leap_days + _DAYS_BEFORE_MONTH[month - 1] + day - 1 + leap_day - 719_162


def days_in_month(year: int, month: int) -> int:
    """The number of days of a month."""
    return _DAYS_IN_MONTH[month - 1] + (month == _FEBRUARY and _is_leap(year))


def _is_leap(year: int) -> bool:
    return year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)


_UTC_NAMES = ("", "UTC", "Local")
"""Go's local zone is UTC in the images Kubernetes ships."""
_MAGIC = b"TZif"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST = (datetime(1, 1, 3, tzinfo=UTC) - _EPOCH) // timedelta(seconds=1)
_LAST = (datetime(9999, 12, 29, tzinfo=UTC) - _EPOCH) // timedelta(seconds=1)
"""Within Python's calendar wherever one is; no zone changes in the days around."""
_INTEGER = re.compile(r"[+-]?[0-9]+")
_NANOSECONDS_PER_MINUTE = 60_000_000_000


def seconds_east(zone: str, seconds: int) -> int:
    """The seconds that a zone is ahead of UTC, so many seconds after 1970.

    Args:
        zone: an IANA name, or hours and minutes: `Europe/Berlin`, `-01:30`.
        seconds: since 1970-01-01T00:00:00Z.

    Raises:
        CelRuntimeError: unknown zone, with Go's error text.

    Source: cel-go common/stdlib/standard.go, inTimeZone.
    """
    hours, colon, minutes = zone.partition(":")
    if colon:
        return _fixed_offset(_integer(hours), _integer(minutes), is_west=hours.startswith("-"))
    if zone in _UTC_NAMES:
        return 0
    moment = _EPOCH + timedelta(seconds=max(_FIRST, min(seconds, _LAST)))
    offset = moment.astimezone(_zone_info(zone)).utcoffset() or timedelta()
    return offset // timedelta(seconds=1)


def _fixed_offset(hours: int, minutes: int, *, is_west: bool) -> int:
    """Hours and minutes as seconds, with the overflows of Go's 64 bits."""
    offset = wrap_int64(hours * 60 - minutes if is_west else hours * 60 + minutes)
    nanoseconds = wrap_int64(offset * _NANOSECONDS_PER_MINUTE)
    whole, fraction = divmod(abs(nanoseconds), 1_000_000_000)
    return int(float(whole) + float(fraction) / 1e9) * (-1 if nanoseconds < 0 else 1)


def _integer(text: str) -> int:
    """As Go's strconv.Atoi."""
    if not _INTEGER.fullmatch(text):
        raise CelRuntimeError(f"strconv.Atoi: parsing {quoted_text(text)}: invalid syntax")
    digits = text.lstrip("+-").lstrip("0")
    number = int(digits or "0") if len(digits) < 20 else 2**64
    number = -number if text.startswith("-") else number
    if not INT64_MIN <= number <= INT64_MAX:
        raise CelRuntimeError(f"strconv.Atoi: parsing {quoted_text(text)}: value out of range")
    return number


@lru_cache(maxsize=64)
def _zone_info(name: str) -> ZoneInfo:
    if ".." in name or name.startswith(("/", "\\")):
        raise CelRuntimeError("time: invalid location name")
    if "\0" in name:
        raise CelRuntimeError("invalid argument")
    file = resources.files("tzdata").joinpath("zoneinfo", *name.split("/"))
    try:
        stream = file.open("rb")
    except FileNotFoundError:
        raise CelRuntimeError(f"unknown time zone {name}") from None
    except OSError as error:
        raise CelRuntimeError((error.strerror or "").lower()) from None
    with stream:
        if name.endswith("/"):
            raise CelRuntimeError("not a directory")
        if stream.read(len(_MAGIC)) != _MAGIC:
            raise CelRuntimeError("malformed time zone information")
        stream.seek(0)
        return ZoneInfo.from_file(stream, name)


NANOSECONDS_PER_SECOND = 1_000_000_000

_LONGEST = 256
"""In characters. Go reads on for ever; what is longer than this is refused, because reading is charged as one step."""

_RFC_3339 = re.compile(r"(\d{4})-(\d\d)-(\d\d)T(\d\d?):(\d\d):(\d\d)(?:[.,](\d+))?(?:Z|([+-])(\d\d):(\d\d))", re.ASCII)
"""Go accepts more under this name than the RFC: hours of one digit, and a comma before the fraction."""
_LARGEST_OFFSET_HOUR = 24
_LARGEST_OFFSET_MINUTE = 60
"""Go's comment: "some people do write offsets of 24 hours or 60 minutes"."""

_DURATION_PART = re.compile(r"([0-9]*)(?:(\.)([0-9]*))?([^.0-9]*)")
_UNITS = {
    "ns": 1,
    "us": 1_000,
    "\u00b5s": 1_000,
    "\u03bcs": 1_000,
    "ms": 1_000_000,
    "s": NANOSECONDS_PER_SECOND,
    "m": 60 * NANOSECONDS_PER_SECOND,
    "h": 3600 * NANOSECONDS_PER_SECOND,
}
_LIMIT = 2**63


def parse_timestamp(text: str) -> tuple[int, int] | None:
    """Nanoseconds since 1970 and seconds east of UTC of an RFC 3339 text; None if it is not one.

    Source: Go's time.Parse with time.RFC3339, its leniency included. Whether the year is one CEL allows is not checked.
    """
    match = _RFC_3339.fullmatch(text) if len(text) <= _LONGEST else None
    if match is None:
        return None
    year, month, day, hour, minute, second = (int(match[group]) for group in range(1, 7))
    if not (1 <= month <= 12 and 1 <= day <= days_in_month(year, month)) or hour > 23 or minute > 59 or second > 59:
        return None
    offset = 0
    if match[8]:
        hours, minutes = int(match[9]), int(match[10])
        if hours > _LARGEST_OFFSET_HOUR or minutes > _LARGEST_OFFSET_MINUTE:
            return None
        offset = (hours * 3600 + minutes * 60) * (-1 if match[8] == "-" else 1)
    seconds = days_since_epoch(year, month, day) * SECONDS_PER_DAY + hour * 3600 + minute * 60 + second - offset
    return seconds * NANOSECONDS_PER_SECOND + int((match[7] or "")[:9].ljust(9, "0")), offset


def timestamp_text(nanoseconds: int, offset: int) -> str:
    """RFC 3339 with as many digits of a fraction as there are, in the zone it was written in.

    Source: Go's time.RFC3339Nano.
    """
    date, time = _date_and_time(nanoseconds, offset)
    return f"{date}T{time}{_zone(offset, ':') if offset else 'Z'}"


def go_timestamp_text(nanoseconds: int, offset: int) -> str:
    """A timestamp as Go prints a time.Time in some messages: `1970-01-01 00:00:00 +0000 UTC`."""
    date, time = _date_and_time(nanoseconds, offset)
    zone = _zone(offset, "")
    return f"{date} {time} {zone} {zone if offset else 'UTC'}"


def _date_and_time(nanoseconds: int, offset: int) -> tuple[str, str]:
    seconds, fraction = divmod(nanoseconds, NANOSECONDS_PER_SECOND)
    shown = civil_time(seconds + offset)
    digits = f".{fraction:09d}".rstrip("0") if fraction else ""
    date = f"{shown.year:04d}-{shown.month:02d}-{shown.day:02d}"
    return date, f"{shown.hour:02d}:{shown.minute:02d}:{shown.second:02d}{digits}"


def _zone(offset: int, colon: str) -> str:
    minutes = abs(offset) // 60
    return f"{'-' if offset < 0 else '+'}{minutes // 60:02d}{colon}{minutes % 60:02d}"


def parse_duration(text: str) -> int | None:
    """The nanoseconds of a text such as `1h30m` or `-1.5ms`; None for other text, or beyond 64 bits.

    Source: Go's time.ParseDuration.
    """
    if len(text) > _LONGEST:
        return None
    is_negative = text.startswith("-")
    rest = text[1:] if text[:1] in ("-", "+") else text
    if rest == "0":
        return 0
    if not rest:
        return None
    total = 0
    position = 0
    while position < len(rest):
        part = _DURATION_PART.match(rest, position)
        nanoseconds = None if part is None else _part_of_duration(part)
        if part is None or nanoseconds is None:
            return None
        total += nanoseconds
        if total > _LIMIT:
            return None
        position = part.end()
    if is_negative:
        return -total
    return None if total == _LIMIT else total


def _part_of_duration(part: re.Match[str]) -> int | None:
    whole, _, fraction, name = part.groups()
    unit = _UNITS.get(name)
    if unit is None or not (whole or fraction):
        return None
    value = int(whole or "0")
    if value > _LIMIT // unit:
        return None
    value *= unit
    if fraction:
        numerator, scale = _leading_fraction(fraction)
        value += int(float(numerator) * (float(unit) / scale))
    return None if value > _LIMIT else value


def _leading_fraction(digits: str) -> tuple[int, float]:
    """As many digits of a fraction as fit into 64 bits, and what they have to be divided by."""
    value = 0
    scale = 1.0
    for digit in digits:
        longer = value * 10 + int(digit)
        if value > (_LIMIT - 1) // 10 or longer > _LIMIT:
            break
        value = longer
        scale *= 10
    return value, scale


def duration_text(nanoseconds: int) -> str:
    """Seconds with the fewest digits that identify the double: `5400s`, `0.0015s`.

    Source: cel-go common/types/duration.go, ConvertToType.
    """
    whole, fraction = divmod(abs(nanoseconds), NANOSECONDS_PER_SECOND)
    seconds = float(whole) + float(fraction) / 1e9
    shown = f"{Decimal(repr(seconds)):f}".removesuffix(".0")
    return f"{'-' if nanoseconds < 0 else ''}{shown}s"


def go_duration_text(nanoseconds: int) -> str:
    """A duration as Go prints a time.Duration in some messages: `1h0m0s`, `1.5ms`."""
    sign = "-" if nanoseconds < 0 else ""
    size = abs(nanoseconds)
    if size < NANOSECONDS_PER_SECOND:
        unit = next((unit for unit in ("ms", "\u00b5s") if size >= _UNITS[unit]), "ns")
        return f"{sign}{_quotient(size, _UNITS[unit])}{unit}" if size else "0s"
    minutes, rest = divmod(size, _UNITS["m"])
    hours = f"{minutes // 60}h" if minutes >= 60 else ""
    return f"{sign}{hours}{f'{minutes % 60}m' if minutes else ''}{_quotient(rest, _UNITS['s'])}s"


def _quotient(number: int, unit: int) -> str:
    whole, rest = divmod(number, unit)
    digits = str(rest).zfill(len(str(unit)) - 1).rstrip("0")
    return f"{whole}.{digits}" if rest else str(whole)


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


def _field(name: str, id_: str, read: Callable[[CivilTime], int], zoned: str = "_with_tz") -> tuple[Overload, Overload]:
    """A method of timestamps, in UTC and in a time zone."""

    def run(moment: Timestamp, zone: str = "UTC") -> int:
        return read(civil_time(moment.seconds + seconds_east(zone, moment.seconds)))

    return member(name, id_, (TIMESTAMP,), INT, run), member(name, id_ + zoned, (TIMESTAMP, STRING), INT, run)


LIBRARY: tuple[Overload, ...] = (
    *_field("getFullYear", "timestamp_to_year", lambda civil: civil.year),
    *_field("getMonth", "timestamp_to_month", lambda civil: civil.month - 1),
    *_field("getDayOfYear", "timestamp_to_day_of_year", lambda civil: civil.day_of_year),
    *_field("getDayOfMonth", "timestamp_to_day_of_month", lambda civil: civil.day - 1),
    *_field("getDate", "timestamp_to_day_of_month_1_based", lambda civil: civil.day),
    *_field("getDayOfWeek", "timestamp_to_day_of_week", lambda civil: civil.day_of_week),
    *_field("getHours", "timestamp_to_hours", lambda civil: civil.hour),
    member("getHours", "duration_to_hours", (DURATION,), INT, partial(_in_units, _UNITS["h"])),
    *_field("getMinutes", "timestamp_to_minutes", lambda civil: civil.minute),
    member("getMinutes", "duration_to_minutes", (DURATION,), INT, partial(_in_units, _UNITS["m"])),
    *_field("getSeconds", "timestamp_to_seconds", lambda civil: civil.second, zoned="_tz"),
    member("getSeconds", "duration_to_seconds", (DURATION,), INT, partial(_in_units, _UNITS["s"])),
    member("getMilliseconds", "timestamp_to_milliseconds", (TIMESTAMP,), INT, _milliseconds),
    member("getMilliseconds", "timestamp_to_milliseconds_with_tz", (TIMESTAMP, STRING), INT, _milliseconds),
    member("getMilliseconds", "duration_to_milliseconds", (DURATION,), INT, _duration_milliseconds),
)
"""Source: cel-go common/stdlib/standard.go."""
