"""Breath: long work in a thread that leaves room for the answers to reviews."""

from __future__ import annotations

import threading
import time
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from policies.work import counted_by
from webhook.server.aside import run_aside

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Breath", "run_spread", "spread"]

T = TypeVar("T")

_WORK, _REST = 0.005, 0.005
"""Seconds. Python computes in one thread at a time, so work rests as long as it lasts, and reviews come in between."""


class Breath:
    """Rests between the steps of work in a thread, and ends the work once `stop` was called."""

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


def spread(work: Callable[[], T], breath: Breath) -> T:
    """Run a function in this thread that rests each time it counts work."""
    with counted_by(lambda _units: breath()):
        return work()


async def run_spread(work: Callable[[], T], seconds: float) -> T:
    """Run a function in a thread that rests each time it counts work, and ends at its next step if nobody waits.

    Raises:
        TimeoutError: There is no result after so many seconds.
    """
    breath = Breath()
    try:
        return await run_aside(partial(spread, work, breath), seconds, lambda: None)
    finally:
        breath.stop()


class _StoppedError(Exception):
    """Nobody waits for the result."""
