"""What the server holds: the entries of every kind, in order, and who owns whom."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from webhook.sandbox.stored_entries import Change, History, make_entry

if TYPE_CHECKING:
    from policies.kubernetes.objects import Object
    from webhook.sandbox.kinds import Kind
    from webhook.sandbox.stored_entries import Entry, Name

__all__ = ["Place", "Store"]


@dataclass(frozen=True, slots=True)
class Place:
    """Where an object is: its kind, as group and plural, and its name."""

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
        """Begin with nothing.

        Args:
            history: How many changes of each kind are remembered at least.
        """
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
        """Take an object away; returns it as it was, under the version of its end.

        Raises:
            KeyError: there is none.
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
        """Forget all changes, so that every older version is too old to go on from."""
        for collection in self._collections.values():
            collection.history.forget()

    def place(self, uid: str) -> Place | None:
        """Where the object of a uid is."""
        return self._places.get(uid)

    def dependents(self, uid: str) -> list[Place]:
        """What names an object among its owners."""
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
