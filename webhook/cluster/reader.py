"""Reading from an API server: the interface, and a reader that records when the server last answered."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Mapping

__all__ = ["Contact", "Reader"]


class Reader(Protocol):
    """The part of `APIClient` that lists and watches need."""

    async def get(self, path: str, query: Mapping[str, str] | None = None, *, timeout: float = 10.0) -> Any:
        """One JSON document."""
        ...

    def watch(
        self,
        path: str,
        query: Mapping[str, str] | None = None,
        *,
        read_timeout: float,
        on_open: Callable[[], None] | None = None,
    ) -> AsyncGenerator[dict[str, Any]]:
        """The events of one watch."""
        ...


class Contact:
    """A client for one reflector, which notes what comes of its requests. Bookmarks are contact, too."""

    def __init__(self, client: Reader, clock: Callable[[], float]) -> None:
        """Args: whom to ask, and monotonic seconds."""
        self._client = client
        self._clock = clock
        self.last: float | None = None
        """When something last came, by the clock; None before."""
        self.lists = 0
        """Lists that were begun; one of many pages is one."""

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

        def opened() -> None:
            self.last = self._clock()
            if on_open is not None:
                on_open()

        events = self._client.watch(path, query, read_timeout=read_timeout, on_open=opened)
        async with contextlib.aclosing(events):
            async for event in events:
                self.last = self._clock()
                yield event
