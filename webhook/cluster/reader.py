"""What may be read from an API server: documents and watches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Mapping

__all__ = ["Reader"]


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
