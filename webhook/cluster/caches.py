"""The caches: what is watched, their metrics, and the notes of `/readyz` about them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, get_args

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from webhook.cluster.known import TRUSTED_SECONDS
from webhook.cluster.store import NOT_LISTED, State

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from prometheus_client.core import Metric

    from policies.view import ClusterView
    from webhook.cluster.reader import Contact
    from webhook.cluster.store import Store
    from webhook.cluster.watched_kinds import Watched

__all__ = ["Cache", "CacheMetrics", "notes_of", "reason_of", "unlisted_of"]

_LABELS = ("resource", "namespace")
_STATES = get_args(State)


@dataclass(frozen=True, slots=True)
class Cache:
    """What is kept of something that is watched, and how it is kept up to date."""

    watched: Watched
    store: Store
    contact: Contact
    task: asyncio.Task[None]

    @property
    def is_awaited(self) -> bool:
        """Whether nothing is known of it yet, and nobody has said that it cannot be listed."""
        return self.store.state == "waiting" and self.store.reason == NOT_LISTED


class CacheMetrics(Collector):
    """Gauges and counters of everything that is watched, computed at each scrape; `namespace` is empty for all namespaces."""

    def __init__(self, caches: Callable[[], Iterable[Cache]], clock: Callable[[], float]) -> None:
        """Args: gives what is watched now; the clock of its stores, in seconds."""
        self._caches = caches
        self._clock = clock

    def collect(self) -> Iterable[Metric]:
        """What the caches are like now."""
        objects = GaugeMetricFamily(
            "gpu_admission_cache_objects", "Objects that are kept of a resource.", None, _LABELS
        )
        age = GaugeMetricFamily(
            "gpu_admission_cache_contact_age_seconds",
            "Time since the API server last told anything about a resource; there is none before it first does.",
            None,
            _LABELS,
        )
        lists = CounterMetricFamily(
            "gpu_admission_cache_lists", "Complete lists of a resource that were begun.", None, _LABELS
        )
        states = GaugeMetricFamily(
            "gpu_admission_cache_state", "1 for the state that a cache is in, 0 for others.", None, (*_LABELS, "state")
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
_DRA = "resource.k8s.io"
_GROUPS = {
    "gpu-admission.io": "our own CRDs are not installed, so all settings have their defaults",
    "monitoring.coreos.com": "the Prometheus Operator is not installed",
    "nvidia.com": "the GPU Operator is not installed",
    "resource.nvidia.com": "NVIDIA's DRA driver is not installed, or runs without ComputeDomains",
}
"""What it means that nothing of a group is served."""

_SELDOM_SERVED = frozenset(["PodGroup"])
"""Kinds behind a feature gate that is off by default: that one is not served is nothing to tell."""

_Stores = list[tuple["Watched", "Store"]]


def reason_of(stores: _Stores) -> str:
    """Why the first sync is not complete; empty where it is."""
    waiting = [(watched.words, store.reason) for watched, store in stores if store.state == "waiting"]
    if not waiting:
        return ""
    names, reasons = zip(*waiting, strict=True)
    told = max(reasons, key=reasons.count)
    return f"nothing is known yet of {_listed(names)}: {told}"


def notes_of(stores: _Stores, view: ClusterView, now: float) -> list[str]:
    """What is not known and why, one sentence each, without a full stop.

    Args:
        stores: What is watched.
        view: What is known, by these stores.
        now: By the clock of the stores, in seconds.
    """
    return [*_absent(stores, view), *_forbidden(stores, view), *_outdated(stores, now)]


def unlisted_of(stores: _Stores) -> list[str]:
    """What the first sync went on without, one sentence each, without a full stop."""
    return [
        f"taken as unknown, because it cannot be listed: {watched.words}: {store.reason}"
        for watched, store in stores
        if store.state == "waiting" and store.reason != NOT_LISTED
    ]


def _absent(stores: _Stores, view: ClusterView) -> Iterator[str]:
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
        if group == _DRA and names:
            version = next(watched.resource.version for watched, _ in stores if watched.resource.group == group)
            known = (
                "there are no devices" if view.list("ResourceSlice") == () else "whether there are devices is unknown"
            )
            yield f"no DRA API: the API server does not serve {group}/{version}, so {known}"
        elif names and all(absent) and group in _GROUPS:
            yield f"not served: {_listed(names)}; {_GROUPS[group]}"
        elif names:
            yield f"not served: {_listed(names)}"


def _forbidden(stores: _Stores, view: ClusterView) -> Iterator[str]:
    names = [
        watched.words
        for watched, store in stores
        if store.state == "forbidden" and not (watched.namespace and view.get("Namespace", watched.namespace) is None)
    ]
    if names:
        yield f"forbidden: list and watch {', '.join(names)}; rules take them as unknown, until RBAC allows it"


def _outdated(stores: _Stores, now: float) -> Iterator[str]:
    for watched, store in stores:
        if store.state == "stale":
            age = now - store.since
            worth = "taken as unknown" if age >= TRUSTED_SECONDS else "still believed"
            yield f"out of date for {age:.0f} s, and {worth}: {watched.words}: {store.reason}"


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names) if len(names) <= _SHOWN else f"{', '.join(names[:_SHOWN])} and {len(names) - _SHOWN} more"
