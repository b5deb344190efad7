"""Lifecycle: runs a server until a signal stops it."""

from __future__ import annotations

import asyncio
import gc
import resource
import signal
import sys
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

    from webhook.server.listeners import Ready

__all__ = ["Server", "run", "set_up_interpreter"]

_SWITCH_SECONDS = 0.0005
"""The switch interval of threads. With Python's default of 5 ms, reviews take tens of milliseconds longer while something
is explained, and probes while the warm-up runs."""
_COLLECTION_THRESHOLDS = 20_000, 2, 25
"""The objects of a page of a list are fewer, and freed before the next page, so that reading lists starts no collection. With
Python's default of 700, a list of 100,000 pods starts hundreds of full collections, and each traverses all digests."""


class Server(Protocol):
    """A server that `run` starts, drains and closes."""

    async def start(self) -> Ready:
        """Return when the server accepts calls; after cancellation, `close` cleans up."""
        ...

    async def drain(self, hurry: asyncio.Event) -> None:
        """Answer the remaining calls, then return; `hurry` ends the delay."""
        ...

    async def close(self) -> None:
        """Close everything now; may be called more than once."""
        ...


async def run(server: Server, on_ready: Callable[[Ready], None] = lambda _: None) -> None:
    """Run a server until SIGTERM or SIGINT, then drain and close it.

    A second signal ends the delay of draining. A signal before the server has started closes it at once.

    Args:
        server: The server to run.
        on_ready: Called once, when the server accepts calls.

    Raises:
        CannotServe: the certificate is missing, a file cannot be read or written, or a port is taken.
    """
    _allow_all_files()
    set_up_interpreter()
    stop, hurry = asyncio.Event(), asyncio.Event()

    def stop_or_hurry() -> None:
        (hurry if stop.is_set() else stop).set()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop_or_hurry)
    try:
        ready = await _start(server, stop)
        if ready is None:
            return
        # These objects are permanent. Without them, garbage collection takes milliseconds less from the slowest calls.
        gc.collect()
        gc.freeze()
        on_ready(ready)
        await stop.wait()
        await server.drain(hurry)
    finally:
        await server.close()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(number)


def set_up_interpreter() -> None:
    """Set how often threads switch, and how often garbage is collected."""
    sys.setswitchinterval(_SWITCH_SECONDS)
    gc.set_threshold(*_COLLECTION_THRESHOLDS)


def _allow_all_files() -> None:
    """Raise the soft limit of open files, often 1,024, to the hard one: every connection is a file."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


async def _start(server: Server, stop: asyncio.Event) -> Ready | None:
    """Start the server; None if a signal stopped it first."""
    starting, stopping = asyncio.create_task(server.start()), asyncio.create_task(stop.wait())
    try:
        await asyncio.wait({starting, stopping}, return_when=asyncio.FIRST_COMPLETED)
        return await starting if starting.done() else None
    finally:
        for task in (starting, stopping):
            task.cancel()
        await asyncio.wait({starting, stopping})
