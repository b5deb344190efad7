"""Breath: long work in a thread that leaves room for the answers to reviews."""

from __future__ import annotations

import threading
import time

__all__ = ["Breath"]

_WORK, _REST = 0.005, 0.005
"""Seconds. Python computes in one thread at a time, so work rests as long as it lasts, and reviews come in between."""


class Breath:
    """Rests between the steps of work in a thread, and ends it when nobody waits for it any more."""

    def __init__(self) -> None:
        self._stopped = threading.Event()
        self._since = time.monotonic()

    def stop(self) -> None:
        """Let the work end at its next step."""
        self._stopped.set()

    def __call__(self) -> None:
        """Take a breath where it is time for one; it ends the work when nobody waits for it."""
        if time.monotonic() - self._since >= _WORK:
            self._stopped.wait(_REST)
            self._since = time.monotonic()
        if self._stopped.is_set():
            raise _StoppedError


class _StoppedError(Exception):
    """Nobody waits for the result."""
