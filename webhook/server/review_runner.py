"""Runs short reviews in the event loop, and long ones in a thread, in turns.

Python runs one thread at a time. A computing thread delays the event loop by at most the interpreter's switch interval in
each turn, and it pauses as long as it works.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from policies.kubernetes.bounds import TooMuchWork, Work, bounded_by
from webhook.server.turns import Busy, Deadline, Turns, run_spread

if TYPE_CHECKING:
    from collections.abc import Callable

    from webhook.server.turns import Payer

__all__ = ["IN_LOOP", "LARGEST_IN_LOOP", "LedgerRunner", "ReviewRunner", "Run"]

T = TypeVar("T")

IN_LOOP = 15_000
"""Units of work that a review may take in the event loop, about 15 ms; steps too small to be counted come to
as much, and no review is to hold the loop for more than 50 ms."""
LARGEST_IN_LOOP = 32 * 1024
"""Bytes of a body that is reviewed in the event loop. Rules walk over an object several times, at the worst for a
microsecond a byte."""
_LEDGER_SECONDS = "30s"
_NOBODY = ("", "")


class ReviewRunner:
    """Runs short reviews in the event loop and long ones in threads."""

    def __init__(
        self,
        turns: Turns | None = None,
        *,
        count: Callable[[], None] = lambda: None,
        work_clock: Callable[[], float] = time.thread_time,
    ) -> None:
        """Create a runner.

        Args:
            turns: The queue for long reviews.
            count: Called for each review that runs in a thread.
            work_clock: Returns the seconds of work of the current thread.
        """
        self._turns = turns or Turns()
        self._count = count
        self._work_clock = work_clock

    def for_call(self, body: bytes, deadline: Deadline, payer: Payer = _NOBODY) -> Run:
        """The runner for the work of one call."""
        return Run(self, deadline, payer, is_long=len(body) > LARGEST_IN_LOOP)

    async def run(
        self,
        work: Callable[[], T],
        deadline: Deadline,
        payer: Payer = _NOBODY,
        *,
        is_long: bool = False,
        in_loop: Work | None = None,
    ) -> T:
        """Return or raise what `work` does.

        Args:
            work: A function without side effects; may be called twice.
            deadline: Deadline of the call.
            payer: The payer of the time.
            is_long: True if the work is known to be too long for the event loop.
            in_loop: The work that may be done in the event loop; None for `IN_LOOP`.

        Raises:
            Busy: the turn of the payer would come too late.
            TimeoutError: the deadline passed.
        """
        if not is_long and not self._turns.runs_aside(payer):
            try:
                with bounded_by(in_loop or Work(IN_LOOP)):
                    return self._measure(work, partial(self._turns.charge, payer))
            except TooMuchWork:
                pass
        await self._turns.take(payer, deadline)
        self._count()
        spent = list[float]()

        def finish() -> None:
            self._turns.charge(payer, sum(spent))
            self._turns.release()

        return await run_spread(partial(self._measure, work, spent.append), deadline.remaining, finish)

    def _measure(self, work: Callable[[], T], charge: Callable[[float], None]) -> T:
        began = self._work_clock()
        try:
            return work()
        finally:
            charge(self._work_clock() - began)


class LedgerRunner:
    """Runs the computations of charging and counting; their length depends on the namespace."""

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        """Create a runner; `clock` returns monotonic seconds."""
        self._runner = ReviewRunner()
        self._clock = clock

    async def __call__(self, namespace: str, work: Callable[[], T]) -> T:
        """Return or raise what `work` does; see `ReviewRunner.run`.

        Raises:
            TimeoutError: the work, or the wait for its turn, took too long.
        """
        try:
            return await self._runner.run(work, Deadline.start(self._clock, _LEDGER_SECONDS), (namespace, ""))
        except Busy as error:
            raise TimeoutError from error


@dataclass(frozen=True, slots=True)
class Run:
    """Runs the work of one call."""

    runner: ReviewRunner
    deadline: Deadline
    payer: Payer
    is_long: bool
    """True if the object is too large to be reviewed in the event loop."""
    in_loop: Work = field(default_factory=lambda: Work(IN_LOOP))
    """The work that the whole call may do in the event loop."""

    def part(self, parts: int) -> Run:
        """The runner for one of so many equal parts of the time left, less the time to answer."""
        return Run(self.runner, self.deadline.part(parts), self.payer, is_long=self.is_long, in_loop=self.in_loop)

    async def __call__(self, work: Callable[[], T]) -> T:
        """Return or raise what `work` does; see `ReviewRunner.run`."""
        return await self.runner.run(work, self.deadline, self.payer, is_long=self.is_long, in_loop=self.in_loop)
