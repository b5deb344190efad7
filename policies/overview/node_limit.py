"""Limits the nodes of an overview to those that fit on a page."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from policies.overview.overview import NodeOverview, Overview

__all__ = ["limited_overview"]


def limited_overview(overview: Overview, most: int) -> Overview:
    """The overview with nodes that have at most `most` parts of GPUs together; sums still count all nodes.

    Nodes with devices of the overview's namespace are kept first, then those where more is held than exists, then those with
    free devices that no pod can get. The order of the nodes does not change.
    """
    chosen, room = [], most
    for number in sorted(range(len(overview.nodes)), key=lambda number: _rank(overview, number)):
        weight = _weight(overview.nodes[number])
        if weight <= room:
            room -= weight
            chosen.append(number)
    nodes = tuple(overview.nodes[number] for number in sorted(chosen))
    return replace(overview, nodes=nodes, nodes_left_out=len(overview.nodes) - len(nodes))


def _rank(overview: Overview, number: int) -> tuple[bool, bool, bool, int]:
    node = overview.nodes[number]
    namespace = overview.namespace
    is_own = bool(namespace) and any(held.holder.namespace == namespace for each in node.gpus for held in each.holdings)
    return not is_own, not any(cell.is_over for cell in node.cells), not node.remarks, number


def _weight(node: NodeOverview) -> int:
    return 1 + sum(len(cell.parts) for cell in node.cells)
