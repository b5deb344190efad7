"""The cluster as policies see it: facts that may be unknown."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from enum import Enum
from functools import cached_property
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final, Generic, Literal, NamedTuple, TypeVar, TypeVarTuple

from policies.kubernetes.bounds import count_work
from policies.kubernetes.objects import DEFAULT_NAMESPACE, name_of, namespace_of

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence

    from policies.kubernetes.objects import Object


T = TypeVar("T")
Ts = TypeVarTuple("Ts")
H = TypeVar("H", bound="Hashable")

Key = tuple[str, str, str]
"""Kind, namespace and name of an object."""


class Unknown(Enum):
    """The type of `UNKNOWN`; an enum so that type checkers can tell it from every other value."""

    UNKNOWN = "unknown"


UNKNOWN: Final[Literal[Unknown.UNKNOWN]] = Unknown.UNKNOWN
"""The answer to a question about something the view cannot see: not None, not empty, not zero."""

SERVER_VERSION = ""
"""Stands for the version and the feature gates of the API server among the kinds that a digest read."""
OTHER_PODS = "pods that are not listed"
"""Stands for the pods of `others_on` among the kinds that a digest read."""
_WORK_PER_OBJECT = 5
"""The work of a digest for each object that it reads."""
_WORK_PER_RESULT = 40
"""The work of a function for one node or ResourceSlice."""


class Digest(NamedTuple, Generic[T]):
    """The result of a function of a view, and what it read."""

    result: T
    generations: Mapping[str, int]
    """The kinds that the function read, directly or by what it derived, each with its generation before the read."""


class ClusterView(ABC):
    """Read-only facts about a cluster at one moment.

    A rule states what it does when a fact is unknown, and its message names the missing object. Objects are raw JSON
    and belong to the view: callers must not change them, nor the lists.

    Everything follows from `get` and `list`. A view overrides what it knows better or can answer faster.
    """

    @abstractmethod
    def get(self, kind: str, name: str, namespace: str = "") -> Object | Unknown | None:
        """One object; None if it certainly does not exist."""

    @abstractmethod
    def list(self, kind: str, namespace: str = "") -> Sequence[Object] | Unknown:
        """All objects of a kind; only those of one namespace if it is given."""

    def known_objects(self, kind: str, namespace: str = "") -> Sequence[Object]:
        """The objects of `list`; empty if they are unknown. For what is said of objects that certainly exist."""
        found = self.list(kind, namespace)
        return () if found is UNKNOWN else found

    def known_or_reviewed(self, kind: str, namespace: str = "") -> Sequence[Object]:
        """The objects of `list`; if they are unknown, those under review."""
        found = self.list(kind, namespace)
        if found is not UNKNOWN:
            return found
        reviewed = self.objects_under_review(kind)
        return [each for each in reviewed if namespace_of(each) == namespace] if namespace else reviewed

    def objects_under_review(self, kind: str) -> Sequence[Object]:
        """The objects of a kind that are reviewed together: those of the same files or of an audit."""
        return ()

    def list_before_review(self, kind: str) -> Sequence[Object] | Unknown:
        """All objects of a kind as the cluster has them, before those under review are created or changed."""
        return self.list(kind)

    def server_version(self) -> tuple[int, int] | Unknown:
        """Major and minor version of the API server."""
        return UNKNOWN

    def feature_gates(self) -> Mapping[str, bool]:
        """The feature gates that the API server shows, each with whether it is on; empty if none are known."""
        return {}

    def generation(self, kind: str) -> int:
        """A number that changes whenever an answer about a kind may change.

        `SERVER_VERSION` and `OTHER_PODS` count as kinds.
        """
        return 0

    def derive(self, function: Callable[[ClusterView], T]) -> T:
        """`function(view)`, cached until a kind changes that it read, directly or by what it derived.

        Decisions often need a digest of many objects (which GPUs exist, how many of each). Reading 5,000 nodes for every
        pod would be too slow.

        Args:
            function: A function of a module; a lambda would be cached for each call.
        """
        return self.digest(function).result

    def digest(self, function: Callable[[ClusterView], T]) -> Digest[T]:
        """The result of `derive`, with the kinds that it depends on."""
        digests = self._digests
        kept = digests.get(function)
        if kept is not None and all(self.generation(kind) == before for kind, before in kept.generations.items()):
            return kept
        reading = ReadingView(self)
        digest = digests[function] = Digest(function(reading), reading.generations)
        return digest

    def derive_each(self, kind: str, function: Callable[[Object], T]) -> Sequence[T] | Unknown:
        """The results of `function` for all objects of a kind, in the order of `list`; unknown if the kind is.

        Results are cached per object, so a digest that is made of them is cheap to compute again after one object changed.

        Args:
            kind: The kind of the objects.
            function: A function of a module. It reads only the object, and does not raise.
        """
        results, objects = self._results, self.list(kind)
        if objects is UNKNOWN:
            results.forget(kind)
            return UNKNOWN
        return results.results_of(kind, function, objects)

    def count_each(
        self, kind: str, function: Callable[[Object], H | None], wanted: Callable[[H], bool]
    ) -> Mapping[H, int] | Unknown:
        """The number of objects of a kind for each wanted result of `function`, without None.

        Unknown if the kind is.

        A view of a running cluster counts each change when it happens, so the number of objects does not matter. Like
        `others_on`, do not call it in functions passed to `derive`.

        Args:
            kind: The kind of the objects.
            function: A function of a module. It reads only the object, returns few different values, and does not raise.
            wanted: True for the results that matter to the caller, who need not look again when others change. Two that
                are equal want the same.
        """
        results = self.derive_each(kind, function)
        if results is UNKNOWN:
            return UNKNOWN
        counts = self._results.counts_of(kind, function, results)
        return {each: count for each, count in counts.items() if wanted(each)}

    def others_on(self, node: str) -> Mapping[str, int] | Unknown:
        """The resources of a node that pods use which `list` does not show; none if it shows all.

        In billionths of each resource, and one of `pods` for each. A view may list only pods that may get GPUs, and keep
        the sums of all others. Do not call it in functions passed to `derive`: every pod that starts or ends in the cluster
        would make their results outdated.
        """
        return UNKNOWN if self.list("Pod") is UNKNOWN else {}

    @cached_property
    def _digests(self) -> dict[Any, Digest[Any]]:
        return {}

    @cached_property
    def _results(self) -> ResultsPerObject:
        return ResultsPerObject()


class PassingView(ClusterView):
    """A view that asks another view everything.

    Subclasses override some questions, or all of them by `_ask`. Digests are those of the other view, which caches them for
    all callers. For objects that differ there is `ChangedView`.
    """

    def __init__(self, view: ClusterView) -> None:
        """Ask this view."""
        self._view = view

    def get(self, kind: str, name: str, namespace: str = "") -> Object | Unknown | None:
        """One object; None if it certainly does not exist."""
        return self._ask(kind, self._view.get, kind, name, namespace)

    def list(self, kind: str, namespace: str = "") -> Sequence[Object] | Unknown:
        """All objects of a kind; only those of one namespace if it is given."""
        return self._ask(kind, self._view.list, kind, namespace)

    def objects_under_review(self, kind: str) -> Sequence[Object]:
        """The objects of a kind that are reviewed together."""
        return self._ask(kind, self._view.objects_under_review, kind)

    def list_before_review(self, kind: str) -> Sequence[Object] | Unknown:
        """All objects of a kind before those under review, and changed ones, are created or changed."""
        return self._ask(kind, self._view.list_before_review, kind)

    def server_version(self) -> tuple[int, int] | Unknown:
        """Major and minor version of the API server."""
        return self._ask(SERVER_VERSION, self._view.server_version)

    def feature_gates(self) -> Mapping[str, bool]:
        """The feature gates that the API server shows, each with whether it is on."""
        return self._ask(SERVER_VERSION, self._view.feature_gates)

    def generation(self, kind: str) -> int:
        """A number that changes whenever an answer about a kind may change."""
        return self._view.generation(kind)

    def digest(self, function: Callable[[ClusterView], T]) -> Digest[T]:
        """The digest of the other view."""
        return self._view.digest(function)

    def derive_each(self, kind: str, function: Callable[[Object], T]) -> Sequence[T] | Unknown:
        """The results of `function` for all objects of a kind, in the order of `list`."""
        return self._ask(kind, self._view.derive_each, kind, function)

    def count_each(
        self, kind: str, function: Callable[[Object], H | None], wanted: Callable[[H], bool]
    ) -> Mapping[H, int] | Unknown:
        """The number of objects of a kind for each wanted result of `function`."""
        return self._ask(kind, self._view.count_each, kind, function, wanted)

    def others_on(self, node: str) -> Mapping[str, int] | Unknown:
        """The resources of a node that pods use which `list` does not show."""
        return self._ask(OTHER_PODS, self._view.others_on, node)

    def _ask(self, kind: str, question: Callable[[*Ts], T], *args: *Ts) -> T:
        """The answer of the other view to a question about a kind."""
        return question(*args)


class ReadingView(PassingView):
    """A view for one result; records which kinds are read.

    The generation is recorded before the first read, so that a change during the read makes the result outdated.
    """

    def __init__(self, view: ClusterView) -> None:
        """Ask this view."""
        super().__init__(view)
        self.generations: dict[str, int] = {}
        """The kinds that were read, each with its generation."""

    def list(self, kind: str, namespace: str = "") -> Sequence[Object] | Unknown:
        """All objects of a kind; only those of one namespace if it is given."""
        found = super().list(kind, namespace)
        count_work(0 if found is UNKNOWN else _WORK_PER_OBJECT * len(found))
        return found

    def digest(self, function: Callable[[ClusterView], T]) -> Digest[T]:
        """The digest of the other view, whose kinds count as read."""
        digest = self._view.digest(function)
        for kind, generation in digest.generations.items():
            self.generations.setdefault(kind, generation)
        return digest

    def _ask(self, kind: str, question: Callable[[*Ts], T], *args: *Ts) -> T:
        if kind not in self.generations:
            self.generations[kind] = self._view.generation(kind)
        return question(*args)


class LookUpsView(PassingView):
    """A view that records which objects are looked up by name."""

    def __init__(self, view: ClusterView) -> None:
        """Ask this view."""
        super().__init__(view)
        self.found: dict[Key, Object | Unknown | None] = {}
        """The objects that were looked up, and the answers; digests' own look-ups are not among them."""

    def get(self, kind: str, name: str, namespace: str = "") -> Object | Unknown | None:
        """One object; None if it certainly does not exist."""
        found = self.found[kind, namespace, name] = super().get(kind, name, namespace)
        return found


