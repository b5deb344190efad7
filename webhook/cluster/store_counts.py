"""What a store keeps beside its objects: counts of values, requests of pods that are not kept, UIDs of deleted objects."""

from __future__ import annotations

from sys import intern
from typing import TYPE_CHECKING, Any, TypeVar

from policies.kubernetes.amounts import taken_by
from policies.kubernetes.paths import lookup

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Mapping

    from policies.kubernetes.amounts import Amounts
    from policies.kubernetes.objects import Object

__all__ = ["Gone", "OtherPods", "Tallies"]

_Record = tuple[str, "Amounts"]
"""A pod's node, and what it takes of it."""


class OtherPods:
    """What pods take of nodes, by namespace and name, and by node.

    Each event changes the sums of the pod's node. Another thread may ask for these meanwhile: a change puts new sums in
    place of a node's old ones, in one step.
    """

    def __init__(self, known: OtherPods | None = None) -> None:
        """Args: pods of which many will be put here as they are there; they share memory then."""
        self.version = 0
        """Grows whenever a sum changes."""
        self._known: dict[str, dict[str, _Record]] = known._records if known else {}  # noqa: SLF001 - of the same class
        self._records: dict[str, dict[str, _Record]] = {}
        self._sums: dict[str, Mapping[str, int]] = {}

    def __len__(self) -> int:
        """How many pods are counted."""
        return sum(map(len, self._records.values()))

    def on(self, node: str) -> Mapping[str, int]:
        """What these pods take of a node: billionths by resource, and one of `pods` for each; nobody changes it."""
        return self._sums.get(node, {})

    def put(self, namespace: str, name: str, pod: Object | None) -> None:
        """Count a pod as it is now, and no longer as it was.

        Args:
            namespace: Where the pod is.
            name: Its name.
            pod: The pod, whole; None where it does not count any more.
        """
        before = self._records.get(namespace, {}).get(name)
        now = None if pod is None else self._record(namespace, name, pod)
        if before == now:
            return
        if before is not None:
            self._take_away(namespace, name, before)
        if now is not None:
            self._records.setdefault(namespace, {})[name] = now
            self._add(now, 1)
        self.version += 1

    def replace(self, others: OtherPods) -> None:
        """Take everything over from others, which are not used any more; sums change in one step."""
        same = self._sums == others._sums
        self._records, self._sums = others._records, others._sums
        if not same:
            self.version += 1

    def _record(self, namespace: str, name: str, pod: Object) -> _Record | None:
        taken = taken_by(pod)
        if taken is None:
            return None
        record = (intern(taken[0]), taken[1])
        known = self._known.get(namespace, {}).get(name)
        return known if known == record else record

    def _take_away(self, namespace: str, name: str, record: _Record) -> None:
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


class Tallies:
    """Counts of the values that functions give for the objects of one store.

    They are taken as objects come, page by page of a list, and then follow each change, so that an answer takes no longer
    with more objects. Another thread may ask meanwhile: it gets a copy, which takes one step.
    """

    def __init__(self, functions: tuple[Callable[[Object], Any], ...] = ()) -> None:
        """Args: the functions; None for an object does not count."""
        self.functions = functions
        self._counts: dict[Callable[[Object], Any], dict[Any, int]] = {function: {} for function in functions}

    def of(self, function: Callable[[Object], H | None]) -> Mapping[H, int] | None:
        """For how many objects a function gives each value; None for a function that is not counted."""
        counts = self._counts.get(function)
        return None if counts is None else dict(counts)

    def change(self, before: Object | None, after: Object | None) -> None:
        """Count an object in the place of another; None for none."""
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


_MOST = 20_000


class Gone:
    """The uids of the last objects that are gone, or are of no interest any more, as pods that have ended."""

    def __init__(self) -> None:
        self._uids: dict[str, None] = {}

    def __contains__(self, uid: object) -> bool:
        return uid in self._uids

    def add(self, before: Iterable[Object], after: Iterable[Object]) -> None:
        """Take what there was and is not in what there is; equal names may be of another object."""
        kept = {_uid(each) for each in after}
        for each in before:
            uid = _uid(each)
            if uid and uid not in kept:
                self._uids[uid] = None
        while len(self._uids) > _MOST:
            del self._uids[next(iter(self._uids))]

    def clear(self) -> None:
        """Know of nothing that is gone."""
        self._uids.clear()


def _uid(document: Object) -> str:
    uid = lookup(document, ("metadata", "uid"))
    return uid if isinstance(uid, str) else ""
