"""Counts of a store: values of its objects, requests of other pods, and deleted UIDs."""

from __future__ import annotations

from sys import intern
from typing import TYPE_CHECKING, Any, TypeVar

from policies.kubernetes.objects import lookup
from policies.kubernetes.quantities import taken_by

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Mapping

    from policies.kubernetes.objects import Object
    from policies.kubernetes.quantities import Amounts

__all__ = ["DeletedUids", "OtherPods", "ValueCounts"]

_Record = tuple[str, "Amounts"]
"""A pod's node, and what it uses there."""


class OtherPods:
    """What pods use that are not kept, per node.

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
        """What these pods use on a node: billionths by resource, and one of `pods` each; read-only."""
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


_MOST = 20_000


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
        while len(self._uids) > _MOST:
            del self._uids[next(iter(self._uids))]

    def clear(self) -> None:
        """Forget all UIDs."""
        self._uids.clear()


def _uid(document: Object) -> str:
    uid = lookup(document, ("metadata", "uid"))
    return uid if isinstance(uid, str) else ""
