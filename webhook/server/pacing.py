"""Pacing: runs long work in a thread that pauses regularly, so that the event loop can answer."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from contextvars import copy_context
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from policies.work import Work, bounded_by

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["run_aside", "run_spread"]

T = TypeVar("T")


async def run_aside(work: Callable[[], T], seconds: float, on_end: Callable[[], None]) -> T:
    """Run a function in a new thread and return its result.

    The bounds of work around the call hold in the thread, too (see `policies.work`).
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
