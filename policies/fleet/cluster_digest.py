"""The digest of a cluster: nodes, devices, and what is in use; computed once for many questions."""

from __future__ import annotations

from collections import defaultdict
from copy import copy
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain, count
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from policies.devices.allocation.pools import PoolGatherer, SliceIndex
from policies.devices.allocation.reading import AllocationError
from policies.devices.allocation.slices import Slice
from policies.devices.allocation.usage import NONE, Held, Usage
from policies.devices.device_taint_rules import rules_for_allocation
from policies.devices.resource_claims import Claim, Holder
from policies.kubernetes.bounds import BoundedCache
from policies.kubernetes.nodes import NodeIndex
from policies.kubernetes.objects import lookup, mapping_at, mappings_at, name_of
from policies.kubernetes.quantities import billionths, taken_by
from policies.kubernetes.resourceslices import device_fields
from policies.kubernetes.versions import Feature
from policies.kubernetes.view import UNKNOWN, ClusterView

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence

    from policies.devices.allocation.reading import Features
    from policies.kubernetes.objects import Object
    from policies.kubernetes.quantities import Amounts


T = TypeVar("T")

_ANYWHERE = "any node"
_MOST_SHAPES = 8
"""Usages and sets of attributes for which the shapes of nodes are kept; questions about one cluster mostly have two."""
_ALWAYS_OFFERED = frozenset({"cpu", "memory", "ephemeral-storage", "pods"})
"""Resources that a node in a file may omit; a node that omits another resource has none of it."""


class Holding(NamedTuple):
    """A claim that holds devices."""

    held: Held
    words: str
    """The holder, for people: `team-b/train-0`."""
    namespace: str
    pods: tuple[str, ...]
    """The pods that it is reserved for, `team-b/train-0`; empty if anything else uses it, such as a PodGroup."""


class NodeShapes:
    """Numbers nodes: claims that read some attributes of devices fit all nodes of one number, or none.

    Threads may share the numbers; some are not used.
    """

    def __init__(self, usage: Usage) -> None:
        """Begin without nodes; `usage` is kept, because its identity is a part of a key."""
        self.usage = usage
        self.by_position: dict[int, int] = {}
        self._numbers: dict[Hashable, int] = {}
        self._next = count()

    def add(self, position: int, shape: Hashable) -> int:
        """The number of a node that has this shape."""
        number = self.by_position[position] = self._numbers.setdefault(shape, next(self._next))
        return number


class Nodes:
    """Nodes by their positions, and what questions read of all of them, which is read once."""

    def __init__(self, documents: Iterable[Object]) -> None:
        self._documents = tuple(documents)
        self._results: dict[Callable[[Object], Any], Sequence[Any]] = {}
        self._kinds: dict[Callable[[Object], Hashable], Sequence[int]] = {}
        self._amounts: dict[str, Sequence[int | None]] = {}
        self.shapes: BoundedCache[Hashable, NodeShapes] = BoundedCache(_MOST_SHAPES)
        """The shapes of nodes by the usage of their devices, and by the attributes that claims read of them."""

    def __len__(self) -> int:
        """The number of nodes."""
        return len(self._documents)

    def __iter__(self) -> Iterator[Object]:
        """The nodes in the order of their positions."""
        return iter(self._documents)

    def __getitem__(self, position: int) -> Object:
        """The node at a position."""
        return self._documents[position]

    @cached_property
    def positions(self) -> Mapping[str, int]:
        """The position of each node by its name."""
        return {name: position for position, name in enumerate(self.each(name_of))}

    @cached_property
    def selectable(self) -> NodeIndex:
        """The nodes that selectors select, as a set of bits by position."""
        return NodeIndex(self)

    def each(self, function: Callable[[Object], T]) -> Sequence[T]:
        """`function` of each node, computed once; it must be one of a module."""
        if function not in self._results:
            self._results[function] = [function(node) for node in self]
        return self._results[function]

    def kinds(self, function: Callable[[Object], Hashable]) -> Sequence[int]:
        """A number for each node, equal where `function`, one of a module, returns the same."""
        if function not in self._kinds:
            numbers: dict[Hashable, int] = {}
            self._kinds[function] = [numbers.setdefault(function(node), len(numbers)) for node in self]
        return self._kinds[function]

    def allocatable(self, resource: str) -> Sequence[int | None]:
        """The amount of a resource that each node offers, in billionths.

        None stands for a resource that every node has, where a file omits it.
        """
        missing = None if resource in _ALWAYS_OFFERED else 0
        if resource not in self._offered:
            return [missing] * len(self)
        if resource not in self._amounts:
            offered = (lookup(node, ("status", "allocatable", resource)) for node in self)
            self._amounts[resource] = [missing if amount is None else billionths(amount) for amount in offered]
        return self._amounts[resource]

    @cached_property
    def _offered(self) -> frozenset[str]:
        """The resources that some node offers; the amounts of others need not be kept."""
        return frozenset(chain.from_iterable(mapping_at(node, ("status", "allocatable")) for node in self))


