"""Dates and times of day on the Gregorian calendar, for every year: Python's own end where Go's do not."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["SECONDS_PER_DAY", "CivilTime", "civil_time", "days_in_month", "days_since_epoch"]

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
    """What calendar and clock show so many seconds after 1970-01-01T00:00:00, on the spot where that is said."""
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
