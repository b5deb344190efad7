"""Waiting for something that can be seen, with a deadline."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

__all__ = ["until", "until_right"]

T = TypeVar("T")
_PAUSE = 0.05


def until(look: Callable[[], T], what: str, seconds: float = 30) -> T:
    """Look again and again until there is something to see, and give that.

    Args:
        look: Gives something that is true when the wait is over. A failing assert in it is no end yet.
        what: What is waited for, for the message.
        seconds: When to give up.

    Raises:
        AssertionError: It was not to be seen in time; with what the last look said.
    """
    end = time.monotonic() + seconds
    while True:
        try:
            seen = look()
            said = f"last seen: {seen!r}"
        except AssertionError as error:
            seen, said = None, str(error)
        if seen:
            return seen
        if time.monotonic() > end:
            raise AssertionError(f"{what}: not within {seconds:g} seconds; {said}")
        time.sleep(_PAUSE)


async def until_right(look: Callable[[], Awaitable[str]], seconds: float) -> None:
    """Look again and again until nothing is wrong any more, while the loop does other work.

    Args:
        look: Returns what is wrong; empty if all is well.
        seconds: When to give up.

    Raises:
        AssertionError: With what was wrong last.
    """
    wrong = "nothing was looked at"
    try:
        async with asyncio.timeout(seconds):
            while wrong := await look():  # noqa: ASYNC110 - others change it, and no event says so
                await asyncio.sleep(2 * _PAUSE)
    except TimeoutError:
        raise AssertionError(f"after {seconds:g} seconds: {wrong}") from None
