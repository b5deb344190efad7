"""The stored objects of every kind in order, the history of their changes, and their owners."""

from __future__ import annotations

import asyncio
from bisect import bisect_left, bisect_right, insort
from collections import defaultdict, deque
from dataclasses import dataclass, field
from operator import attrgetter
from typing import TYPE_CHECKING, Literal

import orjson

from policies.kubernetes.objects import lookup
from webhook.cluster.clockwork import rfc3339
from webhook.sandbox.crds import CRD, with_served_status
from webhook.sandbox.statuses import Attempt, not_found

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import datetime
    from random import Random

    from policies.kubernetes.objects import Object
    from webhook.cluster.resources import Resource
    from webhook.sandbox.kinds import Kind, Kinds
    from webhook.sandbox.statuses import Admission, Operation, User


Name = tuple[str, str]
"""Namespace and name."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One object in one version, as JSON: it cannot change, and lists need no encoding."""

    name: Name
    uid: str
    version: int
    labels: Mapping[str, str]
    fields: Mapping[str, str]
    """The values for field selectors."""
    owners: tuple[str, ...]
    """The uids of `metadata.ownerReferences`."""
    tail: bytes
    """The JSON after `kind` and `apiVersion`, which depend on the requested version."""

    def encode(self, kind: Kind) -> bytes:
        """The JSON of the object in one version of its kind."""
        return kind.head + self.tail

    def decode(self, kind: Kind) -> Object:
        """A new document, which the caller may change."""
        document: Object = orjson.loads(self.encode(kind))
        return document


def make_entry(kind: Kind, document: Object, version: int) -> Entry:
    """The entry of an object that is written under a version."""
    metadata = document["metadata"]
    shown = {key: value for key, value in document.items() if key not in ("kind", "apiVersion")}
    return Entry(
        name=(metadata.get("namespace", ""), metadata["name"]),
        uid=metadata["uid"],
        version=version,
        labels=metadata.get("labels") or {},
        fields={field: _field(document, field) for field in kind.fields},
        owners=tuple({str(owner["uid"]): None for owner in metadata.get("ownerReferences") or ()}),
        tail=orjson.dumps(shown)[1:],
    )


def _field(document: Object, field: str) -> str:
    """The value of a field as text for field selectors; empty if it is missing."""
    value = lookup(document, field.split("."))
    return value if isinstance(value, str) else "" if value is None else orjson.dumps(value).decode()


class TooOldError(Exception):
    """A version whose later changes are no longer all known."""

    def __init__(self, requested: int, oldest: int) -> None:
        super().__init__(f"too old resource version: {requested} ({oldest})")


@dataclass(frozen=True, slots=True)
class Change:
    """One write."""

    type: Literal["ADDED", "MODIFIED", "DELETED"]
    version: int
    entry: Entry
    """The new entry; for DELETED the last one, with the version of the deletion."""
    before: Entry | None
    """The old entry; None for ADDED."""


@dataclass(eq=False)
class History:
    """The latest changes of one kind, up to a limit."""

    limit: int
    _changes: list[Change] = field(default_factory=list, init=False)
    _oldest: int = field(default=0, init=False)
    _changed: asyncio.Event = field(default_factory=asyncio.Event, init=False)

    def add(self, change: Change) -> None:
        """Add a change, and wake all waiting watches."""
        self._changes.append(change)
        if len(self._changes) > 2 * self.limit:
            self.forget(keep=self.limit)
        self._changed.set()
        self._changed = asyncio.Event()

    def forget(self, keep: int = 0) -> None:
        """Forget all changes but the latest, as the API server does with time."""
        forgotten = len(self._changes) - keep
        if forgotten > 0:
            self._oldest = self._changes[forgotten - 1].version
            del self._changes[:forgotten]

    def after(self, version: int) -> list[Change]:
        """The changes after a version, oldest first.

        Raises:
            TooOldError: Some of them are forgotten.
        """
        if version < self._oldest:
            raise TooOldError(version, self._oldest)
        return self._changes[bisect_right(self._changes, version, key=attrgetter("version")) :]

    async def wait_for_change(self) -> None:
        """Wait for the next change."""
        await self._changed.wait()


