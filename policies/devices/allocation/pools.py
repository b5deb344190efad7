"""Pools: the slices that count for a node, and whether they are complete and consistent."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property
from typing import TYPE_CHECKING

from policies.devices.allocation.reading import AllocationError, Implementation
from policies.devices.allocation.shapes import DeviceShapes
from policies.devices.allocation.slices import PoolId, Slice
from policies.devices.device_taint_rules import TaintRuleIndex
from policies.kubernetes.bounds import BoundedCache, check_cancelled

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from policies.devices.allocation.reading import Features
    from policies.devices.allocation.shapes import AttributeRead
    from policies.devices.allocation.slices import AllocatableDevice, TargetNode
    from policies.devices.device_taint_rules import DeviceTaintRule
    from policies.kubernetes.objects import Object


_MOST_SHAPES = 4
"""Sets of attributes whose shapes of devices are kept; questions about one cluster mostly read the same."""


class SliceIndex:
    """ResourceSlices by node and by pool, built once for any number of nodes and claims.

    Source: k8s.io/dynamic-resource-allocation/structured/internal/incubating, NewAllocator.
    """

    def __init__(
        self,
        slices: Iterable[Object | Slice],
        *,
        taint_rules: Sequence[DeviceTaintRule] = (),
        counters_with_devices: bool = False,
    ) -> None:
        """Index ResourceSlices, as v1 writes them or already read.

        Args:
            slices: All slices of the cluster.
            taint_rules: The DeviceTaintRules that add taints to their devices.
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
        self._all_by_node: defaultdict[str, list[Slice]] = defaultdict(list)
        self.all_reachable: list[Slice] = []
        """Those that are not tied to one node by name, with devices or counters."""
        self._shapes: BoundedCache[frozenset[AttributeRead] | None, DeviceShapes] = BoundedCache(_MOST_SHAPES)
        rules = TaintRuleIndex(taint_rules)
        for document in slices:
            found = document if isinstance(document, Slice) else Slice(document)
            if taint_rules:
                found = found.with_taints(rules.of_pool(found.driver, found.pool))
            for part in found.parts if counters_with_devices else (found,):
                self._add(part)

    def _add(self, found: Slice) -> None:
        self._by_pool[found.pool_id].append(found)
        node = found.selection.node_name
        (self._all_by_node[node] if node else self.all_reachable).append(found)
        if found.has_counters:
            self.with_counters.setdefault(found.pool_id, []).append(found)
        elif node:
            self._by_node[node].append(found)
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

    def all_of_node(self, name: str) -> Sequence[Slice]:
        """The slices that are tied to the node by its name, with devices or counters."""
        return self._all_by_node.get(name, ())

    def of_pool(self, pool: PoolId) -> Sequence[Slice]:
        """All slices of a pool, of every generation and for every node."""
        return self._by_pool.get(pool, ())

    def shared_of_pool(self, pool: PoolId) -> Sequence[Slice]:
        """The slices of a pool that are not tied to a node by name, or have shared counters."""
        return self._shared_by_pool.get(pool, ())


class PoolState(Enum):
    """The states of a pool, which decide if its devices can be allocated."""

    READY = "ready"
    INCOMPLETE = "incomplete"
    """Not all slices of its generation are there."""
    INVALID = "invalid"
    """Its slices contradict each other."""
    OBSOLETE = "obsolete"
    """Its driver has begun to publish a newer generation, none of it for this node."""


@dataclass(frozen=True, slots=True, eq=False)
class Pool:
    """A driver's pool as one node sees it."""

    id: PoolId
    state: PoolState
    generation: int
    slices_found: int
    """Slices of this generation, for whichever node."""
    slices_expected: int
    """The number of slices that there must be, by the word of the first."""
    reason: str = ""
    """The reason why it is invalid."""
    slices: tuple[Slice, ...] = ()
    """Those with devices for the node, by name."""
    other_slices: tuple[Slice, ...] = ()
    """Those for other nodes only whose devices consume counters of the pool."""
    counter_sets: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """Billionths, by set and counter."""

    @property
    def name(self) -> str:
        """`driver/pool`."""
        return "/".join(self.id)

    def devices(self) -> Iterator[AllocatableDevice]:
        """The devices, in the order in which they are searched."""
        for found in self.slices:
            check_cancelled()
            yield from found.devices

    @property
    def has_binding_conditions(self) -> bool:
        """True if one of its devices has binding conditions; such pools are searched last."""
        return any(device.binding_conditions for found in self.slices for device in found.devices)


