"""Finds the holders of a namespace's quota, to name them in refusals."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import OrderedDict
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING

from policies.quota.counting.counter import Counter
from policies.quota.counting.counting import holders
from policies.quota.limits.quota import QuotaError, parse_quota
from policies.quota.opt_in import quota_shown
from webhook.server.pacing import run_spread

if TYPE_CHECKING:
    from collections.abc import Callable

    from policies.quota.charging.messages import Holder
    from policies.settings.choices import Quotas
    from policies.view import ClusterView

__all__ = ["HoldersSeen"]

_CACHE_SECONDS = 5.0
"""How long a result is cached: a refused controller retries at once, and counting the 2,000 pods of a namespace takes a
second."""
_LONGEST_LOOK = 60.0
"""Seconds after which a search is stopped."""
_LONGEST_WAIT = 1.0
"""Seconds that a refusal waits for the holders."""
_MOST_REMEMBERED = 64

_logger = logging.getLogger("gpu_admission.quotas")

_Found = tuple["Holder", ...]


@dataclass(frozen=True, slots=True)
class _Look:
    """The last search in one namespace."""

    began: float
    task: asyncio.Task[_Found]
    counter: Counter
    """Caches what it counted. Only one search runs at a time, so only one thread uses it."""


@dataclass(eq=False)
class HoldersSeen:
    """Finds the holders of a namespace's quota and caches them for a few seconds."""

    view: ClusterView
    clock: Callable[[], float] = time.monotonic
    """Returns monotonic seconds."""
    _looks: OrderedDict[str, _Look] = field(default_factory=OrderedDict, init=False)

    async def look(self, namespace: str, settings: Quotas, seconds: float) -> _Found:
        """The holders in a namespace; empty if they are not found in time.

        Args:
            namespace: Namespace of the quota.
            settings: How quotas count.
            seconds: Seconds to wait at most.
        """
        task = self._task(namespace, settings)
        done, _ = await asyncio.wait([task], timeout=max(min(seconds, _LONGEST_WAIT), 0))
        return task.result() if done else ()

    def _task(self, namespace: str, settings: Quotas) -> asyncio.Task[_Found]:
        """The last search if it is running or recent; otherwise a new one."""
        last = self._looks.get(namespace)
        if last is not None and (not last.task.done() or self.clock() - last.began < _CACHE_SECONDS):
            return last.task
        counter = Counter() if last is None else last.counter
        task = asyncio.create_task(self._found(namespace, settings, counter), name="holders")
        self._looks[namespace] = _Look(self.clock(), task, counter)
        self._looks.move_to_end(namespace)
        if len(self._looks) > _MOST_REMEMBERED:
            self._looks.popitem(last=False)
        return task

    async def _found(self, namespace: str, settings: Quotas, counter: Counter) -> _Found:
        """The holders; empty after an error, because the refusal is correct without them."""
        try:
            return await run_spread(partial(self._holders, namespace, settings, counter), _LONGEST_LOOK)
        except QuotaError:
            # The quota has changed since the charge.
            return ()
        except Exception:
            _logger.exception("the holders of GPUs in %s could not be determined", namespace)
            return ()

    def _holders(self, namespace: str, settings: Quotas, counter: Counter) -> _Found:
        document = quota_shown(namespace, self.view)
        if document is None:
            return ()
        now = datetime.now(UTC)
        return holders(namespace, parse_quota(document), self.view, settings, now, counter=counter)
