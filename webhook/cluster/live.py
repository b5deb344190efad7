"""The view of a running cluster: facts from stores that watches keep up to date."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, TypeVar

from policies.kubernetes.view import OTHER_PODS, UNKNOWN, ClusterView, ResultsPerObject, Unknown
from webhook.cluster.watched_kinds import KnownKind

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence

    from policies.kubernetes.objects import Object
    from webhook.cluster.store import Store
    from webhook.cluster.watched_kinds import Watched

__all__ = ["LiveView"]

H = TypeVar("H", bound="Hashable")


class LiveView(ClusterView):
    """Facts from the stores of all kinds that are watched; thread-safe.

    A kind that was never listed, is forbidden, or whose watch broke long ago, is unknown; see `KnownKind`.
    """

    def __init__(
        self, stores: Iterable[tuple[Watched, Store]] = (), *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """`clock` is that of the stores, in seconds."""
        self._clock = clock
        self._version: tuple[int, int] | Unknown = UNKNOWN
        self._changes = 0
        self._shown: list[tuple[Watched, Store]] = []
        self._kinds: dict[str, KnownKind] = {}
        self.show(stores)

    def show(self, stores: Iterable[tuple[Watched, Store]]) -> None:
        """Use these stores from now on; digests of others are dropped."""
        shown = [*stores]
        if shown == self._shown:
            return
        self._shown = shown
        kinds: dict[str, list[tuple[Watched, Store]]] = {}
        for watched, store in shown:
            kinds.setdefault(watched.kind, []).append((watched, store))
        found = {kind: KnownKind(pairs, self, self._clock) for kind, pairs in kinds.items()}
        # The versions of other stores begin anew, but no generation may come again.
        changes = 1 + max(map(self.generation, (*self._kinds, OTHER_PODS)))
        self._kinds, self._changes, self._digests, self._results = found, changes, {}, ResultsPerObject()

    def set_server_version(self, version: tuple[int, int] | Unknown) -> None:
        """Set the API server's version."""
        if version != self._version:
            self._version = version
            self._changes += 1

    def get(self, kind: str, name: str, namespace: str = "") -> Object | Unknown | None:
        """One object; None if it does not exist."""
        known = self._kinds.get(kind)
        return UNKNOWN if known is None else known.get(name, namespace)

    def list(self, kind: str, namespace: str = "") -> Sequence[Object] | Unknown:
        """All objects of a kind that are kept; unknown if no store of the kind is known."""
        known = self._kinds.get(kind)
        return UNKNOWN if known is None else known.list(namespace)

    def server_version(self) -> tuple[int, int] | Unknown:
        """The last known version of the API server."""
        return self._version

    def generation(self, kind: str) -> int:
        """A number that grows whenever an answer about a kind may change."""
        known = self._kinds.get("Pod" if kind == OTHER_PODS else kind)
        if known is None:
            return self._changes
        return self._changes + (known.others_generation if kind == OTHER_PODS else known.generation)

    def count_each(
        self, kind: str, function: Callable[[Object], H | None], wanted: Callable[[H], bool]
    ) -> Mapping[H, int] | Unknown:
        """The number of kept objects for each wanted value of `function`, as the stores have counted them."""
        known = self._kinds.get(kind)
        counts = UNKNOWN if known is None else known.count_each(function)
        return counts if counts is UNKNOWN else {value: count for value, count in counts.items() if wanted(value)}

    def others_on(self, node: str) -> Mapping[str, int] | Unknown:
        """What pods that are not kept use of a node; unknown while pods are."""
        known = self._kinds.get("Pod")
        return UNKNOWN if known is None else known.others_on(node)
