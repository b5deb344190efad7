"""Reading from an API server, with a record of when the server last answered."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Mapping

    from webhook.cluster.client import APIClient

__all__ = ["Contact", "Reader"]


class Contact:
    """A reader for one reflector that records when the API server last answered; bookmarks count."""

    def __init__(self, client: Reader, clock: Callable[[], float]) -> None:
        self._client = client
        self._clock = clock
        self.last: float | None = None
        """The time of the last answer, by the clock; None before the first."""
        self.lists = 0
        """Lists that were started; a list of many pages counts once."""

    async def get(self, path: str, query: Mapping[str, str] | None = None, *, timeout: float = 10.0) -> Any:
        """As the client's."""
        self.lists += "continue" not in (query or {})
        answer = await self._client.get(path, query, timeout=timeout)
        self.last = self._clock()
        return answer

    async def watch(
        self,
        path: str,
        query: Mapping[str, str] | None = None,
        *,
        read_timeout: float,
        on_open: Callable[[], None] | None = None,
    ) -> AsyncGenerator[dict[str, Any]]:
        """As the client's."""

        def on_open_too() -> None:
            self.last = self._clock()
            if on_open is not None:
                on_open()

        events = self._client.watch(path, query, read_timeout=read_timeout, on_open=on_open_too)
        async with contextlib.aclosing(events):
            async for event in events:
                self.last = self._clock()
                yield event


Reader: TypeAlias = "APIClient | Contact"
"""What lists and watches read from."""
