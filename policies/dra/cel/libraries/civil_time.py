"""Dates and times of day on the Gregorian calendar, for every year, and time zones by name and offset.

Zones are those of the package tzdata, not of the machine: the same question has the same answer everywhere. A scheduler
uses the zones of its own image, which may be older.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from importlib import resources
from typing import NamedTuple
from zoneinfo import ZoneInfo

from policies.dra.cel.errors import CelRuntimeError
from policies.dra.cel.libraries.printing import quoted_text
from policies.dra.cel.values import wrap_int64
from policies.kubernetes.quantities import INT64_MAX, INT64_MIN

__all__ = ["SECONDS_PER_DAY", "CivilTime", "civil_time", "days_in_month", "days_since_epoch", "seconds_east"]

SECONDS_PER_DAY = 86_400
_DAYS_PER_ERA = 146_097
"""The calendar repeats itself after 400 years."""
_EPOCH_IN_ERA_DAYS = 719_468
"""From March 1st of the year 0, where the counting is easiest, to January 1st of 1970."""
_DAYS_BEFORE_MONTH = (0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334)
_DAYS_IN_MONTH = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
_FEBRUARY = 2


class CivilTime(NamedTuple):
    """What a calendar and a clock show."""

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
    """How many days a month has."""
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
    """How far a zone is ahead of UTC, in seconds, so many seconds after 1970.

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
    offset = moment.astimezone(_zone(zone)).utcoffset() or timedelta()
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
def _zone(name: str) -> ZoneInfo:
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
