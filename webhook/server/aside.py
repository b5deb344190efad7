"""Work aside from the event loop."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from functools import partial
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["run_aside"]

T = TypeVar("T")


async def run_aside(work: Callable[[], T], seconds: float) -> T:
    """Run a function in a thread of its own, and wait for its result as long as it is of use.

    Nobody can stop a thread from outside: the function itself has to see that its time is over. A daemon's thread keeps
    no process from ending.

    Args:
        work: What to run.
        seconds: How long to wait.

    Raises:
        TimeoutError: there is no result yet.
    """
    loop = asyncio.get_running_loop()
    result: asyncio.Future[T] = loop.create_future()
    threading.Thread(target=_run, args=(work, loop, result), daemon=True).start()
    try:
        await asyncio.wait([result], timeout=max(seconds, 0))
        if not result.done():
            raise TimeoutError
        return result.result()
    finally:
        result.cancel()


def _run(work: Callable[[], T], loop: asyncio.AbstractEventLoop, result: asyncio.Future[T]) -> None:
    with contextlib.suppress(RuntimeError):  # from a loop that has ended meanwhile
        try:
            value = work()
        except Exception as error:  # noqa: BLE001 - whoever waits is told, whatever it is
            loop.call_soon_threadsafe(_settle, result, partial(result.set_exception, error))
        else:
            loop.call_soon_threadsafe(_settle, result, partial(result.set_result, value))


def _settle(result: asyncio.Future[T], settle: Callable[[], None]) -> None:
    """Settle the result, unless nobody waits for it any more."""
    if not result.done():
        settle()
