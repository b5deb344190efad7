"""Measuring: the amounts of existing pods and claims under a quota, also if their devices are unknown."""

from __future__ import annotations

from dataclasses import replace
from math import ceil
from typing import TYPE_CHECKING

from policies.quota.bills import bill
from policies.quota.charges import Bill
from policies.quota.devices.node_kinds import visible_kinds

if TYPE_CHECKING:
    from collections.abc import Iterable

    from policies.quota.charges import Amounts, DeviceDemand, DeviceKind
    from policies.quota.limits.quota import Quota
    from policies.view import ClusterView

__all__ = ["Measure", "largest_memory"]

_MOST_REMEMBERED = 4096


def largest_memory(view: ClusterView) -> int:
    """The bytes of the largest GPU on nodes or in slices; 0 if unknown. Use it by `view.derive`.

    If only a part of a GPU is known, its memory is scaled up to the whole GPU.
    """
    return max((ceil(kind.memory / kind.gpus) for kind in visible_kinds(view) if kind.memory and kind.gpus), default=0)


class Measure:
    """Computes the amounts of granted demands, also if products or memory are unknown.

    Most pods are alike, so amounts are cached, and equal demands get the identical mapping.
    """

    def __init__(self, quota: Quota, view: ClusterView) -> None:
        """Keep the quota and the view. Unknown products count even if the quota refuses them."""
        self._quota = replace(quota, unknown_products="WorstCase")
        self._largest = view.derive(largest_memory)
        self._known: dict[tuple[DeviceDemand, ...], Amounts] = {}

    def amounts(self, demands: Iterable[DeviceDemand]) -> Amounts:
        """The largest possible amounts of the demands, by limit."""
        demands = tuple(demands)
        found = self._known.get(demands)
        if found is None:
            if len(self._known) >= _MOST_REMEMBERED:
                self._known.clear()
            found = self._known[demands] = self._bill(demands)
        return found

    def _bill(self, demands: tuple[DeviceDemand, ...]) -> Amounts:
        found = bill(demands, self._quota)
        return found.amounts if isinstance(found, Bill) else self._bill(tuple(map(self._with_known_memory, demands)))

    def _with_known_memory(self, demand: DeviceDemand) -> DeviceDemand:
        """The demand with the memory of the largest GPU for kinds whose memory is unknown."""
        return replace(
            demand,
            kinds=self._kinds_with_memory(demand.kinds),
            unseen=self._kinds_with_memory(demand.unseen),
            alternatives=tuple(map(self._with_known_memory, demand.alternatives)),
        )

    def _kinds_with_memory(self, kinds: frozenset[DeviceKind]) -> frozenset[DeviceKind]:
        return frozenset(kind if kind.memory is not None else replace(kind, memory=self._largest) for kind in kinds)
