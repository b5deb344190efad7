"""Keeping a view of a cluster up to date: a store and a reflector for everything that is watched."""

from __future__ import annotations

import asyncio
import gc
import logging
from typing import TYPE_CHECKING

from webhook.cluster.caches import Cache, CacheMetrics, notes_of, reason_of, unlisted_of
from webhook.cluster.clockwork import Pace
from webhook.cluster.live import LiveView
from webhook.cluster.reader import Contact
from webhook.cluster.reflector import Reflector
from webhook.cluster.server_version import ServerVersion
from webhook.cluster.trimmed import store_of
from webhook.cluster.watched_kinds import watched

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from webhook.cluster.reader import Reader
    from webhook.cluster.store import State
    from webhook.cluster.watched_kinds import Watched

__all__ = ["PausedCollector", "Sync"]

_GLANCE_SECONDS = 1.0
_CATCH_UP_SECONDS = 0.02

_logger = logging.getLogger("gpu_admission.cluster")


class Sync:
    """The view of a running cluster, from the first list on for as long as it is not closed.

    Ready means one complete sync since the start; of a kind that fails to be listed for a minute, while others can be,
    nothing is known then, rather than that nobody could be sent here after a restart. What comes later, an API server that is away or a right that is taken
    from us, makes facts unknown and is told in notes and metrics, but empties no Service.
    """

    def __init__(self, client: Reader, *, pace: Pace | None = None) -> None:
        """Args: whom to ask, and how long to wait for what."""
        self._client = client
        self._pace = pace or Pace()
        self._clock = self._pace.clockwork.clock
        self._collector = PausedCollector()
        self._caches: dict[Watched, Cache] = {}
        self._version = ServerVersion(client, sleep=self._pace.clockwork.sleep)
        self._asking: asyncio.Task[None] | None = None
        self._glancing: asyncio.Task[None] | None = None
        self._began = self._clock()
        self._complete = asyncio.Event()
        self.view = LiveView(clock=self._clock)

    @property
    def metrics(self) -> CacheMetrics:
        """What to register with the metrics of the server."""
        return CacheMetrics(lambda: self.caches, self._clock)

    @property
    def caches(self) -> Iterable[Cache]:
        """Everything that is watched now."""
        return tuple(self._caches.values())

    def start(self, operator_namespaces: Iterable[str]) -> None:
        """Begin to list and watch, in the loop that runs.

        Args:
            operator_namespaces: Where the GPU Operator may run.
        """
        self._collector.begin()
        self._asking = asyncio.create_task(self._version.ask_for_ever(self.view.set_server_version))
        self._asking.add_done_callback(_log_end)
        self._began = self._clock()
        self._glancing = asyncio.create_task(self._glance())
        self.look_into(operator_namespaces)

    def look_into(self, operator_namespaces: Iterable[str]) -> None:
        """Watch these namespaces of the GPU Operator from now on, and no longer what was watched in others."""
        wanted = watched(operator_namespaces)
        if self._caches.keys() == set(wanted):
            return
        for gone in self._caches.keys() - set(wanted):
            self._caches.pop(gone).task.cancel()
        for each in wanted:
            if each not in self._caches:
                self._caches[each] = self._begin(each)
        self.view.show((each, cache.store) for each, cache in self._caches.items())
        self._complete_if_so()

    async def first(self) -> None:
        """Wait until everything was listed once, or was said to be forbidden or not served, or is gone on without."""
        await self._complete.wait()

    async def caught_up(self, seconds: float) -> None:
        """Wait until the first word has come of everything that is watched by now, for so many seconds at most."""
        end = self._clock() + seconds
        while any(cache.is_awaited for cache in self.caches) and self._clock() < end:
            await self._pace.clockwork.sleep(_CATCH_UP_SECONDS)

    def reason(self) -> str:
        """Why nobody should be sent here yet; empty once the first sync is complete."""
        if self._complete.is_set():
            return ""
        return reason_of([(each.watched, each.store) for each in self.caches]) or "nothing was listed yet"

    def notes(self) -> list[str]:
        """What is not known, and why: for the administrator."""
        stores = [(each.watched, each.store) for each in self.caches]
        unlisted = unlisted_of(stores) if self._complete.is_set() else []
        return unlisted + notes_of(stores, self.view, self._clock())

    async def close(self) -> None:
        """Stop watching; what the view shows grows old from now on."""
        self._collector.end(keep=False)
        tasks = [cache.task for cache in self.caches] + [task for task in (self._asking, self._glancing) if task]
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
            on_state=self._entered,
            pace=self._pace,
        )
        task = asyncio.create_task(_for_ever(reflector), name=f"watch {each.words}")
        task.add_done_callback(_log_end)
        return Cache(each, store, contact, task)

    def _entered(self, state: State, reason: str) -> None:
        self._complete_if_so()

    def _complete_if_so(self) -> None:
        waiting = [cache for cache in self.caches if cache.store.state == "waiting"]
        if self._complete.is_set() or (waiting and not self._goes_on_without(waiting)):
            return
        self._complete.set()
        self._collector.end(keep=True)
        _logger.info("the cluster was read: %d objects", sum(len(cache.store) for cache in self.caches))

    def _goes_on_without(self, waiting: Sequence[Cache]) -> bool:
        """Whether others are known, and these have failed for long enough. Everything asks about namespaces."""
        if self._clock() < self._began + self._pace.patience:
            return False
        return not any(cache.is_awaited or cache.watched.kind == "Namespace" for cache in waiting)

    async def _glance(self) -> None:
        """Look now and then, since time passes without anybody telling."""
        while not self._complete.is_set():
            await self._pace.clockwork.sleep(_GLANCE_SECONDS)
            self._complete_if_so()


async def _for_ever(reflector: Reflector) -> None:
    await reflector.run()


def _log_end(task: asyncio.Task[None]) -> None:
    if not task.cancelled():
        _logger.critical("a kind is no longer watched", exc_info=task.exception())


_LONGEST_SECONDS = 60.0


class PausedCollector:
    """Keeps the collector from looking at a cluster again and again while it is read, which takes longer than reading.

    What is read is JSON, which has no cycles. So that cycles of other origin are collected if there is no API server for
    hours, the pause ends after a minute at the latest.
    """

    def __init__(self) -> None:
        self._ends: asyncio.TimerHandle | None = None

    def begin(self) -> None:
        """Pause, in the loop that runs."""
        gc.disable()
        self._ends = asyncio.get_running_loop().call_later(_LONGEST_SECONDS, gc.enable)

    def end(self, *, keep: bool) -> None:
        """Go on collecting.

        Args:
            keep: Whether what there is now stays, and is never looked at again.
        """
        if self._ends is None:
            return
        self._ends.cancel()
        self._ends = None
        gc.enable()
        if keep:
            gc.freeze()
