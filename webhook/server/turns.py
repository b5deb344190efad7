"""Turns, pauses and deadlines: expensive reviews of one namespace do not slow the others down."""

from __future__ import annotations

import asyncio
import contextlib
import re
import threading
import time
from collections import deque
from contextvars import copy_context
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import TYPE_CHECKING, TypeVar

from policies.kubernetes.bounds import Work, bounded_by

if TYPE_CHECKING:
    from collections.abc import Callable


DEFAULT_SECONDS = 10.0
"""`timeoutSeconds` of a webhook that names none."""
LONGEST_SECONDS = 30.0
"""The most that `timeoutSeconds` may be."""
_MARGIN = 0.5
_MARGIN_OF_SHORT = 0.1
_TO_ANSWER = 0.25
"""Seconds that parts of a deadline leave for the answer: longer than one review may hold the event loop."""
_TO_ANSWER_SHORT = 0.1

# Go takes both letters mu, and so do we.
_UNITS = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ns": 1e-9}
_TERM = r"([0-9]+\.?[0-9]*|\.[0-9]+)(ms|us|µs|μs|ns|h|m|s)"
_ONE_TERM = re.compile(_TERM)
_DURATION = re.compile(f"(?:{_TERM})+")


class BadDuration(ValueError):  # noqa: N818 - the name says what is wrong; "Error" would only say it twice
    """A text is not a duration."""


@lru_cache(maxsize=64)
def parse_duration(text: str) -> float:
    """Seconds of a duration as Go writes it: `5s`, `1m0s`, `500ms`; none is negative.

    Source: Go's time.ParseDuration.

    Raises:
        BadDuration: The text is not a duration.
    """
    if text == "0":
        return 0.0
    if len(text) > 100 or not _DURATION.fullmatch(text):
        raise BadDuration("The timeout in the query is not a duration; write it as in ?timeout=10s.")
    return sum(float(amount) * _UNITS[unit] for amount, unit in _ONE_TERM.findall(text))


@dataclass(frozen=True, slots=True)
class Deadline:
    """The time by which an answer must be sent."""

    clock: Callable[[], float]
    """Returns monotonic seconds."""
    started: float
    seconds: float
    """From start to deadline."""

    @classmethod
    def start(cls, clock: Callable[[], float], timeout: str | None = None) -> Deadline:
        """Begin a deadline that ends a little before the timeout of the caller.

        Args:
            clock: Returns monotonic seconds.
            timeout: The `timeout` that the API server sends in the query; None if it is missing.

        Raises:
            BadDuration: `timeout` is not a duration.
        """
        seconds = DEFAULT_SECONDS if timeout is None else min(parse_duration(timeout), LONGEST_SECONDS)
        return cls(clock, clock(), seconds - min(_MARGIN, seconds * _MARGIN_OF_SHORT))

    def part(self, parts: int) -> Deadline:
        """The deadline of the first of so many equal parts of the time left, less the time to answer.

        So a call can still be answered after the last part has passed.
        """
        left = max(self.remaining, 0)
        return Deadline(self.clock, self.clock(), (left - min(_TO_ANSWER, left * _TO_ANSWER_SHORT)) / parts)

    def timeout(self, reserved: float) -> asyncio.Timeout:
        """A timeout that ends so many seconds before the deadline, and may have ended already."""
        return asyncio.timeout(max(self.remaining - reserved, 0))

    @property
    def elapsed(self) -> float:
        """Seconds since the start."""
        return self.clock() - self.started

    @property
    def remaining(self) -> float:
        """Seconds until the deadline; negative after it."""
        return self.seconds - self.elapsed

    @property
    def has_passed(self) -> bool:
        """True if an answer would be too late."""
        return self.remaining <= 0


T = TypeVar("T")


async def run_aside(work: Callable[[], T], seconds: float, on_end: Callable[[], None]) -> T:
    """Run a function in a new thread and return its result.

    The bounds of work around the call hold in the thread, too (see `policies.kubernetes.bounds`).
    Python cannot stop a thread from outside, so the function must check its time itself. The thread is a daemon, so that
    it does not keep the process from ending.

    Args:
        work: The function.
        seconds: How long to wait for the result.
        on_end: Called in the event loop when the function has ended, which may be after `seconds`.

    Raises:
        TimeoutError: No result after `seconds`.
        RuntimeError: the system cannot start another thread.
    """
    loop = asyncio.get_running_loop()
    result: asyncio.Future[T] = loop.create_future()
    try:
        threading.Thread(target=copy_context().run, args=(_run, work, loop, result, on_end), daemon=True).start()
    except RuntimeError:
        on_end()
        raise
    try:
        await asyncio.wait([result], timeout=max(seconds, 0))
        if not result.done():
            raise TimeoutError
        return result.result()
    finally:
        result.cancel()
        del result  # its exception has this frame: in a circle, both would keep all that the work is about


def _run(
    work: Callable[[], T], loop: asyncio.AbstractEventLoop, result: asyncio.Future[T], on_end: Callable[[], None]
) -> None:
    with contextlib.suppress(RuntimeError):  # the event loop may be closed by now
        try:
            value = work()
        except Exception as error:  # noqa: BLE001 - any exception is raised in the caller
            loop.call_soon_threadsafe(_settle, result, partial(result.set_exception, error))
        else:
            loop.call_soon_threadsafe(_settle, result, partial(result.set_result, value))
        finally:
            del result  # as above
            loop.call_soon_threadsafe(on_end)


def _settle(result: asyncio.Future[T], settle: Callable[[], None]) -> None:
    """Set the result, unless the caller no longer waits."""
    if not result.done():
        settle()


_WORK, _REST = 0.005, 0.005
"""Seconds. Python runs one thread at a time, so work pauses as long as it ran, and reviews run in between."""


async def run_spread(work: Callable[[], T], seconds: float, on_end: Callable[[], None] = lambda: None) -> T:
    """Run a function as `run_aside` does, in a thread that pauses regularly.

    The function ends at its next step when the caller stops waiting.
    """
    pacer = _Pacer()

    def work_in_turns() -> T:
        with bounded_by(pacer):
            return work()

    try:
        return await run_aside(work_in_turns, seconds, on_end)
    finally:
        pacer.stop()


class _Pacer(Work):
    """Pauses work in a thread at each of its steps, counted or not, and ends it after `stop`."""

    __slots__ = ("_since", "_stopped")

    def __init__(self) -> None:
        super().__init__()
        self._stopped = threading.Event()
        self._since = time.monotonic()

    def stop(self) -> None:
        """End the work at its next step."""
        self._stopped.set()

    def count(self, _units: int) -> None:
        """Pause if the work ran long enough; raise if it was stopped."""
        self.check()

    def check(self) -> None:
        """Pause if the work ran long enough; raise if it was stopped."""
        if time.monotonic() - self._since >= _WORK:
            self._stopped.wait(_REST)
            self._since = time.monotonic()
        if self._stopped.is_set():
            raise _StoppedError


class _StoppedError(Exception):
    """The work was stopped, because its result is no longer needed."""


LARGE_BODIES = "large bodies"
"""The namespace that pays for parsing a large body, if the body does not begin like that of an API server."""

Payer = tuple[str, str]
"""The payer of a review: a namespace, empty for all cluster-scoped objects, and the address of a caller that has shown
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
            async with deadline.timeout(_ANSWER_SECONDS):
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
        """The share that a payer has left now; a payer that used nothing is not remembered."""
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
