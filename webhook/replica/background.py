"""Background: what runs beside the answering of calls, for as long as the replica does."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Coroutine
    from typing import Any

__all__ = ["Background"]

_logger = logging.getLogger("gpu_admission.replica")


class Background:
    """Tasks that are not to end before they are told to; one that does is a mistake of ours, and told."""

    def __init__(self) -> None:
        self._tasks: list[asyncio.Task[Any]] = []
        self._ended: list[str] = []

    def begin(self, what: str, coroutine: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Run something; `what` names it in a sentence: `the election`."""
        task = asyncio.create_task(coroutine, name=what)
        task.add_done_callback(self._note)
        self._tasks.append(task)
        return task

    def notes(self) -> list[str]:
        """What has ended by itself."""
        return [
            f"{what} has ended by a mistake of ours; restart this replica, and report its log" for what in self._ended
        ]

    async def close(self) -> None:
        """End everything, the last one first, and wait for each to have ended."""
        while self._tasks:
            task = self._tasks.pop()
            # Told twice, it would be interrupted in what it does on its way out.
            if not task.cancelling():
                task.cancel()
            await asyncio.wait([task])

    def _note(self, task: asyncio.Task[Any]) -> None:
        if not task.cancelled():
            self._ended.append(task.get_name())
            _logger.critical("%s has ended by itself", task.get_name(), exc_info=task.exception())
