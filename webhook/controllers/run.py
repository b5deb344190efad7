"""Periodic tasks: what the leader does again and again, each at its own pace; none of them ends by itself."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

from webhook.cluster.clockwork import Clockwork

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from webhook.controllers.metrics import ControllerMetrics

__all__ = ["PeriodicTask", "run_tasks"]

_logger = logging.getLogger("gpu_admission.controllers")

_FIRST_RETRY = 1.0
_LONGEST_RETRY = 300.0


@dataclass(frozen=True, slots=True)
class PeriodicTask:
    """Something to be done every so often."""

    name: str
    """For logs and metrics: `templates-repair`."""
    round: Callable[[], Awaitable[None]]
    """Does it once; what it raises is logged and counted, and the next round comes sooner."""
    every: float
    """Seconds from the end of a round to the beginning of the next."""
    limit: float = 600.0
    """Seconds after which a round is cut off and counts as failed."""


async def run_tasks(
    tasks: Sequence[PeriodicTask],
    metrics: ControllerMetrics,
    *,
    clockwork: Clockwork = Clockwork(),  # noqa: B008 - it is immutable
) -> None:
    """Do all tasks, the first round of each at once, until cancelled; then come back when all have ended.

    Args:
        tasks: What to do; names are unique.
        metrics: Counts rounds by task.
        clockwork: Time and chance.
    """
    async with asyncio.TaskGroup() as group:
        for task in tasks:
            group.create_task(_repeat(task, metrics, clockwork), name=task.name)


async def _repeat(task: PeriodicTask, metrics: ControllerMetrics, clockwork: Clockwork) -> None:
    failures = 0
    while True:
        failures = 0 if await _round(task, metrics, clockwork) else failures + 1
        # A failed round is not what sets the pace: the trouble of a moment should not cost a whole period.
        retry = min(_FIRST_RETRY * 2 ** min(failures - 1, 32), _LONGEST_RETRY) if failures else task.every
        await clockwork.sleep(clockwork.jittered(min(retry, task.every)))


async def _round(task: PeriodicTask, metrics: ControllerMetrics, clockwork: Clockwork) -> bool:
    began = clockwork.clock()
    try:
        async with asyncio.timeout(task.limit) as limit:
            await task.round()
    except Exception as error:
        # Whatever it was, the next round is due.
        what = f"was cut off after {task.limit:g} seconds" if limit.expired() else f"failed: {error}"
        _logger.exception("%s %s", task.name, what)
        metrics.count_round(task.name, "failed", clockwork.clock() - began)
        return False
    metrics.count_round(task.name, "done", clockwork.clock() - began)
    metrics.set_last(task.name, clockwork.now())
    return True
