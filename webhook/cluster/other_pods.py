"""Pods that are not kept: what each takes of its node, and the sums of each node.

An explanation asks how much of a node's cpu and memory is left, and most pods that take of them get no GPUs. All that is
kept of such a pod is its node and its requests, a fiftieth of the pod.
"""

from __future__ import annotations

from sys import intern
from typing import TYPE_CHECKING

from policies.kubernetes.amounts import taken_by

if TYPE_CHECKING:
    from collections.abc import Mapping

    from policies.kubernetes.amounts import Amounts
    from policies.kubernetes.objects import Object

__all__ = ["OtherPods"]

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
