"""Pacing: long work in a thread that rests now and then, so that the event loop can answer."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from policies.work import counted_by

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Pacer", "run_aside", "run_spread", "spread"]

T = TypeVar("T")


async def run_aside(work: Callable[[], T], seconds: float, ended: Callable[[], None]) -> T:
    """Run a function in a thread of its own, and wait for its result as long as it is of use.

    Nobody can stop a thread from outside: the function itself has to see that its time is over. A daemon's thread keeps
    no process from ending.

    Args:
        work: What to run.
        seconds: How long to wait.
        ended: What to call, in the loop, once the function has come to its end, which may be after its time.

    Raises:
        TimeoutError: there is no result yet.
        RuntimeError: there can be no more threads.
    """
    loop = asyncio.get_running_loop()
    result: asyncio.Future[T] = loop.create_future()
    try:
        threading.Thread(target=_run, args=(work, loop, result, ended), daemon=True).start()
    except RuntimeError:
        ended()
        raise
    try:
        await asyncio.wait([result], timeout=max(seconds, 0))
        if not result.done():
            raise TimeoutError
        return result.result()
    finally:
        result.cancel()


def _run(
    work: Callable[[], T], loop: asyncio.AbstractEventLoop, result: asyncio.Future[T], ended: Callable[[], None]
) -> None:
    with contextlib.suppress(RuntimeError):  # from a loop that has ended meanwhile
        try:
            value = work()
        except Exception as error:  # noqa: BLE001 - whoever waits is told, whatever it is
            loop.call_soon_threadsafe(_settle, result, partial(result.set_exception, error))
        else:
            loop.call_soon_threadsafe(_settle, result, partial(result.set_result, value))
        finally:
            loop.call_soon_threadsafe(ended)


def _settle(result: asyncio.Future[T], settle: Callable[[], None]) -> None:
    """Settle the result, unless nobody waits for it any more."""
    if not result.done():
        settle()


_WORK, _REST = 0.005, 0.005
"""Seconds. Python computes in one thread at a time, so work rests as long as it ran, and reviews run in between."""


class Pacer:
    """Lets work in a thread rest between its steps, and ends it once `stop` was called."""

    def __init__(self) -> None:
        self._stopped = threading.Event()
        self._since = time.monotonic()

    def stop(self) -> None:
        """Let the work end at its next step."""
        self._stopped.set()

    def __call__(self) -> None:
        """Rest if the work has gone on for long enough; end the work if it was stopped."""
        if time.monotonic() - self._since >= _WORK:
            self._stopped.wait(_REST)
            self._since = time.monotonic()
        if self._stopped.is_set():
            raise _StoppedError


def spread(work: Callable[[], T], pacer: Pacer) -> T:
    """Run a function in this thread that rests each time it counts work."""
    with counted_by(lambda _units: pacer()):
        return work()


async def run_spread(work: Callable[[], T], seconds: float) -> T:
    """Run a function in a thread that rests each time it counts work, and ends at its next step if the caller stops waiting.

    Raises:
        TimeoutError: There is no result after so many seconds.
    """
    pacer = Pacer()
    try:
        return await run_aside(partial(spread, work, pacer), seconds, lambda: None)
    finally:
        pacer.stop()


class _StoppedError(Exception):
    """The work was stopped, because its result is no longer needed."""
