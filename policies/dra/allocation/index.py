"""All ResourceSlices, indexed by node and by pool."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from policies.caches import BoundedCache
from policies.dra.allocation.shapes import DeviceShapes
from policies.dra.allocation.slices import PoolId, Slice

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from policies.dra.allocation.shapes import AttributeRead
    from policies.kubernetes.objects import Object

__all__ = ["SliceIndex"]

_MOST_SHAPES = 4
"""Sets of attributes whose shapes of devices are kept; questions about one cluster mostly read the same."""


class SliceIndex:
    """ResourceSlices by node and by pool, built once for any number of nodes and claims.

    Slices with shared counters count for every node, as they do for Kubernetes: a pool that is broken for one node
    makes requests for all devices fail on the others too.

    Source: k8s.io/dynamic-resource-allocation/structured/internal/incubating, NewAllocator.
    """

    def __init__(self, slices: Iterable[Object | Slice], *, counters_with_devices: bool = False) -> None:
        """Index ResourceSlices, as v1 writes them or already read.

        Args:
            slices: All slices of the cluster.
            counters_with_devices: True for Kubernetes 1.34, where a slice can have devices and the counters that they share.
                Later versions ignore the devices of such a slice.

        Raises:
            AllocationError: one of them does not say properly to which pool it belongs.
        """
        self._by_node: defaultdict[str, list[Slice]] = defaultdict(list)
        self._by_pool: defaultdict[PoolId, list[Slice]] = defaultdict(list)
        self._shared_by_pool: defaultdict[PoolId, list[Slice]] = defaultdict(list)
        self.reachable: list[Slice] = []
        """Those with devices that are not tied to one node by name."""
        self.with_counters: dict[PoolId, list[Slice]] = {}
        """Those with shared counters, by pool."""
        self._shapes: BoundedCache[frozenset[AttributeRead] | None, DeviceShapes] = BoundedCache(_MOST_SHAPES)
        for document in slices:
            found = document if isinstance(document, Slice) else Slice(document)
            for part in found.parts if counters_with_devices else (found,):
                self._add(part)

    def _add(self, found: Slice) -> None:
        self._by_pool[found.pool_id].append(found)
        if found.has_counters:
            self.with_counters.setdefault(found.pool_id, []).append(found)
        elif found.selection.node_name:
            self._by_node[found.selection.node_name].append(found)
            return
        else:
            self.reachable.append(found)
        self._shared_by_pool[found.pool_id].append(found)

    def shapes(self, read: frozenset[AttributeRead] | None) -> DeviceShapes:
        """The shapes of the devices for claims that read these attributes; None for any."""
        found = self._shapes.get(read)
        if found is None:
            found = DeviceShapes(read)
            self._shapes.put(read, found, 1)
        return found

    def of_node(self, name: str) -> Sequence[Slice]:
        """The slices whose devices are tied to the node by its name."""
        return self._by_node.get(name, ())

    def of_pool(self, pool: PoolId) -> Sequence[Slice]:
        """All slices of a pool, of every generation and for every node."""
        return self._by_pool.get(pool, ())

    def shared_of_pool(self, pool: PoolId) -> Sequence[Slice]:
        """The slices of a pool that are not tied to a node by name, or have shared counters."""
        return self._shared_by_pool.get(pool, ())
