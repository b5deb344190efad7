"""The caches of watched resources, their metrics, and the notes of `/readyz` about them."""

from __future__ import annotations

import asyncio
import gc
import logging
import math
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, get_args

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from policies.devices.pod_groups import POD_GROUP, names_pod_group
from policies.kubernetes.names import format_count, inflect
from policies.kubernetes.view import UNKNOWN
from webhook.cluster.clockwork import Pace
from webhook.cluster.garbage_collection import CollectionPause
from webhook.cluster.kind_reads import ServerVersion
from webhook.cluster.live import LiveView
from webhook.cluster.reflector import Reflector
from webhook.cluster.store import NOT_LISTED, SENDS_NOTHING, State
from webhook.cluster.trimmed import store_of
from webhook.cluster.watched_kinds import DRA, SELDOM_SERVED, watched_kinds

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from prometheus_client.core import Metric

    from policies.kubernetes.view import ClusterView
    from webhook.cluster.client import APIClient
    from webhook.cluster.store import Store
    from webhook.cluster.watched_kinds import Watched


_LABELS = ("resource", "namespace")
_STATES = get_args(State)


@dataclass(frozen=True, slots=True)
class Cache:
    """The store of a watched resource, and the task that keeps it up to date."""

    watched: Watched
    store: Store
    reflector: Reflector
    task: asyncio.Task[None]

    @property
    def is_awaited(self) -> bool:
        """True until the first list, or its first failure."""
        return self.store.state == "waiting" and self.store.reason == NOT_LISTED


@dataclass(eq=False)
class CacheMetrics(Collector):
    """Gauges and counters of all caches, computed at each scrape; `namespace` is empty for all namespaces."""

    caches: Callable[[], Iterable[Cache]]

    def collect(self) -> Iterable[Metric]:
        """The current metrics."""
        objects = GaugeMetricFamily("gpu_admission_cache_objects", "Cached objects of a resource.", None, _LABELS)
        age = GaugeMetricFamily(
            "gpu_admission_cache_contact_age_seconds",
            "Seconds since the last list, event or bookmark of a resource; missing before the first list.",
            None,
            _LABELS,
        )
        lists = CounterMetricFamily(
            "gpu_admission_cache_lists", "Complete lists of a resource that were started.", None, _LABELS
        )
        states = GaugeMetricFamily(
            "gpu_admission_cache_state", "1 for the state of a cache, 0 for the others.", None, (*_LABELS, "state")
        )
        for cache in self.caches():
            labels = (cache.watched.resource.name, cache.watched.namespace)
            objects.add_metric(labels, len(cache.store))
            lists.add_metric(labels, cache.reflector.lists)
            if math.isfinite(age_seconds := cache.store.silent_seconds):
                age.add_metric(labels, age_seconds)
            for state in _STATES:
                states.add_metric((*labels, state), cache.store.state == state)
        return (objects, age, lists, states)


_SHOWN = 3
_GROUPS = {
    "gpu-admission.io": "our own CRDs are not installed, so all settings have their defaults",
    "monitoring.coreos.com": "the Prometheus Operator is not installed",
    "nvidia.com": "the GPU Operator is not installed",
    "resource.nvidia.com": "NVIDIA's DRA driver is not installed, or runs without ComputeDomains",
}
"""The reason why a whole group may not be served."""

_Stores = list[tuple["Watched", "Store"]]


def reason_not_ready(stores: _Stores) -> str:
    """The reason why the first sync is not complete; empty if it is."""
    waiting = [(watched.words, store.reason) for watched, store in stores if store.state == "waiting"]
    if not waiting:
        return ""
    names, reasons = zip(*waiting, strict=True)
    return f"not listed yet: {_first_of(names)}: {max(reasons, key=reasons.count)}"


def cache_notes(stores: _Stores, view: ClusterView) -> list[str]:
    """Notes about caches that are not up to date, without full stops.

    Args:
        stores: The caches.
        view: The view of these stores.
    """
    return [
        *_absent_notes(stores, view),
        *_lost_notes(stores, view),
        *_forbidden_notes(stores, view),
        *_stale_notes(stores),
    ]


def unlisted_notes(stores: _Stores) -> list[str]:
    """Notes about kinds that could not be listed before the replica became ready, without full stops."""
    return [
        f"treated as unknown, because it cannot be listed: {watched.words}: {store.reason}"
        for watched, store in stores
        if store.state == "waiting" and store.reason != NOT_LISTED
    ]


def _absent_notes(stores: _Stores, view: ClusterView) -> Iterator[str]:
    groups: dict[str, list[bool]] = {}
    for watched, store in stores:
        if watched.resource.group:
            groups.setdefault(watched.resource.group, []).append(store.state == "absent")
    for group, absent in groups.items():
        names = [
            watched.words
            for watched, store in stores
            if watched.resource.group == group and store.state == "absent" and watched.kind not in SELDOM_SERVED
        ]
        if group == DRA and names:
            version = next(watched.resource.version for watched, _ in stores if watched.resource.group == group)
            devices = "there are no devices" if view.list("ResourceSlice") == () else "devices are unknown"
            yield f"no DRA API: the API server does not serve {group}/{version}, so {devices}"
        elif names and all(absent) and group in _GROUPS:
            yield f"not served: {_first_of(names)}; {_GROUPS[group]}"
        elif names:
            yield f"not served: {_first_of(names)}"


