"""Waves: which nodes of a cluster change to DRA together, and which namespaces convert with them."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING

from policies.analyses.usage import pod_use
from policies.kubernetes.versions import Feature
from policies.kubernetes.view import UNKNOWN
from policies.nvidia.identifiers import GPU_RESOURCE

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from policies.analyses.cutover.inventory import CutoverNode, Inventory
    from policies.kubernetes.view import ClusterView


_MOST_OF_PRODUCT = 4
"""A wave has at most this part, a fourth, of the nodes of a product."""
_LEAST_OF_PRODUCT = 10
"""A wave without room for its pods has this part, a tenth, of the nodes of a product."""
_TOLERANCE = 1e-9


@dataclass(frozen=True, slots=True)
class WaveMembers:
    """The nodes and namespaces of a wave."""

    number: int
    nodes: tuple[CutoverNode, ...]
    namespaces: tuple[str, ...]
    homeless: tuple[str, ...]
    """The products for which the remaining nodes have no room for what the pods of this wave hold."""


def plan_waves(inventory: Inventory, view: ClusterView) -> tuple[WaveMembers, ...]:
    """The waves, the first ones small.

    Labels that nodes and namespaces have already decide; the others are distributed. The first wave takes one node of each
    product, and each further one twice as many as the one before, up to a fourth of the product, and only as many as the
    pods on them find room elsewhere. Where there is no room at all, a tenth moves, because otherwise a full cluster never
    would; the product is named in `homeless`.
    """
    waves: defaultdict[int, list[CutoverNode]] = defaultdict(list)
    homeless: defaultdict[int, list[str]] = defaultdict(list)
    by_product: defaultdict[str, list[CutoverNode]] = defaultdict(list)
    for node in inventory.moving:
        if node.wave:
            waves[node.wave].append(node)
        else:
            by_product[node.product].append(node)
    first = max(waves, default=0) + 1
    # Then pods that request plain GPUs find room on nodes of earlier waves, too.
    plain_served = Feature.DRAExtendedResource.is_on(view) is True
    for product, nodes in sorted(by_product.items()):
        number, size = first, 1
        remaining = sorted(nodes, key=lambda node: (bool(node.sharing), node.load, node.name))
        while remaining:
            most = min(size, ceil(len(nodes) / _MOST_OF_PRODUCT))
            spare = int(sum(1 - node.load for node in nodes))
            fitting = _fitting_count(remaining, most)
            if plain_served and all(node.offers.keys() <= {GPU_RESOURCE} for node in nodes):
                fitting = max(fitting, min(most, spare))
            count = fitting or min(most, ceil(len(nodes) / _LEAST_OF_PRODUCT))
            chosen, remaining = remaining[:count], remaining[count:]
            waves[number] += chosen
            if not fitting and any(node.load for node in chosen):
                homeless[number].append(product)
            number, size = number + 1, size * 2
    namespaces = _namespace_waves(inventory, waves, view)
    return tuple(
        WaveMembers(
            number,
            tuple(sorted(waves[number], key=lambda node: (node.product, node.name))),
            tuple(name for name, wave in namespaces.items() if wave == number),
            tuple(homeless[number]),
        )
        for number in sorted(waves)
    )


def _fitting_count(nodes: Sequence[CutoverNode], most: int) -> int:
    """The number of the first nodes whose load the others can take; 0 if not even that of one."""
    free = sum(1 - node.load for node in nodes if not node.is_cordoned)
    for count in range(most, 0, -1):
        chosen = nodes[:count]
        left = free - sum(1 - node.load for node in chosen if not node.is_cordoned)
        if sum(node.load for node in chosen) <= left + _TOLERANCE:
            return count
    return 0


def _namespace_waves(
    inventory: Inventory, waves: Mapping[int, Sequence[CutoverNode]], view: ClusterView
) -> dict[str, int]:
    """The wave of each namespace: the first after which nodes with DRA have room for all that it holds."""
    needs = _needs(inventory, view)
    found = {name: wave for name, wave in inventory.namespaces.items() if wave is not None}
    last = max(waves, default=1)
    room: defaultdict[str, float] = defaultdict(float)
    open_namespaces = sorted(
        (name for name in inventory.namespaces if name not in found), key=lambda name: (sum(needs[name].values()), name)
    )
    for number in sorted(waves):
        for node in waves[number]:
            room[node.product] += 1
        for name in [name for name, wave in found.items() if wave == number]:
            for product, need in needs[name].items():
                room[product] -= need
        for name in list(open_namespaces):
            if number == last or all(room[product] + _TOLERANCE >= need for product, need in needs[name].items()):
                found[name] = number
                open_namespaces.remove(name)
                for product, need in needs[name].items():
                    room[product] -= need
    return dict(sorted(found.items()))


def _needs(inventory: Inventory, view: ClusterView) -> defaultdict[str, defaultdict[str, float]]:
    """The nodes of each product that the pods of each namespace hold by the plugin."""
    nodes = {node.name: node for node in inventory.nodes}
    needs: defaultdict[str, defaultdict[str, float]] = defaultdict(lambda: defaultdict(float))
    uses = view.derive_each("Pod", pod_use)
    for use in () if uses is UNKNOWN else uses:
        node = nodes.get(use[0]) if use is not None else None
        if use is None or node is None or not node.offers:
            continue
        part = max((amount / node.offers[name] for name, amount in use[2] if name in node.offers), default=0)
        needs[use[1].namespace][node.product] += part
    return needs