class ChangedView(PassingView):
    """Another view after objects are created, replaced or deleted.

    Lists and results per object follow. A digest is that of the other view unless it read the kind of a changed object:
    then it is computed anew, and results for objects that are the same come from the other view. A kind that the other view
    does not know stays unknown, except the changed objects themselves.
    """

    def __init__(
        self,
        view: ClusterView,
        objects: Mapping[Key, Object | Callable[[], Object | Unknown | None] | None],
        *,
        lists: bool = True,
    ) -> None:
        """Put objects over a view.

        Args:
            view: The other view.
            objects: None stands for an object that certainly does not exist. A function is called when its object is needed.
            lists: If False, only `get` finds the objects: lists and all that is derived stay those of the other view.
        """
        super().__init__(view)
        self._objects = objects
        self._listed_kinds = frozenset(map(itemgetter(0), objects)) if lists else frozenset()
        self._lists: dict[str, tuple[Sequence[Object], Sequence[Object] | Unknown]] = {}
        """By kind, all objects of the other view, and all objects of this one."""

    def get(self, kind: str, name: str, namespace: str = "") -> Object | Unknown | None:
        """One object; None if it certainly does not exist."""
        key = kind, namespace, name
        return self._changed_object(key) if key in self._objects else self._view.get(kind, name, namespace)

    def list(self, kind: str, namespace: str = "") -> Sequence[Object] | Unknown:
        """All objects of a kind; only those of one namespace if it is given. Unknown if a changed one is."""
        before = self._view.list(kind, namespace)
        if kind not in self._listed_kinds or before is UNKNOWN:
            return before
        if namespace:
            return self._after_change(kind, before, namespace)
        kept = self._lists.get(kind)
        if kept is None or kept[0] is not before:
            kept = self._lists[kind] = before, self._after_change(kind, before)
        return kept[1]

    def objects_under_review(self, kind: str) -> Sequence[Object]:
        """The objects of a kind that are reviewed together, and those that are changed."""
        reviewed = self._view.objects_under_review(kind)
        if kind not in self._listed_kinds:
            return reviewed
        changed = self._after_change(kind, reviewed)
        return reviewed if changed is UNKNOWN else changed

    def digest(self, function: Callable[[ClusterView], T]) -> Digest[T]:
        """The digest of the other view, unless it read the kind of a changed object."""
        digest = self._view.digest(function)
        return digest if self._listed_kinds.isdisjoint(digest.generations) else ClusterView.digest(self, function)

    def derive_each(self, kind: str, function: Callable[[Object], T]) -> Sequence[T] | Unknown:
        """The results of `function` for all objects of a kind, in the order of `list`."""
        if kind not in self._listed_kinds:
            return self._view.derive_each(kind, function)
        before, results, objects = self._view.list(kind), self._view.derive_each(kind, function), self.list(kind)
        if before is UNKNOWN or results is UNKNOWN or objects is UNKNOWN:
            return UNKNOWN
        return self._results.results_of(kind, function, objects, zip(before, results, strict=True))

    def count_each(
        self, kind: str, function: Callable[[Object], H | None], wanted: Callable[[H], bool]
    ) -> Mapping[H, int] | Unknown:
        """The number of objects of a kind for each wanted result of `function`."""
        if kind not in self._listed_kinds:
            return self._view.count_each(kind, function, wanted)
        return ClusterView.count_each(self, kind, function, wanted)

    def _changed_object(self, key: Key) -> Object | Unknown | None:
        found = self._objects[key]
        return found() if callable(found) else found

    def _after_change(self, kind: str, listed: Sequence[Object], namespace: str = "") -> Sequence[Object] | Unknown:
        """A list with the changed objects of its kind; new ones come last. Unknown if a changed one is."""
        changed: dict[tuple[str, str], Object | None] = {}
        for key in self._objects:
            if key[0] == kind and namespace in ("", key[1]):
                found = self._changed_object(key)
                if found is UNKNOWN:
                    return UNKNOWN
                changed[key[1], key[2]] = found
        after, stored = [], set()
        for item in listed:
            where, name = namespace_of(item), name_of(item)
            if not where and (where, name) not in changed:
                # A manifest of a namespaced object may name no namespace.
                where = DEFAULT_NAMESPACE
            stored.add((where, name))
            after.append(changed.get((where, name), item))
        after += [item for key, item in changed.items() if key not in stored]
        return [item for item in after if item is not None]


