"""Time zones by the names and offsets that CEL's functions of timestamps take.

Zones are those of the package tzdata, not of the machine: the same question has the same answer everywhere. A scheduler
uses the zones of its own image, which may be older.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from importlib import resources
from zoneinfo import ZoneInfo

from policies.dra.cel.errors import CelRuntimeError
from policies.dra.cel.libraries.quoting import quoted

__all__ = ["seconds_east"]

_UTC_NAMES = ("", "UTC", "Local")
"""Go's local zone is UTC in the images Kubernetes ships."""
_MAGIC = b"TZif"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST = (datetime(1, 1, 3, tzinfo=UTC) - _EPOCH) // timedelta(seconds=1)
_LAST = (datetime(9999, 12, 29, tzinfo=UTC) - _EPOCH) // timedelta(seconds=1)
"""Within Python's calendar wherever one is; no zone changes in the days around."""
_INTEGER = re.compile(r"[+-]?[0-9]+")
_LARGEST_INT = 2**63 - 1
_NANOSECONDS_PER_MINUTE = 60_000_000_000


def seconds_east(zone: str, seconds: int) -> int:
    """How far a zone is ahead of UTC, in seconds, so many seconds after 1970.

    Args:
        zone: an IANA name, or hours and minutes: `Europe/Berlin`, `-01:30`.
        seconds: since 1970-01-01T00:00:00Z.

    Raises:
        CelRuntimeError: there is no such zone; in Go's words.

    Source: cel-go common/stdlib/standard.go, inTimeZone.
    """
    hours, colon, minutes = zone.partition(":")
    if colon:
        return _fixed(_integer(hours), _integer(minutes), is_west=hours.startswith("-"))
    if zone in _UTC_NAMES:
        return 0
    moment = _EPOCH + timedelta(seconds=max(_FIRST, min(seconds, _LAST)))
    offset = moment.astimezone(_zone(zone)).utcoffset() or timedelta()
    return offset // timedelta(seconds=1)


def _fixed(hours: int, minutes: int, *, is_west: bool) -> int:
    """Hours and minutes as seconds, with the overflows of Go's 64 bits."""
    offset = _wrapped(hours * 60 - minutes if is_west else hours * 60 + minutes)
    nanoseconds = _wrapped(offset * _NANOSECONDS_PER_MINUTE)
    whole, fraction = divmod(abs(nanoseconds), 1_000_000_000)
    return int(float(whole) + float(fraction) / 1e9) * (-1 if nanoseconds < 0 else 1)


def _wrapped(number: int) -> int:
    return (number + 2**63) % 2**64 - 2**63


def _integer(text: str) -> int:
    """As Go's strconv.Atoi."""
    if not _INTEGER.fullmatch(text):
        raise CelRuntimeError(f"strconv.Atoi: parsing {quoted(text)}: invalid syntax")
    digits = text.lstrip("+-").lstrip("0")
    number = int(digits or "0") if len(digits) < 20 else 2**64
    number = -number if text.startswith("-") else number
    if not -_LARGEST_INT - 1 <= number <= _LARGEST_INT:
        raise CelRuntimeError(f"strconv.Atoi: parsing {quoted(text)}: value out of range")
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
