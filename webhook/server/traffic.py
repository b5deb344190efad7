"""Traffic: the calls under way, and the end of it."""

from __future__ import annotations

import asyncio
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["Traffic"]


class Traffic:
    """Counts the calls under way, so that a server can wait for the last one.

    aiohttp waits for handlers too when it shuts down, but from then on it drops what connections send: a call whose
    body is still arriving would never be answered.
    """

    def __init__(self, show: Callable[[float], None]) -> None:
        """Begin without calls; `show` is told the number whenever it changes."""
        self._show = show
        self.under_way = 0
        """How many calls are between their head and their answer."""
        self._quiet = asyncio.Event()
        self._quiet.set()
        self.draining = False
        """Whether callers are asked, by `Connection: close`, to come back on another connection."""

    @contextmanager
    def call(self) -> Iterator[None]:
        """One call, from its head to its answer."""
        self._change(1)
        try:
            yield
        finally:
            self._change(-1)

    async def quiet(self, longest: float) -> bool:
        """Wait until no call is under way, at most so many seconds; whether it came to that."""
        try:
            async with asyncio.timeout(longest):
                await self._quiet.wait()
        except TimeoutError:
            return False
        return True

    def _change(self, by: int) -> None:
        self.under_way += by
        self._show(self.under_way)
        if self.under_way:
            self._quiet.clear()
        else:
            self._quiet.set()
