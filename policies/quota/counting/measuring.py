"""Measuring: the amounts of existing pods and claims under a quota, also if their devices are unknown."""

from __future__ import annotations

from dataclasses import replace
from math import ceil
from typing import TYPE_CHECKING

from policies.dra.published_devices import gpu_groups
from policies.quota.bills import bill
from policies.quota.charges import Bill
from policies.quota.devices.device_kinds import quota_device
from policies.quota.devices.node_kinds import node_kinds
from policies.view import UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from policies.quota.charges import Amounts, Ask, DeviceKind
    from policies.quota.limits.quota import Quota
    from policies.view import ClusterView

__all__ = ["Measure", "largest_memory"]

_MOST_REMEMBERED = 4096


def largest_memory(view: ClusterView) -> int:
    """The bytes of the largest GPU on nodes or in slices; 0 if unknown. Use it by `view.derive`.

    Of a GPU of which only a part is shown, it is that many times as much.
    """
    return max((ceil(kind.memory / kind.gpus) for kind in _shown(view) if kind.memory and kind.gpus), default=0)


def _shown(view: ClusterView) -> Iterator[DeviceKind]:
    nodes, groups = view.derive(node_kinds), gpu_groups(view)
    for node in () if nodes is UNKNOWN else nodes.all:
        for _, offer in node.offers:
            yield offer.device
    for group in () if groups is UNKNOWN else groups:
        yield quota_device(group.first).device


class Measure:
    """What asks come to that were granted: an amount for each, whatever is not known.

    Most pods are like others, so what asks came to is remembered, and equal asks come to one and the same mapping.
    """

    def __init__(self, quota: Quota, view: ClusterView) -> None:
        """Keep the quota and the view. Unknown products count even if the quota refuses them."""
        self._quota = replace(quota, unknown_products="WorstCase")
        self._largest = view.derive(largest_memory)
        self._known: dict[tuple[Ask, ...], Amounts] = {}

    def amounts(self, asks: Iterable[Ask]) -> Amounts:
        """By limit, the most that the asks can come to."""
        asks = tuple(asks)
        found = self._known.get(asks)
        if found is None:
            if len(self._known) >= _MOST_REMEMBERED:
                self._known.clear()
            found = self._known[asks] = self._billed(asks)
        return found

    def _billed(self, asks: tuple[Ask, ...]) -> Amounts:
        found = bill(asks, self._quota)
        return found.amounts if isinstance(found, Bill) else self._billed(tuple(map(self._guessed, asks)))

    def _guessed(self, ask: Ask) -> Ask:
        """The request with memory for all kinds: that of the largest GPU if it is unknown."""
        return replace(
            ask,
            kinds=self._measured(ask.kinds),
            unseen=self._measured(ask.unseen),
            alternatives=tuple(map(self._guessed, ask.alternatives)),
        )

    def _measured(self, kinds: frozenset[DeviceKind]) -> frozenset[DeviceKind]:
        return frozenset(kind if kind.memory is not None else replace(kind, memory=self._largest) for kind in kinds)
