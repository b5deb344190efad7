"""Live reports: made once for each audience and change, and shared by all streams of the audience."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, TypeAlias
from weakref import WeakValueDictionary

import orjson

from webhook.cluster.clockwork import Clockwork, rfc3339
from webhook.cluster.watched_kinds import watched_kinds
from webhook.server.turns import LONGEST_SECONDS, Busy, Deadline, Turns, run_spread

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import datetime

    from policies.kubernetes.view import ClusterView
    from policies.outcome import Audience


LARGEST_REPORT = 12 * 1024 * 1024
"""Bytes of one report."""
MOST_BYTES = 48 * 1024 * 1024
"""Bytes of all reports that are kept."""
_SHORTEST_REST = 5.0
"""Seconds between two reports for an audience."""
_REST = 10.0
"""Seconds of rest for each second of CPU, times the number of audiences: reports take a tenth of one CPU at most."""
_OLDEST = 60.0
"""Seconds after which a report is made again even without a change, because it shows ages."""
_UNREAD_SECONDS = 60.0
"""Seconds after which a report that no stream reads is dropped."""

_LATE = "The report was not ready within 30 seconds; try again later, or make it with gpu-admission report."
_TOO_LARGE = "The report is larger than 12 MiB; sign in to one namespace."
_NO_ROOM = "Too many large reports are open; try again later."

_KINDS = tuple(dict.fromkeys(watched.kind for watched in watched_kinds(("",))))
"""Every kind that a report can depend on."""


class ReportUnavailableError(Exception):
    """There is no report now; a retry may succeed. The text is one sentence for the user."""


ReportParts: TypeAlias = "Callable[[Audience, datetime], Mapping[str, str]]"
"""Makes the parts of the report as HTML, by their names; called in a thread."""


@dataclass(frozen=True, slots=True)
class LiveReport:
    """A report as the lines of a stream."""

    parts: Mapping[str, bytes]
    """The line of each part, by its name, in the order of the page."""
    time: str
    """When the cluster was read."""

    @property
    def size(self) -> int:
        """The bytes of all lines."""
        return sum(map(len, self.parts.values()))


@dataclass(slots=True)
class _KeptReport:
    report: LiveReport
    mark: object
    made_at: float
    rests_until: float
    read_at: float


class _Failure(NamedTuple):
    """The reason why the last report for an audience was not made."""

    error: Exception
    rests_until: float


@dataclass(eq=False)
class LiveReports:
    """Makes reports one at a time in a thread that pauses for reviews; namespaces take turns."""

    view: ClusterView
    """The cluster, which says when something has changed."""
    make_parts: ReportParts
    """Makes the parts of a report."""
    observe: Callable[[float], None]
    """Called with the seconds that a report took."""
    clockwork: Clockwork = field(default_factory=Clockwork)
    """The time."""
    cpu_clock: Callable[[], float] = time.thread_time
    """Returns the seconds of CPU that this thread has used."""
    _turns: Turns = field(init=False)
    _kept: dict[Audience, _KeptReport] = field(default_factory=dict, init=False)
    _failures: dict[Audience, _Failure] = field(default_factory=dict, init=False)
    _locks: WeakValueDictionary[Audience, asyncio.Lock] = field(default_factory=WeakValueDictionary, init=False)

    def __post_init__(self) -> None:
        self._turns = Turns(clock=self.clockwork.clock)

    async def latest(self, audience: Audience) -> LiveReport:
        """The report for an audience; made now if the last one is outdated and made long enough ago.

        Raises:
            ReportUnavailableError: There is none.
        """
        now = self.clockwork.clock()
        self._kept = {each: kept for each, kept in self._kept.items() if kept.read_at >= now - _UNREAD_SECONDS}
        self._failures = {each: failure for each, failure in self._failures.items() if now < failure.rests_until}
        lock = self._locks.setdefault(audience, asyncio.Lock())
        kept = self._kept.get(audience)
        if kept is None or (self._is_due(kept) and not lock.locked()):
            async with lock:
                kept = self._kept.get(audience)
                if kept is None or self._is_due(kept):
                    if audience in self._failures:
                        raise self._failures[audience].error.with_traceback(None)
                    kept = await self._make(audience, kept)
        kept.read_at = self.clockwork.clock()
        return kept.report

    def outdate(self) -> None:
        """Make every report again after its rest: something changed that is not in the view."""
        for kept in self._kept.values():
            kept.mark = None

    def __len__(self) -> int:
        return len(self._kept)

    def _is_due(self, kept: _KeptReport) -> bool:
        now = self.clockwork.clock()
        if now < kept.rests_until:
            return False
        return now >= kept.made_at + _OLDEST or self.view.derive(_change_mark) is not kept.mark

    async def _make(self, audience: Audience, last: _KeptReport | None) -> _KeptReport:
        clock = self.clockwork.clock
        deadline = Deadline(clock, clock(), LONGEST_SECONDS)
        try:
            await self._turns.take(("", audience.namespace), deadline)
        except (Busy, TimeoutError) as error:
            raise ReportUnavailableError(_LATE) from error
        began = clock()
        try:
            return await self._make_in_turn(audience, last, deadline)
        except Exception as error:
            # Clients come back soon, and it would fail again.
            rest = max(_SHORTEST_REST, _REST * (clock() - began))
            self._failures[audience] = _Failure(error, clock() + rest)
            raise

    async def _make_in_turn(self, audience: Audience, last: _KeptReport | None, deadline: Deadline) -> _KeptReport:
        clock = self.clockwork.clock
        try:
            began, mark, now = clock(), self.view.derive(_change_mark), self.clockwork.now()
            lines, cpu_seconds = await run_spread(
                lambda: self._lines(audience, now, last), deadline.remaining, self._turns.release
            )
        except TimeoutError as error:
            raise ReportUnavailableError(_LATE) from error
        report = LiveReport(lines, rfc3339(now))
        if report.size > LARGEST_REPORT:
            raise ReportUnavailableError(_TOO_LARGE)
        others = sum(kept.report.size for each, kept in self._kept.items() if each != audience)
        if report.size + others > MOST_BYTES:
            raise ReportUnavailableError(_NO_ROOM)
        self.observe(clock() - began)
        rest = max(_SHORTEST_REST, _REST * cpu_seconds * len(self._kept.keys() | {audience}))
        kept = self._kept[audience] = _KeptReport(report, mark, began, clock() + rest, clock())
        return kept

    def _lines(self, audience: Audience, now: datetime, last: _KeptReport | None) -> tuple[Mapping[str, bytes], float]:
        """The lines of a report, and the seconds of CPU that they took.

        A line that has not changed is the same object, so memory holds it once.
        """
        began = self.cpu_clock()
        before = {} if last is None else last.report.parts
        parts = self.make_parts(audience, now)
        lines = {name: orjson.dumps({"part": name, "html": html}) + b"\n" for name, html in parts.items()}
        kept = {name: before[name] if before.get(name) == line else line for name, line in lines.items()}
        return kept, self.cpu_clock() - began


def _change_mark(view: ClusterView) -> object:
    """An object that stays the same until a kind changes; call it as `view.derive(_change_mark)`."""
    for kind in _KINDS:
        view.get(kind, "")
    return object()
