"""Counts of a store: values of its objects, requests of other pods, and deleted UIDs."""

from __future__ import annotations

import math
import time
from collections import Counter
from sys import intern
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import orjson

from policies.kubernetes.objects import lookup, name_of, namespace_of
from policies.kubernetes.quantities import taken_by

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence

    from policies.kubernetes.objects import Object
    from policies.kubernetes.quantities import Amounts
    from webhook.cluster.resources import Resource


_Record = tuple[str, "Amounts"]
"""A pod's node, and what it uses there."""


class OtherPods:
    """The amounts that pods which are not kept use on each node.

    Explanations need the cpu and memory left on a node, and most pods that use them request no GPUs. Of such a pod only
    the node and the requests are kept, a fiftieth of the pod. Thread-safe: a change replaces a node's sums in one step.
    """

    def __init__(self, known: OtherPods | None = None) -> None:
        """Equal records of `known` are shared, to save memory."""
        self.version = 0
        """Grows whenever a sum changes."""
        self._known: dict[str, dict[str, _Record]] = known._records if known else {}  # noqa: SLF001 - of the same class
        self._records: dict[str, dict[str, _Record]] = {}
        self._sums: dict[str, Mapping[str, int]] = {}

    def __len__(self) -> int:
        """The number of pods."""
        return sum(map(len, self._records.values()))

    def on(self, node: str) -> Mapping[str, int]:
        """Amounts that these pods use on a node: billionths by resource, and one of `pods` each; read-only."""
        return self._sums.get(node, {})

    def put(self, namespace: str, name: str, pod: Object | None) -> None:
        """Count a pod in its new state.

        Args:
            namespace: The pod's namespace.
            name: The pod's name.
            pod: The whole pod; None if it no longer counts.
        """
        before = self._records.get(namespace, {}).get(name)
        now = None if pod is None else self._record(namespace, name, pod)
        if before == now:
            return
        if before is not None:
            self._remove(namespace, name, before)
        if now is not None:
            self._records.setdefault(namespace, {})[name] = now
            self._add(now, 1)
        self.version += 1

    def replace(self, others: OtherPods) -> None:
        """Replace all records by those of `others`, which must not be used afterwards."""
        is_same = self._sums == others._sums
        self._records, self._sums = others._records, others._sums
        if not is_same:
            self.version += 1

    def _record(self, namespace: str, name: str, pod: Object) -> _Record | None:
        taken = taken_by(pod)
        if taken is None:
            return None
        record = (intern(taken[0]), taken[1])
        known = self._known.get(namespace, {}).get(name)
        return known if known == record else record

    def _remove(self, namespace: str, name: str, record: _Record) -> None:
        records = self._records[namespace]
        del records[name]
        if not records:
            del self._records[namespace]
        self._add(record, -1)

    def _add(self, record: _Record, times: int) -> None:
        node, amounts = record
        sums = {**self.on(node)}
        for name, amount in amounts:
            sums[name] = sums.get(name, 0) + times * amount
            if not sums[name]:
                del sums[name]
        if sums:
            self._sums[node] = sums
        else:
            del self._sums[node]


H = TypeVar("H", bound="Hashable")


class ValueCounts:
    """Counts of the values that functions return for the objects of one store.

    They follow each change, so that reading them is fast for any number of objects. Thread-safe: readers get a copy, which
    is made in one step.
    """

    def __init__(self, functions: tuple[Callable[[Object], Any], ...] = ()) -> None:
        """If a function returns None for an object, the object is not counted."""
        self.functions = functions
        self._counts: dict[Callable[[Object], Any], dict[Any, int]] = {function: {} for function in functions}

    def counts(self, function: Callable[[Object], H | None]) -> Mapping[H, int] | None:
        """The number of objects for each value of a function; None for a function that is not counted."""
        counts = self._counts.get(function)
        return None if counts is None else dict(counts)

    def change(self, before: Object | None, after: Object | None) -> None:
        """Count an object instead of another; None for no object."""
        for function, counts in self._counts.items():
            if before is not None:
                _add(counts, function(before), -1)
            if after is not None:
                _add(counts, function(after), 1)


def _add(counts: dict[Any, int], value: Any, times: int) -> None:
    if value is None:
        return
    count = counts.get(value, 0) + times
    if count:
        counts[value] = count
    else:
        del counts[value]


