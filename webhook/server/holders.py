"""Holders: who holds what there is too little of, for those who are refused."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import OrderedDict
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING

from policies.quota.counting.counter import Counter
from policies.quota.counting.counting import holders
from policies.quota.limits.quota import NAME, QuotaError, parse_quota
from webhook.server.pacing import run_spread

if TYPE_CHECKING:
    from collections.abc import Callable

    from policies.quota.charging.messages import Holder
    from policies.settings.choices import Quotas
    from policies.view import ClusterView

__all__ = ["HoldersSeen"]

_BELIEVED_SECONDS = 5.0
"""For how long what was found holds: a controller that is refused tries again at once, and counting the 2,000 pods of a
namespace takes a second."""
_LONGEST_LOOK = 60.0
"""Seconds after which a look is given up."""
_LONGEST_WAIT = 1.0
"""Seconds that a refusal waits for its last words."""
_MOST_REMEMBERED = 64

_logger = logging.getLogger("gpu_admission.quotas")

_Found = tuple["Holder", ...]


@dataclass(frozen=True, slots=True)
class _Look:
    """The last look at one namespace."""

    began: float
    task: asyncio.Task[_Found]
    counter: Counter
    """Remembers what it counted; looks come one after the other, so it is for one thread at a time."""


class HoldersSeen:
    """Finds out who holds something of a namespace's quota, and remembers it for a moment."""

    def __init__(self, view: ClusterView, *, clock: Callable[[], float] = time.monotonic) -> None:
        """Args: the cluster, and what tells seconds that never go back."""
        self._view = view
        self._clock = clock
        self._looks: OrderedDict[str, _Look] = OrderedDict()

    async def look(self, namespace: str, settings: Quotas, seconds: float) -> _Found:
        """Who holds something in a namespace; nobody where that is not found out in time.

        Args:
            namespace: Whose quota.
            settings: How quotas count.
            seconds: That are left.
        """
        task = self._task(namespace, settings)
        done, _ = await asyncio.wait([task], timeout=max(min(seconds, _LONGEST_WAIT), 0))
        return task.result() if done else ()

    def _task(self, namespace: str, settings: Quotas) -> asyncio.Task[_Found]:
        """The last look where that is not over, or not long ago; else another one."""
        last = self._looks.get(namespace)
        if last is not None and (not last.task.done() or self._clock() - last.began < _BELIEVED_SECONDS):
            return last.task
        counter = Counter() if last is None else last.counter
        task = asyncio.create_task(self._found(namespace, settings, counter), name="holders")
        self._looks[namespace] = _Look(self._clock(), task, counter)
        self._looks.move_to_end(namespace)
        if len(self._looks) > _MOST_REMEMBERED:
            self._looks.popitem(last=False)
        return task

    async def _found(self, namespace: str, settings: Quotas, counter: Counter) -> _Found:
        """What a look finds; nobody if it fails: a refusal must not become none because its last words fail."""
        try:
            return await run_spread(partial(self._holders, namespace, settings, counter), _LONGEST_LOOK)
        except QuotaError:
            # The quota has changed since it was charged by.
            return ()
        except Exception:
            _logger.exception("who holds GPUs in %s was not found out", namespace)
            return ()

    def _holders(self, namespace: str, settings: Quotas, counter: Counter) -> _Found:
        document = self._view.get("GPUQuota", NAME, namespace)
        if not isinstance(document, dict):
            return ()
        now = datetime.now(UTC)
        return holders(namespace, parse_quota(document), self._view, settings, now, counter=counter)
