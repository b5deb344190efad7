"""What is known of one kind: the stores of all places where it is watched, and what their states are worth."""

from __future__ import annotations

from collections import Counter
from itertools import chain
from typing import TYPE_CHECKING, Protocol, TypeVar

from policies.view import UNKNOWN, Unknown
from webhook.cluster.watched_kinds import DRA_SERVED_SINCE

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Mapping, Sequence

    from policies.kubernetes.objects import Object
    from webhook.cluster.store import Store
    from webhook.cluster.watched_kinds import Watched

__all__ = ["TRUSTED_SECONDS", "KnownKind"]

H = TypeVar("H", bound="Hashable")

TRUSTED_SECONDS = 120.0
"""For how long a store is believed after its watch broke. An API server that restarts is back sooner, and what a GPU
cluster looks like does not change much meanwhile; after that nobody should decide by it."""

_DRA = "resource.k8s.io"


class Surroundings(Protocol):
    """What the answers about a kind depend on beside its own stores."""

    def server_version(self) -> tuple[int, int] | Unknown:
        """Major and minor version of the API server."""
        ...

    def get(self, kind: str, name: str, namespace: str = "") -> Object | Unknown | None:
        """One object; None when it does not exist."""
        ...

    def generation(self, kind: str) -> int:
        """A number that grows whenever an answer about the kind can be another."""
        ...


class KnownKind:
    """One kind as the view shows it.

    - An API that is not served has no objects, and that is certain: the CRDs of the GPU Operator are not installed, or
      DRA is switched off. It is not certain of `resource.k8s.io` before Kubernetes 1.34, which may serve the group in an
      older version.
    - In a namespace that does not exist is nothing, even where RBAC would not let us look.
    - What is forbidden, was never listed, or whose watch broke more than `TRUSTED_SECONDS` ago, is unknown.
    """

    def __init__(
        self, stores: Sequence[tuple[Watched, Store]], surroundings: Surroundings, clock: Callable[[], float]
    ) -> None:
        """Args: what of the kind is watched, at least one; what else counts; the clock of the stores, in seconds."""
        self._stores = stores
        self._surroundings = surroundings
        self._clock = clock
        self._in_namespaces = any(watched.namespace for watched, _ in stores)

    @property
    def generation(self) -> int:
        """A number that grows whenever an answer can be another."""
        generation = self._surroundings.generation("Namespace") if self._in_namespaces else 0
        for _, store in self._stores:
            # A store that loses trust does so without a new version, and gets one when it has it back.
            generation += 2 * store.version + (not self._is_trusted(store))
        return generation

    @property
    def others_generation(self) -> int:
        """A number that grows whenever an answer of `others_on` can be another."""
        return self.generation + sum(store.others.version for _, store in self._stores if store.others is not None)

    def get(self, name: str, namespace: str) -> Object | Unknown | None:
        """One object of the kind; None where it does not exist, so far as the watch has come."""
        for watched, store in self._stores:
            if watched.covers(name, namespace):
                if not self._is_known(watched, store):
                    return UNKNOWN
                found = store.get(namespace, name)
                return UNKNOWN if found is None and watched.part else found
        return UNKNOWN

    def list(self, namespace: str) -> Sequence[Object] | Unknown:
        """The objects of the kind that are known; unknown where nothing is known of any place that was meant."""
        meant = [pair for pair in self._stores if not namespace or pair[0].namespace in ("", namespace)]
        known = [store for watched, store in meant if self._is_known(watched, store)]
        if not known:
            return UNKNOWN
        return known[0].list(namespace) if len(known) == 1 else [*chain.from_iterable(map(_all, known))]

    def count_each(self, function: Callable[[Object], H | None]) -> Mapping[H, int] | Unknown:
        """For how many of the known objects `function` gives the same; unknown where nothing is known of any place."""
        known = [store for watched, store in self._stores if self._is_known(watched, store)]
        if not known:
            return UNKNOWN
        counts: Counter[H] = Counter()
        for store in known:
            counts.update(store.counts(function))
        return counts

    def others_on(self, node: str) -> Mapping[str, int] | Unknown:
        """What pods that are not kept take of a node; unknown while pods are. They are watched in one place."""
        watched, store = self._stores[0]
        return UNKNOWN if store.others is None or not self._is_known(watched, store) else store.others.on(node)

    def _is_known(self, watched: Watched, store: Store) -> bool:
        if self._is_trusted(store):
            return True
        if store.state == "absent":
            return watched.resource.group != _DRA or self._serves_dra_in_v1()
        gone = bool(watched.namespace) and self._surroundings.get("Namespace", watched.namespace) is None
        return gone and store.state == "forbidden"

    def _is_trusted(self, store: Store) -> bool:
        return store.state == "synced" or (store.state == "stale" and self._clock() < store.since + TRUSTED_SECONDS)

    def _serves_dra_in_v1(self) -> bool:
        version = self._surroundings.server_version()
        return version is not UNKNOWN and version >= DRA_SERVED_SINCE


def _all(store: Store) -> Sequence[Object]:
    return store.list()
