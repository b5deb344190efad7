"""Periodic tasks: what the leader does again and again, each at its own pace; none of them ends by itself."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

from webhook.cluster.clockwork import Clockwork
from webhook.cluster.errors import ClusterError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from webhook.controllers.metrics import ControllerMetrics

__all__ = ["IncompleteRound", "PeriodicTask", "run_tasks"]

_logger = logging.getLogger("gpu_admission.controllers")

_FIRST_RETRY = 1.0
_LONGEST_RETRY = 300.0


class IncompleteRound(Exception):  # noqa: N818 - the name says what is wrong; "Error" would only say it twice
    """A round that could not do all of its work; the rest is tried again. Its text says what is left, and why."""


@dataclass(frozen=True, slots=True)
class PeriodicTask:
    """Something to be done every so often."""

    name: str
    """For logs and metrics: `templates-repair`."""
    round: Callable[[], Awaitable[None]]
    """Does it once; what it raises is counted, is logged if it is something new, and the next round comes sooner."""
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
    failures, trouble = 0, ""
    while True:
        trouble = await _round(task, trouble, metrics, clockwork)
        failures = failures + 1 if trouble else 0
        # A failed round is not what sets the pace: the trouble of a moment should not cost a whole period.
        retry = min(_FIRST_RETRY * 2 ** min(failures - 1, 32), _LONGEST_RETRY) if failures else task.every
        await clockwork.sleep(clockwork.with_jitter(min(retry, task.every)))


async def _round(task: PeriodicTask, before: str, metrics: ControllerMetrics, clockwork: Clockwork) -> str:
    """Do a task once; what went wrong, or an empty text. `before` is what went wrong the last time, which is logged once."""
    began = clockwork.clock()
    try:
        async with asyncio.timeout(task.limit) as limit:
            await task.round()
    except Exception as error:
        trouble = f"was cut off after {task.limit:g} seconds" if limit.expired() else f"failed: {error}"
        # A trace is for mistakes of ours.
        trace = None if limit.expired() or isinstance(error, ClusterError | IncompleteRound) else error
        _logger.log(logging.DEBUG if trouble == before else logging.ERROR, "%s %s", task.name, trouble, exc_info=trace)
        metrics.count_round(task.name, "failed", clockwork.clock() - began)
        return trouble
    metrics.count_round(task.name, "done", clockwork.clock() - began)
    metrics.set_last(task.name, clockwork.now())
    return ""