@dataclass(frozen=True, slots=True)
class _Generation:
    """One generation of a pool, over all nodes."""

    superseded: bool
    count: int
    consumers: tuple[Slice, ...]
    """The slices whose devices consume counters."""
    counters: tuple[Slice, ...]
    """The slices with shared counters."""


class PoolGatherer:
    """Gathers the pools of one node after the other from one index.

    Slices with shared counters may count for every node: a pool that is broken for one node then makes requests for all
    devices fail on the others too.

    Source: k8s.io/dynamic-resource-allocation/structured/internal/incubating/pools_incubating.go GatherPools.
    """

    def __init__(self, index: SliceIndex, features: Features) -> None:
        self._index = index
        self._features = features
        self._counters_everywhere = features.partitionable_devices and not (
            features.counters_of_own_nodes and features.implementation is not Implementation.STABLE
        )
        """True if slices with counters count for every node. The stable implementation was never changed."""
        self._built: dict[tuple[Slice, ...], Pool] = {}
        self._of_node: dict[str, Sequence[Pool]] = {}
        """The pools by the names of nodes, if only names decide which slices count for a node."""
        self._generations: dict[tuple[PoolId, int], _Generation] = {}

    def gather(self, node: TargetNode) -> Sequence[Pool]:
        """The pools with slices that count for the node, in the order in which they are searched.

        The stable implementation has no order; this one's is among those that it can have.

        Raises:
            AllocationError: a node selector is invalid.
        """
        if node.name in self._of_node:
            return self._of_node[node.name]
        relevant = _newest(self._relevant(node))
        pools = [self._pool(slices) for slices in relevant.values()]
        pools += [pool for id_, pool in self._troubled_elsewhere.items() if id_ not in relevant]
        found = sorted(pools, key=self._order)
        if not (self._index.reachable if self._counters_everywhere else self._index.all_reachable):
            self._of_node[node.name] = found
        return found

    def _order(self, pool: Pool) -> tuple[bool, PoolId]:
        last = self._features.implementation is not Implementation.STABLE and pool.has_binding_conditions
        return last, pool.id

    def _relevant(self, node: TargetNode) -> Iterator[Slice]:
        """The slices that count for the node.

        Where slices with counters count for every node, those of pools of which it sees nothing else are left out.
        """
        if not self._counters_everywhere:
            yield from filter(self._usable, self._index.all_of_node(node.name))
            for found in filter(self._usable, self._index.all_reachable):
                if self._matches(found, node):
                    yield found
            return
        own = [found for found in self._index.of_node(node.name) if self._usable(found)]
        matching = [found for found in self._index.reachable if self._usable(found) and self._matches(found, node)]
        yield from own
        if not self._index.with_counters:
            yield from matching
            return
        matched = frozenset(matching)
        for pool in dict.fromkeys(found.pool_id for found in (*own, *matching)):
            for found in self._index.shared_of_pool(pool):
                if found.has_counters or found in matched:
                    yield found

    def _usable(self, found: Slice) -> bool:
        return self._features.partitionable_devices or not found.is_partitioned

    @staticmethod
    def _matches(found: Slice, node: TargetNode) -> bool:
        where = f"slice {found.name}"
        try:
            if found.selection.is_set:
                return node.matches(found.selection)
            for device in found.devices if found.selects_per_device else ():
                where = f"device {device.name} in slice {found.name}"
                if node.matches(found.selection_of(device)):
                    return True
        except AllocationError as error:
            raise AllocationError(
                f"gather pool information: failed to perform node selection for {where}: {error}"
            ) from None
        return False

    @cached_property
    def _troubled_elsewhere(self) -> dict[PoolId, Pool]:
        """Pools whose counters alone show the node that they are invalid."""
        if not self._counters_everywhere:
            return {}
        counters = (found for slices in self._index.with_counters.values() for found in slices)
        pools = (self._pool(slices) for slices in _newest(counters).values())
        return {pool.id: pool for pool in pools if pool.state is not PoolState.READY}

    def _pool(self, relevant: Sequence[Slice]) -> Pool:
        key = tuple(relevant)
        if key not in self._built:
            self._built[key] = self._new_pool(relevant)
        return self._built[key]

    def _new_pool(self, relevant: Sequence[Slice]) -> Pool:
        first = relevant[0]
        expected = first.slice_count
        if _count(relevant) == expected:
            return self._complete_pool(relevant, ())
        everywhere = self._everywhere(first)
        if everywhere.superseded:
            state = PoolState.OBSOLETE
        elif everywhere.count != expected:
            state = PoolState.INCOMPLETE
        else:
            known = {*relevant}
            others = [found for found in everywhere.consumers if found not in known]
            if self._features.partitionable_devices and not self._counters_everywhere:
                relevant = [*relevant, *(found for found in everywhere.counters if found not in known)]
            return self._complete_pool(relevant, others)
        return Pool(first.pool_id, state, first.generation, everywhere.count, expected)

    def _everywhere(self, first: Slice) -> _Generation:
        key = (first.pool_id, first.generation)
        if key not in self._generations:
            slices = self._index.of_pool(first.pool_id)
            of_generation = [found for found in slices if found.generation == first.generation]
            self._generations[key] = _Generation(
                superseded=any(found.generation > first.generation for found in slices),
                count=_count(of_generation),
                consumers=tuple(
                    found for found in of_generation if any(device.counter_sets for device in found.devices)
                ),
                counters=tuple(found for found in of_generation if found.has_counters),
            )
        return self._generations[key]

    def _complete_pool(self, relevant: Sequence[Slice], others: Sequence[Slice]) -> Pool:
        """A pool whose slices are all known."""
        first = relevant[0]
        facts = (first.generation, first.slice_count, first.slice_count)
        ordered = tuple(sorted(relevant, key=lambda found: found.name))
        if not self._features.partitionable_devices:
            reason = _duplicate("device", (device.name for found in ordered for device in found.devices))
            state = PoolState.INVALID if reason else PoolState.READY
            return Pool(first.pool_id, state, *facts, reason, () if reason else ordered)
        with_devices = tuple(found for found in ordered if not found.has_counters)
        with_counters = [found for found in ordered if found.has_counters]
        counter_sets = {name: amounts for found in with_counters for name, amounts in found.counter_sets}
        reason = (
            _duplicate("device", (device.name for found in with_devices for device in found.devices))
            or _duplicate("counter set", (name for found in with_counters for name, _ in found.counter_sets))
            or _unknown_counter(counter_sets, ordered)
            or _unknown_counter(counter_sets, others)
        )
        if reason:
            return Pool(first.pool_id, PoolState.INVALID, *facts, reason)
        return Pool(first.pool_id, PoolState.READY, *facts, "", with_devices, tuple(others), counter_sets)


def _count(slices: Sequence[Slice]) -> int:
    """The number of ResourceSlices, without parts of slices that count already."""
    return sum(not found.is_part for found in slices)


def _newest(slices: Iterable[Slice]) -> dict[PoolId, list[Slice]]:
    """The slices of each pool that are of its newest generation among these."""
    pools: dict[PoolId, list[Slice]] = {}
    for found in slices:
        known = pools.get(found.pool_id)
        if known is None or found.generation > known[0].generation:
            pools[found.pool_id] = [found]
        elif found.generation == known[0].generation:
            known.append(found)
    return pools


def _duplicate(kind: str, names: Iterable[str]) -> str:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            return f"duplicate {kind} name {name}"
        seen.add(name)
    return ""


def _unknown_counter(counter_sets: Mapping[str, Mapping[str, int]], slices: Sequence[Slice]) -> str:
    for found in slices:
        for device in found.devices:
            for counter_set in device.counter_sets:
                if counter_set not in counter_sets:
                    return f"counter set {counter_set} not found"
            for counter_set, counter, _ in device.counters:
                if counter not in counter_sets[counter_set]:
                    return f"counter {counter} not found in counter set {counter_set}"
    return ""
