"""Keeps the view of a cluster up to date, with a store and a reflector for each watched resource."""

from __future__ import annotations

import asyncio
import gc
import logging
from functools import partial
from typing import TYPE_CHECKING

from webhook.cluster.caches import Cache, CacheMetrics, cache_notes, reason_not_ready, unlisted_notes
from webhook.cluster.clockwork import Pace
from webhook.cluster.live import LiveView
from webhook.cluster.reader import Contact
from webhook.cluster.reflector import Reflector
from webhook.cluster.server_version import ServerVersion
from webhook.cluster.trimmed import store_of
from webhook.cluster.watched_kinds import watched_kinds

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from webhook.cluster.reader import Reader
    from webhook.cluster.store import Store
    from webhook.cluster.watched_kinds import Watched

__all__ = ["FRESH_SECONDS", "Sync"]

FRESH_SECONDS = 90.0
"""Longer than the minute after which an API server sends a bookmark if nothing has changed."""
_CHECK_SECONDS = 1.0
_CATCH_UP_SECONDS = 0.02

_logger = logging.getLogger("gpu_admission.cluster")


class Sync:
    """The view of a running cluster, from the first list until it is closed.

    Ready means one complete sync since the start. If one kind cannot be listed for a minute while others can, treat it as
    unknown and become ready anyway. A later outage of the API server, or a withdrawn permission, makes facts unknown, and
    appears in notes and metrics; the replica stays ready, so that the Service keeps its endpoints.
    """

    def __init__(self, client: Reader, *, pace: Pace | None = None) -> None:
        self._client = client
        self._pace = pace or Pace()
        self._clock = self._pace.clockwork.clock
        self._collector = PausedCollector()
        self._caches: dict[Watched, Cache] = {}
        self._version = ServerVersion(client, sleep=self._pace.clockwork.sleep)
        self._version_task: asyncio.Task[None] | None = None
        self._patience_task: asyncio.Task[None] | None = None
        self._began = self._clock()
        self._complete = asyncio.Event()
        self.view = LiveView(clock=self._clock)

    @property
    def metrics(self) -> CacheMetrics:
        """The collector to register with the metrics of the server."""
        return CacheMetrics(lambda: self.caches, self._clock)

    @property
    def caches(self) -> Iterable[Cache]:
        """The current caches."""
        return tuple(self._caches.values())

    def start(self, operator_namespaces: Iterable[str]) -> None:
        """Begin to list and watch, in the running event loop.

        Args:
            operator_namespaces: The namespaces in which the GPU Operator may run.
        """
        self._collector.begin()
        self._version_task = asyncio.create_task(self._version.run(self.view.set_server_version))
        self._version_task.add_done_callback(_log_end)
        self._began = self._clock()
        self._patience_task = asyncio.create_task(self._check_until_complete())
        self.watch_operators(operator_namespaces)

    def watch_operators(self, operator_namespaces: Iterable[str]) -> None:
        """Watch these namespaces of the GPU Operator, and no others, from now on."""
        wanted = watched_kinds(operator_namespaces)
        if self._caches.keys() == set(wanted):
            return
        for unwanted in self._caches.keys() - set(wanted):
            self._caches.pop(unwanted).task.cancel()
        for each in wanted:
            if each not in self._caches:
                self._caches[each] = self._begin(each)
        self.view.show((each, cache.store) for each, cache in self._caches.items())
        self._complete_if_listed()

    async def wait_for_first(self) -> None:
        """Wait for the first complete sync: each kind was listed, is forbidden or not served, or is given up."""
        await self._complete.wait()

    async def wait_for_answers(self, seconds: float) -> None:
        """Wait until every cache was listed or has failed, for at most `seconds`."""
        end = self._clock() + seconds
        while any(cache.is_awaited for cache in self.caches) and self._clock() < end:
            await self._pace.clockwork.sleep(_CATCH_UP_SECONDS)

    def is_fresh(self, kind: str) -> bool:
        """True if the caches of a kind are synced, and none was silent for `FRESH_SECONDS`."""
        caches = [cache for cache in self.caches if cache.watched.kind == kind]
        since = self._clock() - FRESH_SECONDS
        return bool(caches) and all(
            cache.store.state == "synced" and cache.contact.last is not None and cache.contact.last > since
            for cache in caches
        )

    def store(self, kind: str) -> Store | None:
        """The cache of a kind that is watched in all namespaces; None before it is watched."""
        return next((cache.store for cache in self.caches if cache.watched.kind == kind), None)

    def reason(self) -> str:
        """Why the replica is not ready; empty once the first sync is complete."""
        if self._complete.is_set():
            return ""
        return reason_not_ready([(each.watched, each.store) for each in self.caches]) or "nothing was listed yet"

    def notes(self) -> list[str]:
        """Which facts are unknown, and why, for the administrator."""
        stores = [(each.watched, each.store) for each in self.caches]
        unlisted = unlisted_notes(stores) if self._complete.is_set() else []
        return unlisted + cache_notes(stores, self.view, self._clock())

    async def close(self) -> None:
        """Stop watching; the view becomes outdated."""
        self._collector.end(keep=False)
        tasks = [cache.task for cache in self.caches]
        tasks += [task for task in (self._version_task, self._patience_task) if task]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _begin(self, each: Watched) -> Cache:
        store = store_of(each, self._clock)
        contact = Contact(self._client, self._clock)
        reflector = Reflector(
            contact,
            each.resource,
            store,
            namespace=each.namespace,
            query=each.query,
            on_state=self._complete_if_listed,
            pace=self._pace,
        )
        task: asyncio.Task[None] = asyncio.create_task(reflector.run(), name=f"watch {each.words}")
        task.add_done_callback(_log_end)
        return Cache(each, store, contact, task)

    def _complete_if_listed(self) -> None:
        waiting = [cache for cache in self.caches if cache.store.state == "waiting"]
        if self._complete.is_set() or (waiting and not self._gives_up(waiting)):
            return
        self._complete.set()
        self._collector.end(keep=True)
        _logger.info("the cluster was read: %d objects", sum(len(cache.store) for cache in self.caches))

    def _gives_up(self, waiting: Sequence[Cache]) -> bool:
        """True if these have failed for long enough; namespaces are always necessary."""
        if self._clock() < self._began + self._pace.patience:
            return False
        return not any(cache.is_awaited or cache.watched.kind == "Namespace" for cache in waiting)

    async def _check_until_complete(self) -> None:
        """Check every second, because no event says that the patience has ended."""
        while not self._complete.is_set():
            await self._pace.clockwork.sleep(_CHECK_SECONDS)
            self._complete_if_listed()


def _log_end(task: asyncio.Task[None]) -> None:
    if not task.cancelled():
        _logger.critical("a kind is no longer watched", exc_info=task.exception())


_LONGEST_SECONDS = 60.0


class PausedCollector:
    """Pauses Python's garbage collector while the cluster is read.

    It would take longer than the reading itself. The objects that are read are JSON without cycles. The pause ends after a
    minute at the latest, so that cycles of other objects are collected even if the API server is down for hours. What was
    read by then is excluded from collections: each would traverse it, and hold the event loop for half a second.
    """

    def __init__(self) -> None:
        self._ends: asyncio.TimerHandle | None = None

    def begin(self) -> None:
        """Start the pause, in the running event loop."""
        gc.disable()
        self._ends = asyncio.get_running_loop().call_later(_LONGEST_SECONDS, partial(self.end, keep=True))

    def end(self, *, keep: bool) -> None:
        """End the pause; with `keep`, all current objects are excluded from future collections."""
        if self._ends is None:
            return
        self._ends.cancel()
        self._ends = None
        if keep:
            gc.freeze()
        gc.enable()