def _lost_notes(stores: _Stores, view: ClusterView) -> Iterator[str]:
    """Notes about kinds that were served before, or that pods name although they are not served."""
    for watched, store in stores:
        if store.state != "absent" or watched.kind not in SELDOM_SERVED:
            continue
        counts = view.count_each("Pod", names_pod_group, bool) if watched.kind == POD_GROUP else {}
        members = 0 if counts is UNKNOWN else counts.get(True, 0)
        if not members and not store.was_served:
            continue
        *others, last = watched.resource.versions
        text = f"{watched.words} in {', '.join(others)} or {last}"
        if members:
            text += f", and {format_count(members, 'pod')} {inflect('names one', members)}"
        if watched.kind == POD_GROUP:
            text += "; claims that their pods may share are charged when they are made"
        lost = "no longer served" if store.was_served else "not served"
        yield f"{lost}: {text}; serve one of these versions, or update gpu-admission"


def _forbidden_notes(stores: _Stores, view: ClusterView) -> Iterator[str]:
    names = [
        watched.words
        for watched, store in stores
        if store.state == "forbidden" and not (watched.namespace and view.get("Namespace", watched.namespace) is None)
    ]
    if names:
        yield f"forbidden: list and watch {', '.join(names)}; rules treat them as unknown until RBAC allows it"


def _stale_notes(stores: _Stores) -> Iterator[str]:
    for watched, store in stores:
        age, is_listed = store.silent_seconds, store.state in ("synced", "stale")
        if store.state == "stale" or (is_listed and age >= FRESH_SECONDS):
            use = "still used" if store.is_trusted else "treated as unknown"
            yield f"out of date for {age:.0f} s, {use}: {watched.words}: {store.reason or SENDS_NOTHING}"


def _first_of(names: Sequence[str]) -> str:
    return ", ".join(names) if len(names) <= _SHOWN else f"{', '.join(names[:_SHOWN])} and {len(names) - _SHOWN} more"


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

    def __init__(self, client: APIClient, *, pace: Pace | None = None) -> None:
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
        self.view = LiveView()

    @property
    def metrics(self) -> CacheMetrics:
        """The collector to register with the metrics of the server."""
        return CacheMetrics(lambda: self.caches)

    @property
    def caches(self) -> Iterable[Cache]:
        """The current caches."""
        return tuple(self._caches.values())

    def start(self, operator_namespaces: Iterable[str], *, follows_version: bool = True) -> None:
        """Begin to list and watch, in the running event loop.

        Args:
            operator_namespaces: The namespaces in which the GPU Operator may run.
            follows_version: False if the caller sets the version and the feature gates of the view.
        """
        self._collector.begin()
        if follows_version:
            self._version_task = asyncio.create_task(self._version.run(self.view))
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
        """True if the caches of a kind are synced and were heard of lately, or it is not served."""
        stores = [cache.store for cache in self.caches if cache.watched.kind == kind]
        return bool(stores) and all(
            store.state == "absent" or (store.state == "synced" and store.silent_seconds < FRESH_SECONDS)
            for store in stores
        )

    def silent_kinds(self) -> dict[str, float]:
        """The kinds of which nothing was heard for `FRESH_SECONDS`, with the seconds; infinite before a list."""
        stores = [
            (cache.watched.kind, cache.store)
            for cache in self.caches
            if cache.store.state not in ("absent", "forbidden")
        ]
        return {kind: store.silent_seconds for kind, store in stores if store.silent_seconds >= FRESH_SECONDS}

    def store(self, kind: str) -> Store | None:
        """The cache of a kind that is watched in all namespaces; None before it is watched."""
        return next((cache.store for cache in self.caches if cache.watched.kind == kind), None)

    def reason(self) -> str:
        """The reason why the replica is not ready; empty once the first sync is complete."""
        if self._complete.is_set():
            return ""
        return reason_not_ready([(each.watched, each.store) for each in self.caches]) or "nothing was listed yet"

    def notes(self) -> list[str]:
        """The facts that are unknown, and why, for the administrator."""
        stores = [(each.watched, each.store) for each in self.caches]
        unlisted = unlisted_notes(stores) if self._complete.is_set() else []
        return unlisted + cache_notes(stores, self.view)

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
        reflector = Reflector(
            self._client,
            each.resource,
            store,
            namespace=each.namespace,
            query=each.query,
            on_state=self._complete_if_listed,
            pace=self._pace,
        )
        task: asyncio.Task[None] = asyncio.create_task(reflector.run(), name=f"watch {each.words}")
        task.add_done_callback(_log_end)
        return Cache(each, store, reflector, task)

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
        self._pause = ExitStack()

    def begin(self) -> None:
        """Start the pause, in the running event loop."""
        self._pause.enter_context(CollectionPause())
        self._ends = asyncio.get_running_loop().call_later(_LONGEST_SECONDS, partial(self.end, keep=True))

    def end(self, *, keep: bool) -> None:
        """End the pause; with `keep`, all current objects are excluded from future collections."""
        if self._ends is None:
            return
        self._ends.cancel()
        self._ends = None
        if keep:
            gc.freeze()
        self._pause.close()
