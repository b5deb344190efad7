"""The pods and claims of a namespace by which quotas are counted, from the caches or by quorum."""

from __future__ import annotations

from dataclasses import dataclass, field
from operator import is_
from typing import TYPE_CHECKING

from policies.view import UNKNOWN
from webhook.cluster.lists import PAGE, raw_pages
from webhook.cluster.store import is_older
from webhook.cluster.trimmed import trim_for
from webhook.cluster.watched_kinds import watched_kinds

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from policies.kubernetes.objects import Object
    from policies.quota.ledger.open_charges import OpenCharge
    from policies.quota.ledger.status import Versions
    from policies.view import ClusterView
    from webhook.cluster.client import APIClient
    from webhook.cluster.store import Store

__all__ = ["Both", "Lists"]

_HELD_SECONDS = 90.0
"""For how long a list is used while the cache is older; API servers send bookmarks about once a minute."""
_COUNTED = {each.kind: each for each in watched_kinds(()) if each.kind in ("Pod", "ResourceClaim")}
_MEASURED_BY = ("Node", "DeviceClass", "ResourceSlice")


@dataclass(frozen=True, slots=True)
class Listed:
    """The objects of one kind in one namespace at one moment."""

    objects: Sequence[Object]
    version: str
    """The resourceVersion of the list; empty for a kind that the API server does not serve."""

    def shows_the_same(self, other: Listed) -> bool:
        """True if both have the identical objects."""
        return len(self.objects) == len(other.objects) and all(map(is_, self.objects, other.objects))


@dataclass(frozen=True, slots=True)
class Both:
    """The two lists of a namespace, possibly of different moments."""

    pods: Listed
    claims: Listed

    def shows_the_same(self, other: Both) -> bool:
        """True if both have the identical objects."""
        return self.pods.shows_the_same(other.pods) and self.claims.shows_the_same(other.claims)

    def versions(self, counted: Versions | None) -> tuple[str, str]:
        """The resourceVersions of the lists; for a kind that is not served, the one counted last."""
        return self.pods.version, self.claims.version or ("1" if counted is None else counted.claims)


@dataclass(eq=False)
class Lists:
    """Provides the lists of a namespace."""

    client: APIClient
    view: ClusterView
    stores: Callable[[], Mapping[str, Store]]
    """Returns the caches by kind."""
    clock: Callable[[], float]
    """Returns monotonic seconds."""
    _held: dict[str, tuple[float, Both]] = field(default_factory=dict, init=False)

    def forget(self, namespace: str | None = None) -> None:
        """Drop the held lists of a namespace, or of all."""
        if namespace is None:
            self._held = {}
        else:
            self._held.pop(namespace, None)

    def unknown(self, namespace: str) -> str:
        """Why nothing can be counted now, without a full stop; empty if it can."""
        missing = [kind for kind in _COUNTED if self.view.list(kind, namespace) is UNKNOWN]
        missing += [kind for kind in _MEASURED_BY if self.view.list(kind) is UNKNOWN]
        if not missing:
            return ""
        store = self.stores().get(missing[0])
        because = f": {store.reason}" if store is not None and store.reason else ""
        return f"{missing[0]}s are unknown{because}"

    def gone(self, charges: Iterable[OpenCharge]) -> frozenset[str]:
        """The UIDs of those charges whose objects the caches have seen deleted."""
        seen = [store.gone for store in self.stores().values() if store.gone is not None]
        return frozenset(charge.uid for charge in charges if any(charge.uid in gone for gone in seen))

    def now(self, namespace: str) -> Both:
        """The lists of the caches, or those read last if they are newer."""
        cached = Both(self._cached_list("Pod", namespace), self._cached_list("ResourceClaim", namespace))
        since, held = self._held.get(namespace, (0.0, cached))
        if held is not cached and self.clock() < since + _HELD_SECONDS:
            both = Both(_newer(held.pods, cached.pods), _newer(held.claims, cached.claims))
            if both.pods is held.pods or both.claims is held.claims:
                return both
        self._held.pop(namespace, None)
        return cached

    async def by_quorum(self, namespace: str) -> Both:
        """The newest lists, by quorum.

        Raises:
            ClusterError: The API server did not answer, or stopped within a list.
        """
        both = Both(await self._read("Pod", namespace), await self._read("ResourceClaim", namespace))
        self._held[namespace] = self.clock(), both
        return both

    def _cached_list(self, kind: str, namespace: str) -> Listed:
        store = self.stores()[kind]
        return Listed(store.list(namespace), store.resource_version)

    async def _read(self, kind: str, namespace: str) -> Listed:
        if self.stores()[kind].state == "absent":
            return Listed((), "")
        each, version = _COUNTED[kind], ""
        objects: list[Object] = []
        trim = trim_for(each.resource)
        async for page in raw_pages(self.client, each.resource, namespace, each.query, limit=PAGE):
            objects += (kept for item in page.items if (kept := trim(item)) is not None)
            version = page.resource_version
        return Listed(objects, version)


def _newer(held: Listed, cached: Listed) -> Listed:
    return held if is_older(cached.version, held.version) else cached
