"""The view of a running cluster: facts from stores that watches keep up to date."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from policies.view import UNKNOWN, ClusterView, Unknown
from policies.work import count_work
from webhook.cluster.known import KnownKind

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence

    from policies.kubernetes.objects import Object
    from webhook.cluster.store import Store
    from webhook.cluster.watched_kinds import Watched

__all__ = ["LiveView", "ResultsPerObject"]

T = TypeVar("T")
H = TypeVar("H", bound="Hashable")

_VERSION = ""
"""Stands for the API server's version among the kinds that a digest depends on."""
_OTHERS = "pods that are not kept"
"""Stands for these among the kinds that a digest depends on."""


class LiveView:
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
        self._derived: dict[Any, tuple[Any, Mapping[str, int]]] = {}
        self._results = ResultsPerObject()
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
        self._kinds, self._derived, self._results = found, {}, ResultsPerObject()

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

    def objects_under_review(self, kind: str) -> Sequence[Object]:
        """Always empty: a webhook reviews one object."""
        return ()

    def server_version(self) -> tuple[int, int] | Unknown:
        """The last known version of the API server."""
        return self._version

    def generation(self, kind: str) -> int:
        """A number that grows whenever an answer about a kind may change."""
        known = self._kinds.get("Pod" if kind == _OTHERS else kind)
        if known is None:
            return self._changes
        return self._changes + (known.others_generation if kind == _OTHERS else known.generation)

    def derive(self, function: Callable[[ClusterView], T]) -> T:
        """`function(self)`, cached until a kind changes that it read, directly or by what it derived.

        Args:
            function: A module's function; a lambda would be cached for each call.
        """
        derived: T = self._digest(function)[0]
        return derived

    def derive_each(self, kind: str, function: Callable[[Object], T]) -> Sequence[T] | Unknown:
        """`function` of every object of a kind; called once per object while the store keeps it."""
        results, objects = self._results, self.list(kind)
        if objects is UNKNOWN:
            results.forget(kind)
            return UNKNOWN
        return results.results_of(kind, function, objects)

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

    def _digest(self, function: Callable[[ClusterView], Any]) -> tuple[Any, Mapping[str, int]]:
        """A function's result, and the kinds that it read, each with its generation before the read."""
        derived = self._derived
        kept = derived.get(function)
        if kept is not None and all(self.generation(kind) == generation for kind, generation in kept[1].items()):
            return kept
        reading = _Reading(self)
        digest = derived[function] = (function(reading), reading.generations)
        return digest


class _Reading:
    """The view for one digest; records which kinds are read.

    The generation is recorded before the first read, so that a change during the read makes the digest outdated.
    """

    def __init__(self, view: LiveView) -> None:
        self._view = view
        self.generations: dict[str, int] = {}

    def get(self, kind: str, name: str, namespace: str = "") -> Object | Unknown | None:
        self._note(kind)
        return self._view.get(kind, name, namespace)

    def list(self, kind: str, namespace: str = "") -> Sequence[Object] | Unknown:
        self._note(kind)
        found = self._view.list(kind, namespace)
        count_work(0 if found is UNKNOWN else WORK_PER_OBJECT * len(found))
        return found

    def objects_under_review(self, kind: str) -> Sequence[Object]:
        return self._view.objects_under_review(kind)

    def server_version(self) -> tuple[int, int] | Unknown:
        self._note(_VERSION)
        return self._view.server_version()

    def derive(self, function: Callable[[ClusterView], T]) -> T:
        derived, generations = self._view._digest(function)  # noqa: SLF001 - a part of the view
        for kind, generation in generations.items():
            self.generations.setdefault(kind, generation)
        found: T = derived
        return found

    def derive_each(self, kind: str, function: Callable[[Object], T]) -> Sequence[T] | Unknown:
        self._note(kind)
        return self._view.derive_each(kind, function)

    def count_each(
        self, kind: str, function: Callable[[Object], H | None], wanted: Callable[[H], bool]
    ) -> Mapping[H, int] | Unknown:
        self._note(kind)
        return self._view.count_each(kind, function, wanted)

    def others_on(self, node: str) -> Mapping[str, int] | Unknown:
        self._note(_OTHERS)
        return self._view.others_on(node)

    def _note(self, kind: str) -> None:
        if kind not in self.generations:
            self.generations[kind] = self._view.generation(kind)


WORK_PER_OBJECT = 5
"""The work of a digest for each object that it reads."""
_WORK_PER_RESULT = 40
"""The work of a function for one node or ResourceSlice."""


class _Results(NamedTuple):
    """Objects, and a function's result for each in the same order."""

    objects: Sequence[Object]
    results: Sequence[Any]


class ResultsPerObject:
    """Results of functions, cached for each object of the latest list.

    Stores never change an object but replace it, so the identity of an object is the key: while it is referenced here, no
    other object can have it.

    Thread-safe: each thread replaces a list and its results in one step; an older list costs only repeated calls.
    """

    def __init__(self) -> None:
        self._cached: dict[tuple[str, Callable[[Object], Any]], _Results] = {}

    def results_of(self, kind: str, function: Callable[[Object], T], objects: Sequence[Object]) -> Sequence[T]:
        """The result for each object, in their order.

        Args:
            kind: The kind of all objects.
            function: Called for objects without a cached result.
            objects: All objects of the kind, in a sequence that does not change later.
        """
        cached = self._cached.get((kind, function))
        if cached is not None and cached.objects is objects:
            return cached.results
        count_work(WORK_PER_OBJECT * len(objects))
        known = {} if cached is None else dict(zip(map(id, cached.objects), cached.results, strict=True))
        count_work(_WORK_PER_RESULT * sum(id(each) not in known for each in objects))
        results = [known[id(each)] if id(each) in known else _result(function, each) for each in objects]
        self._cached[kind, function] = _Results(objects, results)
        return results

    def forget(self, kind: str) -> None:
        """Drop the results for the objects of a kind."""
        for key in [*self._cached]:
            if key[0] == kind:
                self._cached.pop(key, None)


def _result(function: Callable[[Object], T], item: Object) -> T:
    count_work(0)  # lets other threads run
    return function(item)
