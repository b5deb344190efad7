"""Loop lag: how late the event loop runs what is due.

One thread answers all calls, so work that holds the event loop delays every caller. A probe is due every 100 ms; the time
by which it is late is what a call that arrives at that moment waits before anything looks at it.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from typing import NoReturn

__all__ = ["measure_loop_lag"]

_INTERVAL = 0.1


async def measure_loop_lag(
    observe: Callable[[float], None],
    *,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> NoReturn:
    """Report the lag of the event loop ten times a second, until cancelled.

    Args:
        observe: Called with seconds, at each probe.
        clock: Returns seconds that never go back.
        sleep: Waits for some seconds.
    """
    while True:
        due = clock() + _INTERVAL
        await sleep(_INTERVAL)
        observe(max(clock() - due, 0.0))
