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


async def run_aside(work: Callable[[], T], seconds: float, ended: Callable[[], None]) -> T:
    """Run a function in a thread of its own, and wait for its result as long as it is of use.

    Nobody can stop a thread from outside: the function itself has to see that its time is over. A daemon's thread keeps
    no process from ending.

    Args:
        work: What to run.
        seconds: How long to wait.
        ended: What to call, in the loop, once the function has come to its end, which may be after its time.

    Raises:
        TimeoutError: there is no result yet.
        RuntimeError: there can be no more threads.
    """
    loop = asyncio.get_running_loop()
    result: asyncio.Future[T] = loop.create_future()
    try:
        threading.Thread(target=_run, args=(work, loop, result, ended), daemon=True).start()
    except RuntimeError:
        ended()
        raise
    try:
        await asyncio.wait([result], timeout=max(seconds, 0))
        if not result.done():
            raise TimeoutError
        return result.result()
    finally:
        result.cancel()


def _run(
    work: Callable[[], T], loop: asyncio.AbstractEventLoop, result: asyncio.Future[T], ended: Callable[[], None]
) -> None:
    with contextlib.suppress(RuntimeError):  # from a loop that has ended meanwhile
        try:
            value = work()
        except Exception as error:  # noqa: BLE001 - whoever waits is told, whatever it is
            loop.call_soon_threadsafe(_settle, result, partial(result.set_exception, error))
        else:
            loop.call_soon_threadsafe(_settle, result, partial(result.set_result, value))
        finally:
            loop.call_soon_threadsafe(ended)


def _settle(result: asyncio.Future[T], settle: Callable[[], None]) -> None:
    """Settle the result, unless nobody waits for it any more."""
    if not result.done():
        settle()
