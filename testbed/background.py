"""An event loop in a thread: what runs beside the scenarios, which are plain functions and wait for answers."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Coroutine

__all__ = ["Background"]


class Background:
    """Runs coroutines for callers of any thread."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="cluster", daemon=True)
        self._thread.start()

    def run(self, coroutine: Coroutine[Any, Any, Any], seconds: float = 60) -> Any:
        """What a coroutine returns or raises; it ends when nobody waits for it any more."""
        running = asyncio.run_coroutine_threadsafe(coroutine, self._loop)
        try:
            return running.result(seconds)
        finally:
            running.cancel()

    def begin(self, coroutine: Coroutine[Any, Any, Any]) -> None:
        """Let a coroutine run until it ends, or everything does."""
        asyncio.run_coroutine_threadsafe(coroutine, self._loop)

    def close(self) -> None:
        """End what still runs, and the thread."""
        self.run(_end_all())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


async def _end_all() -> None:
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
