"""Python's garbage collector, while millions of objects arrive that stay."""

from __future__ import annotations

import asyncio
import gc

__all__ = ["PausedCollector"]

_LONGEST_SECONDS = 60.0


class PausedCollector:
    """Keeps the collector from looking at a cluster again and again while it is read, which takes longer than reading.

    What is read is JSON, which has no cycles. So that cycles of other origin are collected if there is no API server for
    hours, the pause ends after a minute at the latest.
    """

    def __init__(self) -> None:
        self._ends: asyncio.TimerHandle | None = None

    def begin(self) -> None:
        """Pause, in the loop that runs."""
        gc.disable()
        self._ends = asyncio.get_running_loop().call_later(_LONGEST_SECONDS, gc.enable)

    def end(self, *, keep: bool) -> None:
        """Go on collecting.

        Args:
            keep: Whether what there is now stays, and is never looked at again.
        """
        if self._ends is None:
            return
        self._ends.cancel()
        self._ends = None
        gc.enable()
        if keep:
            gc.freeze()
