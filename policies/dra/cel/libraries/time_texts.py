"""Timestamps and durations as text, read and written as Go's package time does it."""

from __future__ import annotations

import re
from decimal import Decimal

from policies.dra.cel.libraries.civil_time import SECONDS_PER_DAY, civil_time, days_in_month, days_since_epoch

__all__ = [
    "NANOSECONDS_PER_SECOND",
    "duration_text",
    "go_duration_text",
    "go_timestamp_text",
    "parse_duration",
    "parse_timestamp",
    "timestamp_text",
]

NANOSECONDS_PER_SECOND = 1_000_000_000

_LONGEST = 256
"""In characters. Go reads on for ever; what is longer than this is refused, because reading is charged as one step."""

_RFC_3339 = re.compile(r"(\d{4})-(\d\d)-(\d\d)T(\d\d?):(\d\d):(\d\d)(?:[.,](\d+))?(?:Z|([+-])(\d\d):(\d\d))", re.ASCII)
"""What Go accepts under this name is more than the RFC: hours of one digit, and a comma before the fraction."""
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
