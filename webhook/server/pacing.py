"""Pacing: long work in a thread that rests now and then, so that the event loop can answer."""

from __future__ import annotations

import threading
import time
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from policies.work import counted_by
from webhook.server.aside import run_aside

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Pacer", "run_spread", "spread"]

T = TypeVar("T")

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
