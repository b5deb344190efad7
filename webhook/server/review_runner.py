"""Where reviews run: short ones in the event loop, long ones aside, in turns.

Python computes in one thread at a time. What a thread computes delays the loop by no more than the interpreter's switch
interval at each of its turns, and the thread rests as long as it works.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from policies.work import Allowance, TooMuchWork, counted_by
from webhook.server.deadlines import Deadline
from webhook.server.pacing import Pacer, run_aside, spread
from webhook.server.turns import Busy, Turns

if TYPE_CHECKING:
    from collections.abc import Callable

    from webhook.server.turns import Payer

__all__ = ["IN_LOOP", "LARGEST_IN_LOOP", "LedgerRunner", "ReviewRunner", "Run"]

T = TypeVar("T")

IN_LOOP = 15_000
"""Units of work that a review may take in the event loop, about 15 ms: beside them, steps too small to be counted come to
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
        """Prepare.

        Args:
            turns: Whose turn it is aside.
            count: Called for each review that runs aside.
            work_clock: Returns the seconds of work of the current thread.
        """
        self._turns = turns or Turns()
        self._count = count
        self._work_clock = work_clock

    def for_call(self, body: bytes, deadline: Deadline, payer: Payer = _NOBODY) -> Run:
        """What runs the work of one call."""
        return Run(self, deadline, payer, is_long=len(body) > LARGEST_IN_LOOP)

    async def run(
        self, work: Callable[[], T], deadline: Deadline, payer: Payer = _NOBODY, *, is_long: bool = False
    ) -> T:
        """What `work` returns or raises.

        Args:
            work: A function of the request and the view, which may be called twice.
            deadline: After which the result is of no use.
            payer: Whose share of the time it uses.
            is_long: Whether it is known to be too long for the event loop.

        Raises:
            Busy: the turn of the payer would come too late.
            TimeoutError: the deadline passed.
        """
        if not is_long and not self._turns.runs_aside(payer):
            try:
                with counted_by(Allowance(IN_LOOP)):
                    return self._measured(work, partial(self._turns.charge, payer))
            except TooMuchWork:
                pass
        await self._turns.take(payer, deadline)
        self._count()
        pacer, spent = Pacer(), list[float]()

        def ended() -> None:
            self._turns.charge(payer, sum(spent))
            self._turns.release()

        try:
            measured = partial(self._measured, partial(spread, work, pacer), spent.append)
            return await run_aside(measured, deadline.remaining, ended)
        finally:
            pacer.stop()

    def _measured(self, work: Callable[[], T], charge: Callable[[float], None]) -> T:
        began = self._work_clock()
        try:
            return work()
        finally:
            charge(self._work_clock() - began)


class LedgerRunner:
    """Runs what charging and counting compute while a ledger waits for it: how much that is depends on its namespace."""

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        """Args: a clock that returns seconds and never goes back."""
        self._runner = ReviewRunner()
        self._clock = clock

    async def __call__(self, namespace: str, work: Callable[[], T]) -> T:
        """What `work` returns or raises; see `ReviewRunner.run`.

        Raises:
            TimeoutError: It took too long, or others did.
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
    """Whether the object is too large to be reviewed in the event loop."""

    async def __call__(self, work: Callable[[], T]) -> T:
        """What `work` returns or raises; see `ReviewRunner.run`."""
        return await self.runner.run(work, self.deadline, self.payer, is_long=self.is_long)