class _Results(NamedTuple):
    """Objects, and a function's result for each in the same order."""

    objects: Sequence[Object]
    results: Sequence[Any]


class ResultsPerObject:
    """Results of functions, cached for each object of the latest list.

    Views never change an object but replace it, so the identity of an object is the key: while it is referenced here, no
    other object can have it.

    Thread-safe: each thread replaces a list and its results in one step; an older list costs only repeated calls.
    """

    def __init__(self) -> None:
        self._cached: dict[tuple[str, Callable[[Object], Any]], _Results] = {}
        self._counts: dict[tuple[str, Callable[[Object], Any]], tuple[Sequence[Any], Mapping[Any, int]]] = {}
        """The results that were counted last, each with their number."""

    def results_of(
        self,
        kind: str,
        function: Callable[[Object], T],
        objects: Sequence[Object],
        known: Iterable[tuple[Object, T]] = (),
    ) -> Sequence[T]:
        """The result for each object, in their order.

        Args:
            kind: The kind of all objects.
            function: Called for objects without a known result.
            objects: All objects of the kind, in a sequence that does not change later.
            known: Objects with their results, besides those that are cached; read if something is new.
        """
        cached = self._cached.get((kind, function))
        if cached is not None and cached.objects is objects:
            return cached.results
        count_work(_WORK_PER_OBJECT * len(objects))
        found = {} if cached is None else dict(zip(map(id, cached.objects), cached.results, strict=True))
        found |= {id(each): result for each, result in known}
        count_work(_WORK_PER_RESULT * sum(id(each) not in found for each in objects))
        results = [found[id(each)] if id(each) in found else _result(function, each) for each in objects]
        self._cached[kind, function] = _Results(objects, results)
        return results

    def counts_of(
        self, kind: str, function: Callable[[Object], H | None], results: Sequence[H | None]
    ) -> Mapping[H, int]:
        """The number of each result of `function` for all objects of a kind, without None."""
        counted = self._counts.get((kind, function))
        if counted is None or counted[0] is not results:
            counted = self._counts[kind, function] = results, Counter(each for each in results if each is not None)
        return counted[1]

    def forget(self, kind: str) -> None:
        """Drop the results for the objects of a kind."""
        for cached in (self._cached, self._counts):
            for key in [*cached]:
                if key[0] == kind:
                    cached.pop(key, None)


def _result(function: Callable[[Object], T], item: Object) -> T:
    count_work(0)  # lets other threads run
    return function(item)