_MOST_COUNTS = 20_000


class DeletedUids:
    """The UIDs of the last objects that were deleted, or are no longer kept, as pods that have ended.

    Objects that are created and deleted between two reads of a store are only seen by the store.
    """

    def __init__(self) -> None:
        self._uids: dict[str, None] = {}

    def __contains__(self, uid: object) -> bool:
        return uid in self._uids

    def add(self, before: Iterable[Object], after: Iterable[Object]) -> None:
        """Record the UIDs that are in `before` but not in `after`; a new object may have the same name."""
        if not (uids := [uid for each in before if (uid := _uid(each))]):
            return
        kept = {_uid(each) for each in after}
        self._uids.update(dict.fromkeys(uid for uid in uids if uid not in kept))
        while len(self._uids) > _MOST_COUNTS:
            del self._uids[next(iter(self._uids))]

    def clear(self) -> None:
        """Forget all UIDs."""
        self._uids.clear()


def _uid(document: Object) -> str:
    uid = lookup(document, ("metadata", "uid"))
    return uid if isinstance(uid, str) else ""


_MOST = 8192


class Sharing:
    """Returns the same object for equal parts that it has seen recently; callers must not change them.

    5,000 nodes have a hundred different taints, and 20,000 pods a thousand different lists of containers. Parts that
    recur stay cached; others are dropped soon, so that this cache stays small. At most twice `most` parts are cached.
    """

    def __init__(self, most: int = _MOST) -> None:
        self._most = most
        self._recent: dict[bytes, Any] = {}
        self._older: dict[bytes, Any] = {}

    def part(self, value: Any) -> Any:
        """An equal value, with keys in the same order, shared with other objects if possible."""
        kind = type(value)
        if kind is str:
            return intern(value)
        if kind is not dict and kind is not list:
            return value
        try:
            written = orjson.dumps(value)
        except orjson.JSONEncodeError:
            # orjson reads deeper nesting than it writes; opaque parameters of a claim can be that deep.
            return value
        known = self._recent.get(written)
        if known is None:
            known = self._older.get(written, value)
            # A copy, because orjson's bytes keep their whole buffer of kilobytes.
            self._recent[bytes(memoryview(written))] = known
            if len(self._recent) >= self._most:
                self._older, self._recent = self._recent, {}
        return known

    def texts(self, value: Any) -> Any:
        """A mapping such as labels, or a list of them, with interned strings; they are rarely equal."""
        if isinstance(value, list):
            return [self.texts(item) for item in value]
        if not isinstance(value, dict):
            return value
        return {intern(key): intern(each) if type(each) is str else each for key, each in value.items()}


NOT_LISTED = "not listed yet"
"""The reason of a store that waits, until a list fails."""

SENDS_NOTHING = "the watch is open, and the API server sends nothing"
"""The reason why a synced store is out of date."""

TRUSTED_SECONDS = 120.0
"""For how many seconds the objects of a store are used after the last contact. A restarted API server is back sooner, and
a GPU cluster changes little in that time."""

State = Literal["waiting", "synced", "stale", "absent", "forbidden"]
"""The state of a store.

- `waiting`: it was never filled; its objects are unknown.
- `synced`: it has the objects of the API server, except for events in transit.
- `stale`: it was synced; changes since then may be missing.
- `absent`: the API server does not serve the resource; there are no objects.
- `forbidden`: RBAC forbids to list or watch the resource; its objects are unknown.
"""

_Namespace = dict[str, "Object"]
"""The kept objects of a namespace, by name."""


