"""Reads of an API server that several commands share: calls in parallel, and its clock."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, TypeVar

from policies.preflight.clocks import Clock
from webhook.cluster.errors import APIError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    from webhook.cluster.client import APIClient

__all__ = ["in_parallel", "read_clock"]

Item = TypeVar("Item")
Result = TypeVar("Result")

_MOST_AT_ONCE = 6
"""Requests that are sent at a time."""


async def in_parallel(call: Callable[[Item], Awaitable[Result]], items: Iterable[Item]) -> list[Result]:
    """The results of a call for each item, in their order, a few at a time."""
    limit = asyncio.Semaphore(_MOST_AT_ONCE)

    async def run(item: Item) -> Result:
        async with limit:
            return await call(item)

    return [*await asyncio.gather(*map(run, items))]


async def read_clock(client: APIClient) -> Clock | None:
    """The clock of the API server and the local one; None if it sends no Date, or refuses."""
    before = datetime.now(UTC)
    try:
        answer = await client.answer("GET", "/version")
    except APIError as error:
        if error.is_forbidden:
            return None
        raise
    after = datetime.now(UTC)
    date = answer.headers.get("Date")
    return Clock(parsedate_to_datetime(date), before, after) if date else None