@dataclass(frozen=True, slots=True)
class Place:
    """The place of an object: its kind, as group and plural, and its name."""

    kind: tuple[str, str]
    name: Name


class Collection:
    """The objects of one kind."""

    def __init__(self, history: int) -> None:
        self.entries: dict[Name, Entry] = {}
        self.names: list[Name] = []
        """In order, as lists show them."""
        self.history = History(history)

    def list(self, namespace: str = "") -> list[Entry]:
        """The entries of one namespace or of all, by namespace and name."""
        if not namespace:
            return [self.entries[name] for name in self.names]
        start = bisect_left(self.names, (namespace, ""))
        end = bisect_left(self.names, (f"{namespace}\0", ""), start)
        return [self.entries[name] for name in self.names[start:end]]


class Store:
    """Every object, and one counter of versions for all of them."""

    def __init__(self, history: int) -> None:
        """Begin without objects; `history` is the least number of changes of each kind that are kept."""
        self.version = 0
        self._history = history
        self._collections: dict[tuple[str, str], Collection] = {}
        self._places: dict[str, Place] = {}
        self._dependents: defaultdict[str, dict[Place, None]] = defaultdict(dict)

    def collection(self, kind: Kind) -> Collection:
        """The objects of a kind, in all its versions."""
        if kind.key not in self._collections:
            self._collections[kind.key] = Collection(self._history)
        return self._collections[kind.key]

    def get(self, kind: Kind, namespace: str, name: str) -> Entry | None:
        """One object, if it exists."""
        return self.collection(kind).entries.get((namespace, name))

    def put(self, kind: Kind, document: Object) -> Object:
        """Write an object under a new version; returns it as written.

        Args:
            kind: Its kind.
            document: The object with name and uid; it is not changed.
        """
        collection = self.collection(kind)
        self.version += 1
        metadata = {**document["metadata"], "resourceVersion": str(self.version)}
        written = {"kind": document["kind"], "apiVersion": document["apiVersion"], "metadata": metadata} | {
            key: value for key, value in document.items() if key not in ("kind", "apiVersion", "metadata")
        }
        entry = make_entry(kind, written, self.version)
        before = collection.entries.get(entry.name)
        if before is None:
            insort(collection.names, entry.name)
        else:
            self._forget(kind, before)
        collection.entries[entry.name] = entry
        place = Place(kind.key, entry.name)
        self._places[entry.uid] = place
        for owner in entry.owners:
            self._dependents[owner][place] = None
        collection.history.add(Change("MODIFIED" if before else "ADDED", self.version, entry, before))
        return written

    def remove(self, kind: Kind, namespace: str, name: str) -> Entry:
        """Remove an object; returns its last state with the version of its deletion.

        Raises:
            KeyError: It does not exist.
        """
        collection = self.collection(kind)
        before = collection.entries.pop((namespace, name))
        del collection.names[bisect_left(collection.names, before.name)]
        self._forget(kind, before)
        self.version += 1
        document = before.decode(kind)
        document["metadata"]["resourceVersion"] = str(self.version)
        entry = make_entry(kind, document, self.version)
        collection.history.add(Change("DELETED", self.version, entry, before))
        return entry

    def forget_history(self) -> None:
        """Forget all changes, so that no watch can resume from an older version."""
        for collection in self._collections.values():
            collection.history.forget()

    def place(self, uid: str) -> Place | None:
        """The place of the object with a UID; None if it does not exist."""
        return self._places.get(uid)

    def dependents(self, uid: str) -> list[Place]:
        """The objects that name an object among their owners."""
        return list(self._dependents.get(uid, ()))

    def in_namespace(self, namespace: str) -> list[Place]:
        """Everything in a namespace."""
        return [
            Place(kind, entry.name)
            for kind, collection in self._collections.items()
            for entry in collection.list(namespace)
        ]

    def _forget(self, kind: Kind, entry: Entry) -> None:
        place = Place(kind.key, entry.name)
        self._places.pop(entry.uid, None)
        for owner in entry.owners:
            self._dependents[owner].pop(place, None)
            if not self._dependents[owner]:
                del self._dependents[owner]


