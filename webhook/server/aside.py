"""Work aside from the event loop, which ends when nobody waits for it any more."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import threading
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["run_aside"]

T = TypeVar("T")


class _Stopped(BaseException):
    """Work is no longer wanted; nothing that the work catches as an error of its own."""


async def run_aside(work: Callable[[], T], seconds: float) -> T:
    """Run a function in a thread of its own, and stop it when its result would come too late.

    The function must be one that can be given up at any line: it computes, and changes nothing that others rely on. A
    daemon's thread keeps no process from ending.

    Args:
        work: What to run.
        seconds: How long to wait.

    Raises:
        TimeoutError: there is no result yet.
    """
    loop = asyncio.get_running_loop()
    result: asyncio.Future[T] = loop.create_future()
    thread = threading.Thread(target=_run, args=(work, loop, result), daemon=True)
    thread.start()
    try:
        await asyncio.wait([result], timeout=max(seconds, 0))
        if not result.done():
            raise TimeoutError
        return result.result()
    finally:
        if not result.done():
            _stop(thread)


def _run(work: Callable[[], T], loop: asyncio.AbstractEventLoop, result: asyncio.Future[T]) -> None:
    with contextlib.suppress(_Stopped, RuntimeError):  # the latter from a loop that has ended meanwhile
        try:
            value = work()
        except Exception as error:  # noqa: BLE001 - whoever waits is told, whatever it is
            loop.call_soon_threadsafe(result.set_exception, error)
        else:
            loop.call_soon_threadsafe(result.set_result, value)


def _stop(thread: threading.Thread) -> None:
    """Raise an exception in a thread, at the next line of Python that it runs."""
    if thread.ident is not None:
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread.ident), ctypes.py_object(_Stopped))