@dataclass(frozen=True, slots=True)
class Cluster:
    """Facts about devices and nodes."""

    nodes: Nodes
    nodes_known: bool
    """False if the nodes are unknown; `nodes` then has one made-up node for each name in a slice."""
    index: SliceIndex | None
    """None if the slices are unknown."""
    usage: Usage
    """The devices that allocated claims hold."""
    claims_known: bool
    holding: Sequence[Holding] = ()
    """The claims that hold devices."""
    problem: str = ""
    """The reason why the slices or the allocations cannot be read; empty if they can."""
    gatherers: dict[Features, PoolGatherer] = field(default_factory=dict, compare=False)
    """The pools of the slices, which are gathered once for all questions."""

    def gatherer(self, features: Features) -> PoolGatherer:
        """The pools of the slices in a cluster with these features."""
        if features not in self.gatherers:
            self.gatherers[features] = PoolGatherer(self.index or SliceIndex(()), features)
        return self.gatherers[features]


def read_cluster(view: ClusterView) -> Cluster:
    """The digest of a view; call it as `view.derive(read_cluster)`."""
    nodes, claims = view.list("Node"), view.derive_each("ResourceClaim", _holding_of)
    holding = [] if claims is UNKNOWN else [each for each in claims if each is not None]
    index, usage, problem = None, NONE, ""
    try:
        index = _index(view)
        usage = Usage.of_allocations(each.held for each in holding)
    except AllocationError as error:
        problem = str(error)
    return Cluster(
        nodes=Nodes(_guess_nodes(view.known_objects("ResourceSlice")) if nodes is UNKNOWN else nodes),
        nodes_known=nodes is not UNKNOWN,
        index=index,
        usage=usage,
        claims_known=claims is not UNKNOWN,
        holding=holding,
        problem=problem,
    )


def used_amounts(view: ClusterView) -> Mapping[str, Mapping[str, int]] | None:
    """The resources that listed pods use on each node, in billionths; None if pods are unknown.

    Call it by `view.derive`. `ResourceUsage` adds the pods that the view does not list.
    """
    pods = view.derive_each("Pod", taken_by)
    if pods is UNKNOWN:
        return None
    used: defaultdict[str, dict[str, int]] = defaultdict(dict)
    for taken in pods:
        if taken is None:
            continue
        node, amounts = taken
        of_node = used[node]
        for name, amount in amounts:
            of_node[name] = of_node.get(name, 0) + amount
    return used


def _index(view: ClusterView) -> SliceIndex | None:
    """The slices, or None if they are unknown; raises AllocationError as `SliceIndex` does."""
    slices = view.derive_each("ResourceSlice", _slice)
    if slices is UNKNOWN:
        return None
    problem = next((each for each in slices if isinstance(each, str)), None)
    if problem is not None:
        raise AllocationError(problem)
    return SliceIndex(
        (each for each in slices if not isinstance(each, str)),
        taint_rules=view.derive(rules_for_allocation),
        counters_with_devices=Feature.CountersInOwnSlices.is_on(view) is not True,
    )


