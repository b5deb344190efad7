"""Turns: expensive reviews of one namespace do not slow the others down.

Reviews that are too long for the event loop run in another thread, one at a time. Each waits for its turn here. Callers
go in turns, because one that is not known can name another namespace with each call; of one caller, the namespace that
has used the least goes first. A namespace that had several long reviews has all of them run there for a
minute, since finding out in the event loop that a review is long takes time as well.

A namespace may use a quarter of a replica's time, and half a second at once. Beyond that its claims are not compared with
the cluster.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from webhook.server.deadlines import Deadline

__all__ = ["LARGE_BODIES", "Busy", "Payer", "Turns"]

LARGE_BODIES = "large bodies"
"""The namespace that pays for parsing a large body, if the body does not begin like that of an API server."""

Payer = tuple[str, str]
"""Whose share a review uses: a namespace, empty for all cluster-scoped objects, and the address of a caller that has shown
no known certificate: it may have made the namespace up."""

_SHARE = 0.25
"""Seconds of work for each second."""
_AT_ONCE = 0.5
"""Seconds of work that a payer may save up, and that it may owe."""
_FEWEST_TO_FORGET = 1024
"""With more payers than this, those that can be forgotten are dropped."""
_SHORT = 0.003
"""Seconds of work of a short review; a conversion takes half a millisecond."""
_MOST_EXCESS = 0.06
"""Seconds by which the reviews of a payer may be longer than that, before all run aside. One that meets Python's garbage
collection takes some milliseconds more than the others."""
_EXCESS_FORGIVEN = 0.02
"""Seconds of this for each second."""
_ASIDE_SECONDS = 60.0
"""For how long the reviews of a payer run aside."""
_ANSWER_SECONDS = 0.5
"""Seconds of the deadline that are reserved for the review itself."""


class Busy(Exception):  # noqa: N818 - the name says what is wrong; "Error" would only say it twice
    """A review would get its turn too late."""


@dataclass(slots=True)
class _Share:
    refilled: float
    left: float = _AT_ONCE
    is_used_up: bool = False
    excess: float = 0.0
    aside_until: float = 0.0

    def refill(self, now: float) -> None:
        passed = now - self.refilled
        self.left = min(self.left + passed * _SHARE, _AT_ONCE)
        self.excess = max(self.excess - passed * _EXCESS_FORGIVEN, 0.0)
        self.refilled = now
        self.is_used_up = self.is_used_up and self.left <= _AT_ONCE / 2

    @property
    def is_new(self) -> bool:
        """True if it is like that of a payer that was never seen."""
        return self.left >= _AT_ONCE and not self.excess and self.refilled >= self.aside_until


class Turns:
    """The shares that payers have used, and the queue for long reviews."""

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        """Begin with full shares.

        Args:
            clock: Returns monotonic seconds.
        """
        self._clock = clock
        self._shares: dict[Payer, _Share] = {}
        """Of payers that used something. A used share is never forgotten before it has come back: otherwise a caller with
        many names could use more. The number is bounded, because each entry took work."""
        self._forget_at = _FEWEST_TO_FORGET
        self._waiting: dict[Payer, deque[asyncio.Future[None]]] = {}
        self._is_taken = False
        self._turns_given = 0
        self._last_turns: dict[str, int] = {}
        """Of callers that wait, the number of the turn that they had last, or of the last one before they came."""

    def is_used_up(self, payer: Payer) -> bool:
        """True if a payer has used its share. It has one again once half of it has come back."""
        return self._share(payer).is_used_up

    def runs_aside(self, payer: Payer) -> bool:
        """True if all reviews of a payer run aside."""
        share = self._share(payer)
        return share.refilled < share.aside_until

    def charge(self, payer: Payer, seconds: float) -> None:
        """Note that a payer has used so many seconds of work."""
        share = self._shares[payer] = self._share(payer)
        share.left = max(share.left - seconds, -_AT_ONCE)
        share.is_used_up = share.is_used_up or share.left <= 0
        share.excess += max(seconds - _SHORT, 0.0)
        if share.excess > _MOST_EXCESS:
            share.excess = _MOST_EXCESS
            share.aside_until = share.refilled + _ASIDE_SECONDS
        if len(self._shares) > self._forget_at:
            self._shares = {payer: share for payer in self._shares if not (share := self._share(payer)).is_new}
            self._forget_at = 2 * len(self._shares) + _FEWEST_TO_FORGET

    async def take(self, payer: Payer, deadline: Deadline) -> None:
        """Wait for the turn. The caller must give it back with `release`.

        Raises:
            Busy: It would come too late.
        """
        if not self._is_taken:
            self._is_taken = True
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        # A newcomer goes behind those that wait: two callers that return again and again must not keep out a third.
        self._last_turns.setdefault(payer[1], self._turns_given)
        self._waiting.setdefault(payer, deque()).append(turn)
        try:
            async with asyncio.timeout(max(deadline.remaining - _ANSWER_SECONDS, 0)):
                await turn
        except BaseException as error:
            if turn.cancelled():
                self._leave(payer, turn)
            else:
                self.release()
            if isinstance(error, TimeoutError):
                raise Busy from error
            raise

    def release(self) -> None:
        """Give the turn to the caller whose last one is oldest, and to its payer with the most time left."""
        while self._waiting:
            payer = max(self._waiting, key=lambda payer: (-self._last_turns[payer[1]], self._share(payer).left))
            turn = self._waiting[payer][0]
            self._leave(payer, turn)
            if turn.cancelled():  # by a caller that hung up, whose task did not run since
                continue
            self._turns_given += 1
            waiting = {caller for _, caller in self._waiting}
            last_turns = {**self._last_turns, payer[1]: self._turns_given}
            self._last_turns = {caller: number for caller, number in last_turns.items() if caller in waiting}
            turn.set_result(None)
            return
        self._last_turns.clear()
        self._is_taken = False

    def _share(self, payer: Payer) -> _Share:
        """What a payer has left now; one that used nothing is not remembered."""
        now = self._clock()
        share = self._shares.get(payer)
        if share is None:
            return _Share(now)
        share.refill(now)
        return share

    def _leave(self, payer: Payer, turn: asyncio.Future[None]) -> None:
        """Take a turn out of the queue, unless `release` has done so."""
        waiting = self._waiting.get(payer, deque())
        if turn in waiting:
            waiting.remove(turn)
            if not waiting:
                del self._waiting[payer]
