"""The cluster that the server works on: its store, its kinds, and what every write passes through."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from webhook.cluster.clockwork import rfc3339
from webhook.sandbox.crds import CRD, established

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime
    from random import Random

    from policies.kubernetes.objects import Object
    from webhook.sandbox.attempt import Admission, Attempt, User
    from webhook.sandbox.kinds import Kind, Kinds
    from webhook.sandbox.store import Place, Store
    from webhook.sandbox.stored_entries import Entry

__all__ = ["Adopt", "Call", "Chore", "Clear", "Cluster", "EndNamespace", "Orphan", "Unguarded"]


@dataclass(frozen=True, slots=True)
class Call:
    """In whose name a write happens, and how."""

    user: User
    options: Object
    """The options of the write, with `kind` and `apiVersion`."""
    warn: Callable[[str], None]
    dry_run: bool = False


class Unguarded:
    """Admission that lets everything through as it is."""

    async def mutate(self, attempt: Attempt, warn: Callable[[str], None]) -> Object | None:
        """The object of the attempt."""
        return attempt.object

    async def validate(self, attempt: Attempt, warn: Callable[[str], None]) -> None:
        """Let it through."""


@dataclass(slots=True)
class Cluster:
    """One cluster, as its API server knows it."""

    kinds: Kinds
    store: Store
    clock: Callable[[], datetime]
    random: Random
    feature_gates: frozenset[str] = frozenset()
    """Those that are on."""
    admission: Admission = field(default_factory=Unguarded)
    chores: deque[Chore] = field(default_factory=deque)
    """What the writes so far left to do."""

    def objects(self, kind: str, namespace: str = "") -> list[Object]:
        """The objects of a kind by namespace and name, of one namespace or of all; none for a kind not served."""
        served = self.kinds.called(kind)
        if served is None:
            return []
        return [entry.decode(served) for entry in self.store.collection(served).list(namespace)]

    def get(self, kind: str, name: str, namespace: str = "") -> Object | None:
        """One object, if it exists."""
        served = self.kinds.called(kind)
        entry = None if served is None else self.store.get(served, namespace, name)
        return None if entry is None or served is None else entry.decode(served)

    def now(self) -> str:
        """The time as objects write it."""
        return rfc3339(self.clock())

    def commit(self, kind: Kind, document: Object) -> Object:
        """Store an object; a definition of custom resources is served from here on."""
        if kind.resource.kind != CRD:
            return self.store.put(kind, document)
        written = self.store.put(kind, established(document, self.now()))
        self.kinds.define(written)
        return written

    def remove(self, kind: Kind, entry: Entry) -> Object:
        """Take an object out of the store; returns it under the version of its end.

        With a definition go all custom resources of its kind, whatever finalizers they have.
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
    """An object came that names owners; without any, it goes."""

    place: Place


@dataclass(frozen=True, slots=True)
class Orphan:
    """The object of this uid is to go without what it owns."""

    uid: str


@dataclass(frozen=True, slots=True)
class Clear:
    """The object of this uid is gone; what it owned goes too."""

    uid: str
    namespace: str
    """Where it was: its namespace may have waited for it to be gone."""


@dataclass(frozen=True, slots=True)
class EndNamespace:
    """A namespace is to go with everything in it."""

    name: str


Chore = Adopt | Orphan | Clear | EndNamespace