def _slice(document: Object) -> Slice | str:
    """A slice, or the reason why it cannot be read."""
    try:
        return Slice(document)
    except AllocationError as error:
        return str(error)


def _holding_of(document: Object) -> Holding | None:
    """The devices that a claim holds, or None; malformed results of its allocation are ignored."""
    claim = Claim(document)
    held = Held.by(claim.allocated_devices)
    if not any(held):
        return None
    holder = Holder.of_claim(claim)
    has_other_users = len(holder.pods) < len(claim.consumers)
    pods = () if has_other_users else tuple([f"{claim.namespace}/{name}" for name in holder.pods])
    return Holding(held, holder.words, claim.namespace, pods)


def _guess_nodes(slices: Iterable[Object]) -> list[Object]:
    """Made-up nodes with the names in slices; one node if all devices are network-attached."""
    names: dict[str, None] = {}
    reachable = False
    for document in slices:
        devices = mappings_at(document, ("spec", "devices"))
        fields = [document.get("spec"), *map(device_fields, devices)]
        found = [lookup(each, ("nodeName",)) for each in fields]
        named = [name for name in found if isinstance(name, str) and name]
        names.update(dict.fromkeys(named))
        reachable = reachable or not named
    everyone = sorted(names) or ([_ANYWHERE] if reachable else [])
    return [{"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}} for name in everyone]


class ResourceUsage:
    """The resources that pods use on each node, including pods that the view does not list.

    The usage of pods that are not listed is read at the first look at a node, and kept for this explanation.
    """

    def __init__(self, view: ClusterView) -> None:
        self._view = view
        self._listed = view.derive(used_amounts)
        self._of: dict[str, Mapping[str, int]] = {}
        self._columns: tuple[Nodes | None, dict[str, list[int]]] = (None, {})
        self._fewer: dict[str, Mapping[str, int]] = {}
        """The usage of nodes that pods have left."""
        self.others_known = True
        """False if pods that the view does not list could not be counted on some node."""

    @property
    def pods_known(self) -> bool:
        """False if pods are unknown; nodes then count as empty."""
        return self._listed is not None

    def of(self, node: str) -> Mapping[str, int]:
        """The usage of a node, in billionths by resource."""
        taken = self._fewer.get(node) or self._of.get(node)
        if taken is None:
            taken = self._of[node] = self._sum_on(node)
        return taken

    def without(self, node: str, ended: Iterable[Amounts]) -> ResourceUsage:
        """The usage after pods with these amounts have left a node."""
        left = dict(self.of(node))
        for amounts in ended:
            for name, amount in amounts:
                left[name] = left.get(name, 0) - amount
        others = copy(self)
        others._fewer = {**self._fewer, node: left}  # noqa: SLF001 - of the same class
        return others

    def on_nodes(self, nodes: Nodes, resource: str) -> Sequence[int]:
        """The usage of a resource on each of some nodes, in billionths."""
        known, columns = self._columns
        if known is not nodes:
            self._columns = nodes, (columns := {})
        if resource not in columns:
            columns[resource] = [
                (self._of.get(name) or self._sum_on(name)).get(resource, 0) for name in nodes.each(name_of)
            ]
        if not self._fewer:
            return columns[resource]
        found = list(columns[resource])
        for name, amounts in self._fewer.items():
            position = nodes.positions.get(name)
            if position is not None:
                found[position] = amounts.get(resource, 0)
        return found

    def _sum_on(self, node: str) -> Mapping[str, int]:
        if self._listed is None:
            return {}
        listed, others = self._listed.get(node, {}), self._view.others_on(node)
        if others is UNKNOWN:
            self.others_known = False
            return listed
        if not others:
            return listed
        return {name: listed.get(name, 0) + others.get(name, 0) for name in {**listed, **others}}


class NoUsage(ResourceUsage):
    """The usage of nodes on which no pod runs."""

    def _sum_on(self, node: str) -> Mapping[str, int]:
        return {}