class Store:
    """The objects of one resource, by namespace and name.

    Kept objects are never changed, only replaced. An object that trims to the same as before is not a change, so that
    heartbeats of nodes do not make caches outdated.

    Args:
        resource: The resource. Objects in lists lack `kind` and `apiVersion`, which the store adds.
        trim: Returns the part of an object to keep, or None to drop it; must not change its argument.
        others: Sums the requests of the pods that are not kept; None for other resources.
        gone: Records the UIDs of objects that are no longer kept; None if they are not needed.
        counted: Functions whose values are counted change by change, for `counts`.
        clock: Monotonic seconds, for the last contact.
        on_change: Called after every change of objects or state.
    """

    def __init__(
        self,
        resource: Resource,
        trim: Callable[[Object], Object | None] | None = None,
        *,
        others: OtherPods | None = None,
        gone: DeletedUids | None = None,
        counted: tuple[Callable[[Object], Any], ...] = (),
        clock: Callable[[], float] = time.monotonic,
        on_change: Callable[[], None] = lambda: None,
    ) -> None:
        self.resource = resource
        self.others = others
        self.gone = gone
        self.value_counts = ValueCounts(counted)
        self.state: State = "waiting"
        self.reason = NOT_LISTED
        """The reason why the state is not `synced`; empty if it is."""
        self.was_served = False
        """True once the resource was listed; if it is absent then, the API server no longer serves it."""
        self.last_contact = -math.inf
        """When the API server last showed that the objects are up to date: by a list, by accepting a watch, or by an event or
        a bookmark of it."""
        self.version = 0
        """Grows with every change of objects or state; not of `others`."""
        self.resource_version = ""
        """The resourceVersion of the last list or event; empty before the first list."""
        self.listed_version = ""
        """The resourceVersion of the last list; each later change was seen."""
        self.changed_version = ""
        """The resourceVersion of the last list, or of the last event that is not a bookmark. A watch of the same objects that
        has reached it has seen all that this store shows; bookmarks come to each watch at other times."""
        self._trim = trim
        self._clock = clock
        self._on_change = on_change
        self._namespaces: dict[str, _Namespace] = {}
        self._listed: dict[str, tuple[Object, ...]] = {}

    def __len__(self) -> int:
        return sum(map(len, self._namespaces.values()))

    def get(self, namespace: str, name: str) -> Object | None:
        """One object; None if the store does not have it, which may mean little in the current state."""
        return self._namespaces.get(namespace, {}).get(name)

    def list(self, namespace: str = "") -> Sequence[Object]:
        """All objects, or those of one namespace.

        Thread-safe while the event loop applies events: each dict is copied in one step, and the result is cached in the
        dict that a concurrent change has replaced.
        """
        listed = self._listed
        found = listed.get(namespace)
        if found is None:
            # Callers may name any number of namespaces that do not exist, so these are not cached.
            if namespace and namespace not in self._namespaces:
                return ()
            where = [self._namespaces.get(namespace, {})] if namespace else [*self._namespaces.values()]
            found = tuple(kept for named in where for kept in [*named.values()])
            listed[namespace] = found
        return found

    @property
    def silent_seconds(self) -> float:
        """Seconds since the last contact; infinite before the first one."""
        return self._clock() - self.last_contact

    @property
    def is_trusted(self) -> bool:
        """True if the objects are known, and the last contact is at most `TRUSTED_SECONDS` ago."""
        return self.state in ("synced", "stale") and self.silent_seconds < TRUSTED_SECONDS

    def counts(self, function: Callable[[Object], H | None]) -> Mapping[H, int]:
        """The number of objects for each value of `function`, without None."""
        known = self.value_counts.counts(function)
        if known is not None:
            return known
        return Counter(value for value in map(function, self.list()) if value is not None)

    def apply(self, event: dict[str, Any]) -> None:
        """Apply ADDED, MODIFIED, DELETED or BOOKMARK of a watch; ignores events of an older version."""
        item = event["object"]
        found = lookup(item, ("metadata", "resourceVersion"))
        version = found if isinstance(found, str) else ""
        self._note_contact()
        if is_older(version, self.resource_version):
            return
        if event["type"] != "BOOKMARK":
            self._put(namespace_of(item), name_of(item), None if event["type"] == "DELETED" else item)
            self.changed_version = version
        self.resource_version = version

    def mark(self, state: State, reason: str = "") -> None:
        """Enter a state. Objects of a resource that is absent or forbidden are dropped.

        Args:
            state: `stale` does not change the state of a store whose objects are unknown, only its reason.
            reason: Why the store is not synced.
        """
        if state == "stale" and self.state in ("waiting", "forbidden"):
            state = self.state
        if state in ("absent", "forbidden"):
            self._namespaces = {}
            self.resource_version = self.listed_version = self.changed_version = ""
            self.value_counts = ValueCounts(self.value_counts.functions)
            if self.others is not None:
                self.others.replace(OtherPods())
        if state == "synced":
            self.was_served = True
            self._note_contact()
        if state != self.state:
            self.state = state
            self._count_change()
        self.reason = reason

    def trim(self, item: Object) -> Object | None:
        """The part of an object that is kept; None if it is dropped."""
        kept = item if self._trim is None else self._trim(item)
        if kept is None or ("kind" in kept and "apiVersion" in kept):
            return kept
        return {"apiVersion": self.resource.api_version, "kind": self.resource.kind, **kept}

    def _note_contact(self) -> None:
        """Set the time of the last contact; it is a change if the objects were not trusted any more."""
        is_change = self.state in ("synced", "stale") and not self.is_trusted
        self.last_contact = self._clock()
        if is_change:
            self._count_change()

    def _put(self, namespace: str, name: str, item: Object | None) -> None:
        """Keep an object in its new state; None if it is deleted."""
        kept = None if item is None else self.trim(item)
        if self.others is not None:
            self.others.put(namespace, name, item if kept is None else None)
        named = self._namespaces.get(namespace, {})
        before = named.get(name)
        if before == kept:
            return
        if self.gone is not None and before is not None:
            self.gone.add([before], [] if kept is None else [kept])
        if kept is None:
            del named[name]
            if not named:
                del self._namespaces[namespace]
        else:
            self._namespaces.setdefault(namespace, named)[name] = kept
        self.value_counts.change(before, kept)
        self._count_change()

    def _count_change(self) -> None:
        # In this order, so that a thread which sees the new version lists the new objects.
        self._listed = {}
        self.version += 1
        self._on_change()

    def _replace(
        self, namespaces: dict[str, _Namespace], others: OtherPods | None, counts: ValueCounts, resource_version: str
    ) -> None:
        is_same = namespaces == self._namespaces
        if self.gone is not None:
            if is_older(resource_version, self.resource_version):
                # etcd was restored: deleted objects may exist again.
                self.gone.clear()
            self.gone.add(_not_in(namespaces, self._namespaces), _not_in(self._namespaces, namespaces))
        self._namespaces, self.resource_version = namespaces, resource_version
        self.listed_version = self.changed_version = resource_version
        self.value_counts = counts
        if self.others is not None and others is not None:
            self.others.replace(others)
        if not is_same:
            self._count_change()
        self.mark("synced")


