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

__all__ = ["WORK_PER_OBJECT", "LiveView", "Parts"]

T = TypeVar("T")
H = TypeVar("H", bound="Hashable")

_VERSION = ""
"""As what the API server's version is noted among the kinds that a digest was made of; it counts for every kind."""
_OTHERS = "pods that are not kept"
"""As what these are noted among the kinds that a digest was made of."""


class LiveView:
    """Facts from the stores of all kinds that are watched.

    Nothing is known of a kind that was never listed, that RBAC keeps from us, or whose watch has been away for too long;
    see `KnownKind`. It can be asked from several threads at once.
    """

    def __init__(
        self, stores: Iterable[tuple[Watched, Store]] = (), *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Args: what is watched, and where its objects are; the clock of these stores, in seconds."""
        self._clock = clock
        self._version: tuple[int, int] | Unknown = UNKNOWN
        self._changes = 0
        self._derived: dict[Any, tuple[Any, Mapping[str, int]]] = {}
        self._parts = Parts()
        self._shown: list[tuple[Watched, Store]] = []
        self._kinds: dict[str, KnownKind] = {}
        self.show(stores)

    def show(self, stores: Iterable[tuple[Watched, Store]]) -> None:
        """Look at these stores from now on; what was made of others is forgotten."""
        shown = [*stores]
        if shown == self._shown:
            return
        self._shown = shown
        kinds: dict[str, list[tuple[Watched, Store]]] = {}
        for watched, store in shown:
            kinds.setdefault(watched.kind, []).append((watched, store))
        found = {kind: KnownKind(pairs, self, self._clock) for kind, pairs in kinds.items()}
        self._kinds, self._derived, self._parts = found, {}, Parts()

    def set_server_version(self, version: tuple[int, int] | Unknown) -> None:
        """Take the API server's version, as it is from now on."""
        if version != self._version:
            self._version = version
            self._changes += 1

    def get(self, kind: str, name: str, namespace: str = "") -> Object | Unknown | None:
        """One object; None where it does not exist, so far as the watch has come."""
        known = self._kinds.get(kind)
        return UNKNOWN if known is None else known.get(name, namespace)

    def list(self, kind: str, namespace: str = "") -> Sequence[Object] | Unknown:
        """All objects of a kind that are kept, where there is one place at least that is known."""
        known = self._kinds.get(kind)
        return UNKNOWN if known is None else known.list(namespace)

    def objects_under_review(self, kind: str) -> Sequence[Object]:
        """Nothing: a webhook reviews one object."""
        return ()

    def server_version(self) -> tuple[int, int] | Unknown:
        """The version that the API server told last."""
        return self._version

    def generation(self, kind: str) -> int:
        """A number that grows whenever an answer about a kind can be another."""
        known = self._kinds.get("Pod" if kind == _OTHERS else kind)
        if known is None:
            return self._changes
        return self._changes + (known.others_generation if kind == _OTHERS else known.generation)

    def derive(self, function: Callable[[ClusterView], T]) -> T:
        """`function(self)`, remembered until a kind changes that it read, itself or by what it derived.

        Args:
            function: One that a module defines: what is made anew for each call would be remembered for each call.
        """
        derived: T = self._remembered(function)[0]
        return derived

    def derive_each(self, kind: str, function: Callable[[Object], T]) -> Sequence[T] | Unknown:
        """`function` of every object of a kind; of each only once for as long as the store keeps it."""
        parts, objects = self._parts, self.list(kind)
        if objects is UNKNOWN:
            parts.forget(kind)
            return UNKNOWN
        return parts.of(kind, function, objects)

    def count_each(self, kind: str, function: Callable[[Object], H | None]) -> Mapping[H, int] | Unknown:
        """For how many objects of a kind that are kept `function` gives the same; the stores count each change."""
        known = self._kinds.get(kind)
        return UNKNOWN if known is None else known.count_each(function)

    def others_on(self, node: str) -> Mapping[str, int] | Unknown:
        """What pods that are not kept take of a node; unknown while pods are."""
        known = self._kinds.get("Pod")
        return UNKNOWN if known is None else known.others_on(node)

    def _remembered(self, function: Callable[[ClusterView], Any]) -> tuple[Any, Mapping[str, int]]:
        """What a function made of the view, and the kinds that it read, each with its generation before that."""
        derived = self._derived
        kept = derived.get(function)
        if kept is not None and all(self.generation(kind) == generation for kind, generation in kept[1].items()):
            return kept
        reading = _Reading(self)
        made = derived[function] = (function(reading), reading.generations)
        return made


class _Reading:
    """The view for one digest: it notes which kinds are read.

    A generation is noted before the first read, so that what changes while a thread reads makes the digest outdated.
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
        derived, generations = self._view._remembered(function)  # noqa: SLF001 - a part of the view
        for kind, generation in generations.items():
            self.generations.setdefault(kind, generation)
        found: T = derived
        return found

    def derive_each(self, kind: str, function: Callable[[Object], T]) -> Sequence[T] | Unknown:
        self._note(kind)
        return self._view.derive_each(kind, function)

    def count_each(self, kind: str, function: Callable[[Object], H | None]) -> Mapping[H, int] | Unknown:
        self._note(kind)
        return self._view.count_each(kind, function)

    def others_on(self, node: str) -> Mapping[str, int] | Unknown:
        self._note(_OTHERS)
        return self._view.others_on(node)

    def _note(self, kind: str) -> None:
        if kind not in self.generations:
            self.generations[kind] = self._view.generation(kind)


WORK_PER_OBJECT = 5
"""What a digest takes for each object that it reads, beside what is made of each once."""
_WORK_PER_PART = 40
"""What it takes to make the part of a node or a ResourceSlice."""


class _Made(NamedTuple):
    """Objects, and the part of each in the same order."""

    objects: Sequence[Object]
    parts: Sequence[Any]


class Parts:
    """Remembers what functions made of objects that stores keep.

    Stores never change an object but put another in its place, so the object itself is the key to its part: while it is
    held here, no other can have its identity. What is held are the objects of the latest list that was asked about.

    Several threads may ask at once: each puts a list and its parts in place in one step, and if it is the older one, the
    next to ask makes some parts again.
    """

    def __init__(self) -> None:
        self._made: dict[tuple[str, Callable[[Object], Any]], _Made] = {}

    def of(self, kind: str, function: Callable[[Object], T], objects: Sequence[Object]) -> Sequence[T]:
        """The part of each object, in their order; made where it is not known.

        Args:
            kind: The kind of all objects.
            function: What makes a part.
            objects: All objects of the kind, in a sequence that is not changed later.
        """
        made = self._made.get((kind, function))
        if made is not None and made.objects is objects:
            return made.parts
        count_work(WORK_PER_OBJECT * len(objects))
        known = {} if made is None else dict(zip(map(id, made.objects), made.parts, strict=True))
        count_work(_WORK_PER_PART * sum(id(each) not in known for each in objects))
        parts = [known[id(each)] if id(each) in known else _part(function, each) for each in objects]
        self._made[kind, function] = _Made(objects, parts)
        return parts

    def forget(self, kind: str) -> None:
        """Let the objects of a kind and their parts go."""
        for key in [*self._made]:
            if key[0] == kind:
                self._made.pop(key, None)


def _part(function: Callable[[Object], T], item: Object) -> T:
    count_work(0)  # a place to rest
    return function(item)
