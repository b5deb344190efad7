"""The lag of the event loop: the longest time between two of its turns."""

from __future__ import annotations

import asyncio
import contextlib
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


_PAUSE = 0.005


class LoopLag:
    """Measures lag while it is entered.

    A machine that others use delays a loop too. So a delay counts only as far as this process used the processor in it,
    in any thread: a thread that holds the interpreter's lock delays the loop like the loop's own work.
    """

    def __init__(self) -> None:
        self.longest = 0.0
        """Milliseconds."""
        self.turns: list[float] = []

    @contextlib.asynccontextmanager
    async def measure(self) -> AsyncIterator[LoopLag]:
        """Measure until the end of the context."""
        task = asyncio.create_task(self._turn())
        try:
            yield self
        finally:
            task.cancel()
            self.longest = max(self.turns, default=0.0)

    async def _turn(self) -> None:
        while True:
            wall, cpu = time.perf_counter(), time.process_time()
            await asyncio.sleep(_PAUSE)
            delay = min(time.perf_counter() - wall - _PAUSE, time.process_time() - cpu)
            self.turns.append(delay * 1000)