@dataclass(frozen=True, slots=True)
class Call:
    """The user, the options and the warnings of a write."""

    user: User
    options: Object
    """The options of the write, with `kind` and `apiVersion`."""
    warn: Callable[[str], None] = lambda _warning: None
    """Called for each warning; controllers do not show them."""
    dry_run: bool = False

    def attempt(
        self,
        operation: Operation,
        resource: Resource,
        place: tuple[str, str],
        new: Object | None,
        old: Object | None,
        subresource: str = "",
    ) -> Attempt:
        """The attempt to write an object at a namespace and name."""
        namespace, name = place
        if resource.kind == "Namespace" and not namespace:
            namespace = lookup(new or old, ("metadata", "name")) or name
        return Attempt(
            operation, resource, subresource, namespace, name, new, old, self.user, self.dry_run, self.options
        )


@dataclass(slots=True)
class Cluster:
    """One cluster, as its API server knows it."""

    kinds: Kinds
    store: Store
    clock: Callable[[], datetime]
    random: Random
    feature_gates: frozenset[str] = frozenset()
    """The enabled feature gates."""
    admission: Admission = field(init=False)
    """Set before the first write that passes admission."""
    chores: deque[Chore] = field(default_factory=deque)
    """Pending work of controllers, from the writes so far."""

    def objects(self, kind: str, namespace: str = "") -> list[Object]:
        """The objects of a kind in one namespace or all, sorted; none for a kind that is not served."""
        served = self.kinds.find(kind)
        if served is None:
            return []
        return [entry.decode(served) for entry in self.store.collection(served).list(namespace)]

    def get(self, kind: str, name: str, namespace: str = "") -> Object | None:
        """One object, if it exists."""
        served = self.kinds.find(kind)
        entry = None if served is None else self.store.get(served, namespace, name)
        return None if entry is None or served is None else entry.decode(served)

    def entry_of(self, kind: Kind, namespace: str, name: str) -> Entry:
        """The entry of an object.

        Raises:
            Refused: It does not exist.
        """
        entry = self.store.get(kind, namespace, name)
        if entry is None:
            raise not_found(kind.resource, name)
        return entry

    def now(self) -> str:
        """The current time in the format of Kubernetes objects."""
        return rfc3339(self.clock())

    def commit(self, kind: Kind, document: Object) -> Object:
        """Store an object; the kind of a CustomResourceDefinition is served from now on."""
        if kind.resource.kind != CRD:
            return self.store.put(kind, document)
        written = self.store.put(kind, with_served_status(document, self.now()))
        self.kinds.define(written)
        return written

    def remove(self, kind: Kind, entry: Entry) -> Object:
        """Remove an object from the store; returns it with the version of its deletion.

        Removing a CustomResourceDefinition removes all its custom resources, even with finalizers.
        """
        removed = self.store.remove(kind, *entry.name).decode(kind)
        self.chores.append(Clear(entry.uid, entry.name[0]))
        if kind.resource.kind == CRD:
            key = removed["spec"]["group"], removed["spec"]["names"]["plural"]
            if (defined := self.kinds.of_key(key)) is not None:
                for custom in self.store.collection(defined).list():
                    self.remove(defined, custom)
            self.kinds.forget(removed)
        return removed


@dataclass(frozen=True, slots=True)
class Adopt:
    """A new object has owner references; delete it if none of the owners exists."""

    place: Place


@dataclass(frozen=True, slots=True)
class Orphan:
    """The object of this UID is deleted without its dependents."""

    uid: str


@dataclass(frozen=True, slots=True)
class Clear:
    """The object of this UID is deleted; delete its dependents."""

    uid: str
    namespace: str
    """Its namespace, whose deletion may wait for it."""


@dataclass(frozen=True, slots=True)
class EndNamespace:
    """A namespace is deleted with everything in it."""

    name: str


Chore = Adopt | Orphan | Clear | EndNamespace
