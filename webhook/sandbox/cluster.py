"""The cluster that the server works on: its store, its kinds, and what every write passes through."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from policies.kubernetes.objects import lookup
from webhook.cluster.clockwork import rfc3339
from webhook.sandbox.crds import CRD, with_served_status
from webhook.sandbox.statuses import Attempt, not_found

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime
    from random import Random

    from policies.kubernetes.objects import Object
    from webhook.cluster.resources import Resource
    from webhook.sandbox.kinds import Kind, Kinds
    from webhook.sandbox.statuses import Admission, Operation, User
    from webhook.sandbox.store import Entry, Place, Store

__all__ = ["Adopt", "Call", "Clear", "Cluster", "EndNamespace", "Orphan"]


def _ignore_warning(_warning: str) -> None:
    """Controllers do not show warnings."""


@dataclass(frozen=True, slots=True)
class Call:
    """The user, the options and the warnings of a write."""

    user: User
    options: Object
    """The options of the write, with `kind` and `apiVersion`."""
    warn: Callable[[str], None] = _ignore_warning
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
