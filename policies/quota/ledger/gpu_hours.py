"""GPU hours: what a quota counts, summed over time into days."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from fractions import Fraction
from typing import TYPE_CHECKING, Any, NamedTuple

from policies.kubernetes.objects import lookup
from policies.quota.ledger.open_charges import ZERO
from policies.quota.ledger.status import GarbageError, read_amount

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from policies.kubernetes.objects import Object


class GPUKind(NamedTuple):
    """The GPUs whose hours are one sum."""

    namespace: str
    product: str
    """As labels spell it; empty if it is unknown."""
    profile: str
    """The MIG profile; empty for whole GPUs and their shares."""


GPUs = Mapping[GPUKind, Fraction]
"""Numbers of GPUs, or seconds of GPUs."""

OTHERS = GPUKind("", "other", "")
"""All kinds of a day beyond the first ones, in one sum."""

MOST_KINDS = 16
"""The kinds of a day, `OTHERS` among them."""
MOST_DAYS = 32
UNCERTAIN = timedelta(minutes=10)
"""The longest time that no replica counted and that is not a gap: the amounts before it go on through it."""
WRITTEN_EVERY = timedelta(minutes=5)
"""After so long the sums of a quota that holds GPUs are written, also if nothing changed."""

_LONGEST = 120_000
"""Characters of the text; the CRD allows 131,072."""
_DAY = timedelta(days=1)
_LAST_YEAR = 9000
"""Later dates cannot be reckoned with."""


@dataclass(frozen=True, slots=True)
class Day:
    """The GPU seconds of one day in UTC."""

    day: date
    seconds: GPUs
    gap: int = 0
    """Seconds in which no replica counted; there are no GPU seconds for them."""


@dataclass(frozen=True, slots=True)
class GPUHours:
    """The GPU seconds of a quota by day and kind; immutable."""

    until: datetime
    """The time up to which they are summed, in UTC and whole seconds."""
    now: GPUs
    """The GPUs that the quota has counted since then."""
    days: tuple[Day, ...] = ()
    """The newest last: at most `MOST_DAYS` with GPU seconds, and as many with gaps only; others are missing."""

    @classmethod
    def read(cls, document: Object | None) -> GPUHours | None:
        """The GPU hours in the status of a GPUQuota or GPUQuotaGroup; None if there are none that can be read."""
        text = lookup(document, ("status", "hours"))
        return cls.of_text(text) if isinstance(text, str) else None

    @classmethod
    def of_text(cls, text: str) -> GPUHours | None:
        """The GPU hours that `text` wrote; None if it did not write this."""
        try:
            found = json.loads(text)
            kinds = [GPUKind(*(_short_text(each) for each in kind)) for kind in found["kinds"]]
            days = [
                Day(date.fromisoformat(day), _amounts(kinds, seconds), int(gap)) for day, gap, seconds in found["days"]
            ]
            until = datetime.fromisoformat(found["until"]).astimezone(UTC)
            if max([until.date(), *(each.day for each in days)]).year > _LAST_YEAR:
                return None
            return cls(until, _amounts(kinds, found["now"]), _newest(days))
        except (ValueError, TypeError, LookupError, OverflowError, RecursionError):
            return None

    @property
    def text(self) -> str:
        """The GPU hours as `status.hours` has them: JSON in which days name kinds by their place in one list."""
        kinds = list(dict.fromkeys([*self.now, *(kind for day in self.days for kind in day.seconds)]))
        places = {kind: place for place, kind in enumerate(kinds)}
        document = {
            "until": f"{self.until:%Y-%m-%dT%H:%M:%SZ}",
            "now": _texts(places, self.now),
            "days": [[str(each.day), each.gap, _texts(places, each.seconds)] for each in self.days],
            "kinds": kinds,
        }
        text = json.dumps(document, separators=(",", ":"))
        if len(text) <= _LONGEST:
            return text
        return replace(self, days=self.days[1:]).text if self.days else replace(self, now={}).text

    def is_due(self, time: datetime) -> bool:
        """True if the sums must be written although the amounts are the same."""
        return bool(self.now) and time - self.until >= WRITTEN_EVERY

    def with_count(self, gpus: GPUs, time: datetime, known: datetime) -> GPUHours:
        """The GPU hours after a count.

        The amounts of the count before it are summed up to its time. If the clock was set back by up to a day, nothing is summed
        until it has caught up.

        Args:
            gpus: Those that are counted now.
            time: Now, in UTC.
            known: The time up to which the amounts of the last count are known to have stayed the same.
        """
        return replace(self.up_to(time, known), now=_most_kinds(gpus))

    def up_to(self, time: datetime, known: datetime) -> GPUHours:
        """The GPU hours up to a time; arguments as `with_count` takes them.

        The time from `known` to now is a gap if it is longer than `UNCERTAIN`.
        """
        time = time.astimezone(UTC).replace(microsecond=0)
        if time <= self.until:
            # By a day: a clock was far ahead. It must not stop the sums until that time comes.
            return self if self.until - time <= _DAY else replace(self, until=time)
        sure = max(self.until, min(known.astimezone(UTC).replace(microsecond=0), time))
        sure = time if time - sure <= UNCERTAIN else sure
        days = {each.day: each for each in self.days}
        for day, seconds in _seconds_by_day(self.until, sure) if self.now else ():
            days[day] = _with_seconds(days.get(day, Day(day, {})), self.now, seconds)
        for day, seconds in _seconds_by_day(sure, time):
            before = days.get(day, Day(day, {}))
            days[day] = replace(before, gap=before.gap + seconds)
        return GPUHours(time, self.now, _newest(days.values()))

    def since(self, first: date) -> tuple[Day, ...]:
        """The days from one on."""
        return tuple(each for each in self.days if each.day >= first)

    def growth(self, before: GPUHours | None) -> GPUs:
        """The GPU seconds beyond those of earlier GPU hours of the same quota."""
        old = {} if before is None else {each.day: each.seconds for each in before.days}
        grown: dict[GPUKind, Fraction] = {}
        for each in self.days:
            for kind, seconds in each.seconds.items():
                grown[kind] = grown.get(kind, ZERO) + seconds - old.get(each.day, {}).get(kind, ZERO)
        return {kind: seconds for kind, seconds in grown.items() if seconds > 0}


def _newest(days: Iterable[Day]) -> tuple[Day, ...]:
    """The newest days. One leap of a clock brings gaps only, which push out no GPU seconds."""
    ordered = sorted(days, key=lambda each: each.day)
    kept = [each for each in ordered if each.seconds][-MOST_DAYS:]
    kept += [each for each in ordered if not each.seconds][-MOST_DAYS:]
    return tuple(sorted(kept, key=lambda each: each.day))


def total_seconds(days: Iterable[Day]) -> dict[GPUKind, Fraction]:
    """The GPU seconds of some days together, the most first."""
    found: dict[GPUKind, Fraction] = {}
    for each in days:
        for kind, seconds in each.seconds.items():
            found[kind] = found.get(kind, ZERO) + seconds
    return dict(sorted(found.items(), key=lambda item: (-item[1], item[0])))


def _seconds_by_day(start: datetime, end: datetime) -> Iterator[tuple[date, int]]:
    """The seconds between two times by day in UTC, of the last `MOST_DAYS` days."""
    start = max(start, end - MOST_DAYS * _DAY)
    while start < end:
        midnight = start.replace(hour=0, minute=0, second=0) + _DAY
        stop = min(midnight, end)
        yield start.date(), int((stop - start).total_seconds())
        start = stop


def _with_seconds(day: Day, gpus: GPUs, seconds: int) -> Day:
    """The day with some seconds of GPUs; of kinds that are new, the largest get a sum of their own."""
    sums = dict(day.seconds)
    for kind, amount in sorted(gpus.items(), key=lambda item: (-item[1], item[0])):
        named = kind if kind in sums or len(sums.keys() - {OTHERS}) < MOST_KINDS - 1 else OTHERS
        sums[named] = sums.get(named, ZERO) + amount * seconds
    return replace(day, seconds=sums)


def _most_kinds(gpus: GPUs) -> GPUs:
    """The GPUs of the largest kinds, and of the others in one number."""
    ordered = sorted(((kind, amount) for kind, amount in gpus.items() if amount), key=lambda item: (-item[1], item[0]))
    kept, rest = ordered[: MOST_KINDS - 1], ordered[MOST_KINDS - 1 :]
    return dict(kept) | ({OTHERS: sum((amount for _, amount in rest), ZERO)} if rest else {})


def _texts(places: Mapping[GPUKind, int], amounts: GPUs) -> dict[str, str]:
    return {str(places[kind]): str(amount) for kind, amount in amounts.items()}


def _amounts(kinds: list[GPUKind], texts: Any) -> GPUs:
    return {kinds[int(place)]: read_amount(text) for place, text in texts.items()}


def _short_text(value: Any) -> str:
    if not isinstance(value, str):
        raise GarbageError("a kind of GPUs must be texts")
    value.encode()  # Half a surrogate pair is an error: /metrics could not be written with it.
    return value[:253]
