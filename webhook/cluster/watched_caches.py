"""The caches: what is kept of the cluster, and metrics of how much and how fresh it is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, get_args

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from webhook.cluster.store import NOT_LISTED, State

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Iterable

    from prometheus_client.core import Metric

    from webhook.cluster.contacts import Contact
    from webhook.cluster.kinds import Watched
    from webhook.cluster.store import Store

__all__ = ["Cache", "CacheMetrics"]

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
