"""Polling with a deadline."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable


T = TypeVar("T")
_PAUSE = 0.05


def until(look: Callable[[], T], what: str, seconds: float = 30, *, pause: float = _PAUSE) -> T:
    """Poll until `look` returns a true value, and return it.

    Args:
        look: Returns a true value when the wait is over; it may raise AssertionError before.
        what: The expected state, for the message.
        seconds: The time-out.
        pause: Seconds between two looks, more if a look is expensive.

    Raises:
        AssertionError: After the time-out, with the last result.
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
        time.sleep(pause)


async def until_right(look: Callable[[], Awaitable[str]], seconds: float) -> None:
    """Poll until `look` returns an empty problem, while the loop does other work.

    Args:
        look: Returns the problem; empty without one.
        seconds: The time-out.

    Raises:
        AssertionError: After the time-out, with the last problem.
    """
    wrong = "not checked yet"
    try:
        async with asyncio.timeout(seconds):
            while wrong := await look():  # noqa: ASYNC110 - others change it, and no event says so
                await asyncio.sleep(2 * _PAUSE)
    except TimeoutError:
        raise AssertionError(f"after {seconds:g} seconds: {wrong}") from None
