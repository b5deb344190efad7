"""Waiting beside others for something that can be seen, with a deadline."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

__all__ = ["until_right"]

_PAUSE = 0.1


async def until_right(look: Callable[[], Awaitable[str]], seconds: float) -> None:
    """Look again and again until nothing is wrong any more.

    Args:
        look: Says what is wrong; nothing where all is well.
        seconds: When to give up.

    Raises:
        AssertionError: With what was wrong last.
    """
    wrong = "nothing was looked at"
    try:
        async with asyncio.timeout(seconds):
            while wrong := await look():  # noqa: ASYNC110 - others change it, and tell nobody
                await asyncio.sleep(_PAUSE)
    except TimeoutError:
        raise AssertionError(f"after {seconds:g} seconds: {wrong}") from None
