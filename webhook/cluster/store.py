"""What one reflector keeps: the objects of one resource, trimmed, and how far they can be believed."""

from __future__ import annotations

import time
from collections import Counter
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from policies.kubernetes.objects import name_of, namespace_of
from policies.kubernetes.paths import lookup
from webhook.cluster.store_counts import OtherPods, Tallies

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence

    from policies.kubernetes.objects import Object
    from webhook.cluster.resources import Resource
    from webhook.cluster.store_counts import Gone

__all__ = ["NOT_LISTED", "Listing", "State", "Store", "is_older"]

H = TypeVar("H", bound="Hashable")

NOT_LISTED = "it was not listed yet"
"""Why a store waits of which nobody has said that it cannot be listed."""

State = Literal["waiting", "synced", "stale", "absent", "forbidden"]
"""How far a store can be believed.

- `waiting`: it was never filled; nothing is known.
- `synced`: it has what the API server has, but for what is on its way.
- `stale`: it was synced, and since then changes may have been missed.
- `absent`: the API server does not serve the resource; there are no objects.
- `forbidden`: RBAC does not let us list or watch it; nothing is known.
"""

_Namespace = dict[str, "Object"]
"""What is kept of objects, by name."""


class Store:
    """The objects of one resource, by namespace and name.

    What is kept belongs to the store: nobody changes it. A change replaces an object by a new one; one that trims to
    the same is no change, so that the heartbeats of nodes do not look like news.

    Args:
        resource: What is kept. Objects in lists come without `kind` and `apiVersion`; here they get them.
        trim: What to keep of an object; None for an object that is of no interest. It is not to change its argument.
        others: Counts the pods that are not kept; None for a store of which nobody asks that.
        gone: Remembers what was kept and is no more; None for a store of which nobody asks that.
        tallied: Functions of which `counts` is asked often.
        clock: Seconds, for `since`.
    """

    def __init__(
        self,
        resource: Resource,
        trim: Callable[[Object], Object | None] | None = None,
        *,
        others: OtherPods | None = None,
        gone: Gone | None = None,
        tallied: tuple[Callable[[Object], Any], ...] = (),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.resource = resource
        self.others = others
        self.gone = gone
        self.tallies = Tallies(tallied)
        self.state: State = "waiting"
        self.reason = NOT_LISTED
        """Why the state is not `synced`; empty where it is."""
        self.since = clock()
        """When the state was entered."""
        self.version = 0
        """Grows whenever an answer of this store can differ from the one before: objects or state; not `others`."""
        self.resource_version = ""
        """How far the API server's history is contained; empty before the first list."""
        self._trim = trim
        self._clock = clock
        self._namespaces: dict[str, _Namespace] = {}
        self._listed: dict[str, tuple[Object, ...]] = {}

    def __len__(self) -> int:
        return sum(map(len, self._namespaces.values()))

    def get(self, namespace: str, name: str) -> Object | None:
        """One object, None where the store has none; the state says what that is worth."""
        return self._namespaces.get(namespace, {}).get(name)

    def list(self, namespace: str = "") -> Sequence[Object]:
        """All objects, of one namespace where one is given.

        Other threads may ask as well, while the loop takes events: each dict is copied in one step, and what was
        gathered is remembered where a change that came meanwhile has thrown it away already.
        """
        listed = self._listed
        found = listed.get(namespace)
        if found is None:
            # Callers name namespaces that do not exist as often as they like, so nothing is remembered of these.
            if namespace and namespace not in self._namespaces:
                return ()
            where = [self._namespaces.get(namespace, {})] if namespace else [*self._namespaces.values()]
            found = tuple(kept for named in where for kept in [*named.values()])
            listed[namespace] = found
        return found

    def counts(self, function: Callable[[Object], H | None]) -> Mapping[H, int]:
        """For how many objects `function` gives the same; None is left out. Of functions that are tallied it is known."""
        known = self.tallies.of(function)
        if known is not None:
            return known
        return Counter(value for value in map(function, self.list()) if value is not None)

    def listing(self) -> Listing:
        """Begin to take a list page by page. The store keeps what it has until the list is finished."""
        return Listing(self)

    def apply(self, event: dict[str, Any]) -> None:
        """Take one event of a watch: ADDED, MODIFIED, DELETED, or BOOKMARK, which says only how far the history is.

        An event that tells of an older state than the one that the store has come to changes nothing.
        """
        item = event["object"]
        version = _version_of(item)
        if is_older(version, self.resource_version):
            return
        if event["type"] != "BOOKMARK":
            self._put(namespace_of(item), name_of(item), None if event["type"] == "DELETED" else item)
        self.resource_version = version

    def mark(self, state: State, reason: str = "") -> None:
        """Enter a state. Objects of a resource that is absent or forbidden are dropped.

        Args:
            state: `stale` leaves a store of which nothing is known in its state, with the new reason.
            reason: Why.
        """
        if state == "stale" and self.state in ("waiting", "forbidden"):
            state = self.state
        if state in ("absent", "forbidden"):
            self._namespaces, self.resource_version = {}, ""
            self.tallies = Tallies(self.tallies.functions)
            if self.others is not None:
                self.others.replace(OtherPods())
        if state != self.state:
            self.state, self.since = state, self._clock()
            self._changed()
        self.reason = reason

    def kept(self, item: Object) -> Object | None:
        """What is kept of an object; None where it is of no interest."""
        kept = item if self._trim is None else self._trim(item)
        if kept is None or ("kind" in kept and "apiVersion" in kept):
            return kept
        return {"apiVersion": self.resource.api_version, "kind": self.resource.kind, **kept}

    def _put(self, namespace: str, name: str, item: Object | None) -> None:
        """Take an object as it is now; None where it is gone."""
        kept = None if item is None else self.kept(item)
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
        self.tallies.change(before, kept)
        self._changed()

    def _note_gone(self, gone: Gone, namespaces: dict[str, _Namespace], resource_version: str) -> None:
        if is_older(resource_version, self.resource_version):
            # What an etcd that was restored has again is there once more.
            gone.clear()
        gone.add(_objects(self._namespaces), _objects(namespaces))

    def _changed(self) -> None:
        # In this order: what another thread lists and takes for new has to be new.
        self._listed = {}
        self.version += 1

    def _replace(
        self, namespaces: dict[str, _Namespace], others: OtherPods | None, tallies: Tallies, resource_version: str
    ) -> None:
        same = namespaces == self._namespaces
        if self.gone is not None:
            self._note_gone(self.gone, namespaces, resource_version)
        self._namespaces, self.resource_version = namespaces, resource_version
        self.tallies = tallies
        if self.others is not None and others is not None:
            self.others.replace(others)
        if not same:
            self._changed()
        self.mark("synced")


class Listing:
    """A list on its way into a store: trimmed page by page, so that the whole is never in memory untrimmed."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._namespaces: dict[str, _Namespace] = {}
        self._others = None if store.others is None else OtherPods(store.others)
        self._tallies = Tallies(store.tallies.functions)

    def add(self, objects: Iterable[Object]) -> None:
        """Take the objects of one page."""
        for item in objects:
            kept = self._store.kept(item)
            namespace, name = namespace_of(item), name_of(item)
            if kept is not None:
                before = self._store.get(namespace, name)
                # One object for what did not change: twice a cluster would be too much, and parts are known by it.
                same = before if before == kept else kept
                self._namespaces.setdefault(namespace, {})[name] = same
                self._tallies.change(None, same)
            elif self._others is not None:
                self._others.put(namespace, name, item)

    def finish(self, resource_version: str) -> None:
        """Put the list in place of everything that the store has, and the store is synced.

        A consistent list is the truth even where it is older than what the store has: an etcd that was restored from
        a backup begins again at an earlier version.
        """
        self._store._replace(self._namespaces, self._others, self._tallies, resource_version)


def is_older(version: str, than: str) -> bool:
    """Whether one resourceVersion comes before another of the same resource.

    Decimal numbers of any length are in order, by the API conventions of Kubernetes 1.35 and newer (KEP-5504); what is
    no number is not compared, and counts as new.
    """
    if not (version.isascii() and version.isdigit() and than.isascii() and than.isdigit()):
        return False
    return (len(version), version) < (len(than), than)


def _objects(namespaces: dict[str, _Namespace]) -> Iterator[Object]:
    return (item for named in namespaces.values() for item in named.values())


def _version_of(item: Object) -> str:
    version = lookup(item, ("metadata", "resourceVersion"))
    return version if isinstance(version, str) else ""
