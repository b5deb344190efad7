"""Device states: how many devices of each kind on each node are held, free, unusable, over or missing."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

    from policies.analyses.usage.node_gpus import NodeGPUs, OfferedKind
    from policies.analyses.usage.report import UsageReport

__all__ = ["DeviceState", "DeviceStates", "StateCounts", "device_states"]

_NONE = Fraction(0)


class DeviceState(StrEnum):
    """The state of devices. Held, free and unusable devices together are those that exist."""

    HELD = "held"
    FREE = "free"
    UNUSABLE = "unusable"
    """Not held, but no pod can use them."""
    OVER = "over"
    """Held beyond those that exist: given out twice, or gone while they are held."""
    MISSING = "missing"
    """Held, but their node shows none of their kind."""


class StateCounts(NamedTuple):
    """The devices of one kind on one node, by state."""

    node: str
    """Empty for devices that several nodes reach, and for the sum over all nodes."""
    kind: OfferedKind
    amounts: Mapping[DeviceState, Fraction]
    """Without amounts that are unknown."""


@dataclass(frozen=True, slots=True)
class DeviceStates:
    """The devices of a cluster by node, kind and state."""

    rows: tuple[StateCounts, ...]
    """Sorted by node and kind."""
    summed_nodes: int = 0
    """The number of nodes that are summed because of too many rows; 0 if each node has its own rows."""


def device_states(report: UsageReport, most_rows: int) -> DeviceStates:
    """The devices of a report about all namespaces.

    More than `most_rows` rows are summed over all nodes.
    """
    found = [(each.node, each.kind, _amounts(each)) for each in report.gpus]
    if len(found) <= most_rows:
        return DeviceStates(tuple(StateCounts(node, kind, _known_amounts(amounts)) for node, kind, amounts in found))
    sums: dict[OfferedKind, dict[DeviceState, Fraction | None]] = {}
    for _, kind, amounts in found:
        so_far = sums.setdefault(kind, {})
        for state, amount in amounts.items():
            before = so_far.get(state, _NONE)
            so_far[state] = None if before is None or amount is None else before + amount
    rows = tuple(StateCounts("", kind, _known_amounts(sums[kind])) for kind in sorted(sums, key=lambda kind: kind.rank))
    return DeviceStates(rows, len({node for node, _, _ in found if node}))


def _amounts(gpus: NodeGPUs) -> dict[DeviceState, Fraction | None]:
    """The amount of each state; None if it is unknown."""
    if gpus.total == 0:
        return {DeviceState.MISSING: gpus.held}
    if gpus.total is None or gpus.held is None:
        return {DeviceState.HELD: gpus.held}
    return {
        DeviceState.HELD: min(gpus.held, gpus.total),
        DeviceState.FREE: gpus.free,
        DeviceState.UNUSABLE: gpus.unusable,
        DeviceState.OVER: max(gpus.held - gpus.total, _NONE),
    }


def _known_amounts(amounts: Mapping[DeviceState, Fraction | None]) -> Mapping[DeviceState, Fraction]:
    return {state: amount for state, amount in amounts.items() if amount is not None}
