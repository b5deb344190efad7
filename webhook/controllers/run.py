"""Periodic tasks of the leader, each with its own period; none of them ends by itself."""

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


class IncompleteRound(Exception):  # noqa: N818 - the name is a statement
    """A round could not finish, and the rest is tried again; the text says what is left, and why."""


@dataclass(frozen=True, slots=True)
class PeriodicTask:
    """A task that is repeated."""

    name: str
    """For logs and metrics: `templates-repair`."""
    round: Callable[[], Awaitable[None]]
    """Does it once. Errors are counted, and logged if they are new; then the next round starts sooner."""
    every: float
    """Seconds from the end of a round to the start of the next."""
    limit: float = 600.0
    """Seconds after which a round is cancelled and counts as failed."""


async def run_tasks(
    tasks: Sequence[PeriodicTask],
    metrics: ControllerMetrics,
    *,
    clockwork: Clockwork = Clockwork(),  # noqa: B008 - it is immutable
) -> None:
    """Run all tasks until cancelled; the first round of each starts at once.

    Args:
        tasks: The tasks, with unique names.
        metrics: Counts rounds by task.
        clockwork: Time and randomness.
    """
    async with asyncio.TaskGroup() as group:
        for task in tasks:
            group.create_task(_repeat(task, metrics, clockwork), name=task.name)


async def _repeat(task: PeriodicTask, metrics: ControllerMetrics, clockwork: Clockwork) -> None:
    failures, trouble = 0, ""
    while True:
        trouble = await _round(task, trouble, metrics, clockwork)
        failures = failures + 1 if trouble else 0
        # After a failure the next round starts sooner, so that a short outage does not cost a whole period.
        retry = min(_FIRST_RETRY * 2 ** min(failures - 1, 32), _LONGEST_RETRY) if failures else task.every
        await clockwork.sleep(clockwork.with_jitter(min(retry, task.every)))


async def _round(task: PeriodicTask, before: str, metrics: ControllerMetrics, clockwork: Clockwork) -> str:
    """Do a task once; returns the error or an empty text. The same error as `before` is not logged."""
    began = clockwork.clock()
    try:
        async with asyncio.timeout(task.limit) as limit:
            await task.round()
    except Exception as error:
        trouble = f"was cut off after {task.limit:g} seconds" if limit.expired() else f"failed: {error}"
        # Only defects are logged with a traceback.
        trace = None if limit.expired() or isinstance(error, ClusterError | IncompleteRound) else error
        _logger.log(logging.DEBUG if trouble == before else logging.ERROR, "%s %s", task.name, trouble, exc_info=trace)
        metrics.count_round(task.name, "failed", clockwork.clock() - began)
        return trouble
    metrics.count_round(task.name, "done", clockwork.clock() - began)
    metrics.set_last(task.name, clockwork.now())
    return ""