class Listing:
    """A list that is read into a store.

    It trims page by page, so that the whole list is never in memory untrimmed. The store keeps its objects until the list is finished.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._namespaces: dict[str, _Namespace] = {}
        self._others = None if store.others is None else OtherPods(store.others)
        self._value_counts = ValueCounts(store.value_counts.functions)

    def add(self, objects: Iterable[Object]) -> None:
        """Add the objects of one page."""
        for item in objects:
            kept = self._store.trim(item)
            namespace, name = namespace_of(item), name_of(item)
            if kept is not None:
                before = self._store.get(namespace, name)
                # An unchanged object keeps its identity: it saves memory, and cached results are found by it.
                shared = before if before == kept else kept
                self._namespaces.setdefault(namespace, {})[name] = shared
                self._value_counts.change(None, shared)
            elif self._others is not None:
                self._others.put(namespace, name, item)

    def finish(self, resource_version: str) -> None:
        """Replace everything in the store by this list; the store is synced then.

        A consistent list is valid even if it is older than the store: etcd restored from a backup has an earlier version.
        """
        self._store._replace(self._namespaces, self._others, self._value_counts, resource_version)


def is_older(version: str, than: str) -> bool:
    """True if one resourceVersion is before another of the same resource.

    Decimal numbers of any length are ordered, by the API conventions of Kubernetes 1.35 and newer (KEP-5504). Other
    strings are not compared, and count as new.
    """
    if not (version.isascii() and version.isdigit() and than.isascii() and than.isdigit()):
        return False
    return (len(version), version) < (len(than), than)


def _not_in(others: dict[str, _Namespace], namespaces: dict[str, _Namespace]) -> Iterator[Object]:
    """The objects that others do not contain; an unchanged object has the same identity in both lists."""
    for namespace, named in namespaces.items():
        other = others.get(namespace, {})
        for name, item in named.items():
            if other.get(name) is not item:
                yield item
