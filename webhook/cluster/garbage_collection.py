"""Pauses of the garbage collector while many objects are created, none of which is garbage."""

from __future__ import annotations

import asyncio
import gc
from functools import partial

__all__ = ["CollectionPause", "TimedCollectionPause"]

_LONGEST_SECONDS = 60.0


class CollectionPause:
    """Disables the garbage collector within a `with` statement, unless it is disabled already.

    Each collection would traverse all objects of the process, for tens of milliseconds in which no other thread runs.
    """

    __slots__ = ("_was_enabled",)

    # Not a generator with @contextmanager: leaving one creates objects, which would start a collection at once.
    def __enter__(self) -> None:
        self._was_enabled = gc.isenabled()
        gc.disable()

    def __exit__(self, *_: object) -> None:
        if self._was_enabled:
            gc.enable()


class TimedCollectionPause:
    """Disables the garbage collector while the cluster is read, for a minute at most.

    Collections would take longer than the reading. The objects that are read are JSON without cycles. The pause has a limit,
    so that cycles of other objects are collected even if the API server is down for hours. What was read by then is excluded
    from collections: each would traverse it, and hold the event loop for half a second.
    """

    def __init__(self) -> None:
        self._ends: asyncio.TimerHandle | None = None

    def begin(self) -> None:
        """Start the pause, in the running event loop."""
        gc.disable()
        self._ends = asyncio.get_running_loop().call_later(_LONGEST_SECONDS, partial(self.end, keep=True))

    def end(self, *, keep: bool) -> None:
        """End the pause; with `keep`, all current objects are excluded from future collections."""
        if self._ends is None:
            return
        self._ends.cancel()
        self._ends = None
        if keep:
            gc.freeze()
        gc.enable()
