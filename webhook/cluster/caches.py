"""The caches of watched resources, their metrics, and the notes of `/readyz` about them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, get_args

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from webhook.cluster.known import TRUSTED_SECONDS
from webhook.cluster.store import NOT_LISTED, State
from webhook.cluster.watched_kinds import DRA

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from prometheus_client.core import Metric

    from policies.view import ClusterView
    from webhook.cluster.reader import Contact
    from webhook.cluster.store import Store
    from webhook.cluster.watched_kinds import Watched

__all__ = ["Cache", "CacheMetrics", "cache_notes", "reason_not_ready", "unlisted_notes"]

_LABELS = ("resource", "namespace")
_STATES = get_args(State)


@dataclass(frozen=True, slots=True)
class Cache:
    """The store of a watched resource, and the task that keeps it up to date."""

    watched: Watched
    store: Store
    contact: Contact
    task: asyncio.Task[None]

    @property
    def is_awaited(self) -> bool:
        """True until the first list, or its first failure."""
        return self.store.state == "waiting" and self.store.reason == NOT_LISTED


class CacheMetrics(Collector):
    """Gauges and counters of all caches, computed at each scrape; `namespace` is empty for all namespaces."""

    def __init__(self, caches: Callable[[], Iterable[Cache]], clock: Callable[[], float]) -> None:
        self._caches = caches
        self._clock = clock

    def collect(self) -> Iterable[Metric]:
        """The current metrics."""
        objects = GaugeMetricFamily("gpu_admission_cache_objects", "Cached objects of a resource.", None, _LABELS)
        age = GaugeMetricFamily(
            "gpu_admission_cache_contact_age_seconds",
            "Seconds since the last answer of the API server about a resource; missing before the first answer.",
            None,
            _LABELS,
        )
        lists = CounterMetricFamily(
            "gpu_admission_cache_lists", "Complete lists of a resource that were started.", None, _LABELS
        )
        states = GaugeMetricFamily(
            "gpu_admission_cache_state", "1 for the state of a cache, 0 for the others.", None, (*_LABELS, "state")
        )
        now = self._clock()
        for cache in self._caches():
            labels = (cache.watched.resource.name, cache.watched.namespace)
            objects.add_metric(labels, len(cache.store))
            lists.add_metric(labels, cache.contact.lists)
            if cache.contact.last is not None:
                age.add_metric(labels, now - cache.contact.last)
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
"""Why a whole group may not be served."""

_SELDOM_SERVED = frozenset(["PodGroup"])
"""Kinds behind a feature gate that is off by default; no note says that they are not served."""

_Stores = list[tuple["Watched", "Store"]]


def reason_not_ready(stores: _Stores) -> str:
    """Why the first sync is not complete; empty if it is."""
    waiting = [(watched.words, store.reason) for watched, store in stores if store.state == "waiting"]
    if not waiting:
        return ""
    names, reasons = zip(*waiting, strict=True)
    return f"not listed yet: {_first_of(names)}: {max(reasons, key=reasons.count)}"


def cache_notes(stores: _Stores, view: ClusterView, now: float) -> list[str]:
    """Notes about caches that are not up to date, without full stops.

    Args:
        stores: The caches.
        view: The view of these stores.
        now: The time by the clock of the stores, in seconds.
    """
    return [*_absent_notes(stores, view), *_forbidden_notes(stores, view), *_stale_notes(stores, now)]


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
            if watched.resource.group == group and store.state == "absent" and watched.kind not in _SELDOM_SERVED
        ]
        if group == DRA and names:
            version = next(watched.resource.version for watched, _ in stores if watched.resource.group == group)
            devices = "there are no devices" if view.list("ResourceSlice") == () else "devices are unknown"
            yield f"no DRA API: the API server does not serve {group}/{version}, so {devices}"
        elif names and all(absent) and group in _GROUPS:
            yield f"not served: {_first_of(names)}; {_GROUPS[group]}"
        elif names:
            yield f"not served: {_first_of(names)}"


def _forbidden_notes(stores: _Stores, view: ClusterView) -> Iterator[str]:
    names = [
        watched.words
        for watched, store in stores
        if store.state == "forbidden" and not (watched.namespace and view.get("Namespace", watched.namespace) is None)
    ]
    if names:
        yield f"forbidden: list and watch {', '.join(names)}; rules treat them as unknown until RBAC allows it"


def _stale_notes(stores: _Stores, now: float) -> Iterator[str]:
    for watched, store in stores:
        if store.state == "stale":
            age = now - store.since
            use = "treated as unknown" if age >= TRUSTED_SECONDS else "still used"
            yield f"out of date for {age:.0f} s, {use}: {watched.words}: {store.reason}"


def _first_of(names: Sequence[str]) -> str:
    return ", ".join(names) if len(names) <= _SHOWN else f"{', '.join(names[:_SHOWN])} and {len(names) - _SHOWN} more"
