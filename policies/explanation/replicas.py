"""Replicas: how many pods or claims like this fit, placed one after the other."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from policies.dra.allocation.errors import AllocationError
from policies.dra.allocation.usage import Usage
from policies.explanation.claims import MOST_PODS, reservations
from policies.kubernetes.paths import lookup

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Mapping, Sequence

    from policies.dra.allocator import Allocator
    from policies.explanation.nodes import NodeChecks
    from policies.explanation.problem import AllocationProblem
    from policies.explanation.survey import Like, Survey
    from policies.kubernetes.objects import Object

__all__ = ["Replicas", "replicas"]

_MOST_ON_NODE = 128
_MOST_SEARCHES = 10_000
"""Searches after which counting ends; each takes a fraction of a millisecond."""


@dataclass(frozen=True, slots=True)
class Replicas:
    """How many there can be."""

    count: int
    at_least: bool = False


@dataclass(slots=True)
class _Books:
    """What is in use once some replicas are placed."""

    usage: Usage
    searches: int = 0
    stopped: bool = False
    allocators: dict[frozenset[str], Allocator] = field(default_factory=dict)
    failed: set[Hashable] = field(default_factory=set)
    """Shapes of nodes that have no room since the books last changed."""

    def hold(self, allocations: Iterable[Object]) -> None:
        """Take what was allocated."""
        self.usage = _together(self.usage, Usage.of_claims({"status": {"allocation": each}} for each in allocations))
        self.allocators = {}
        self.failed = set()


@dataclass(slots=True, eq=False)
class _Stand:
    """One node that stands for all that are like it, and how many replicas it has by now."""

    like: Like
    rooms: list[int | None]
    """For how many each node has room, its devices left aside."""
    replicas: int = 0

    @property
    def most(self) -> int:
        """How many are placed at most."""
        return min(_MOST_ON_NODE, max(_MOST_ON_NODE if room is None else room for room in self.rooms))

    @property
    def count(self) -> int:
        """How many there are on all the nodes together."""
        return sum(self.replicas if room is None else min(self.replicas, room) for room in self.rooms)


def replicas(ask: AllocationProblem, checks: NodeChecks, survey: Survey, usage: Usage) -> Replicas:
    """Place replicas as long as there is room on nodes that fit now.

    Nodes whose devices are their own are filled in step, one standing for all that are like it. Devices that several
    nodes can reach are given to one node after the other. A claim that all replicas share is allocated once, and the
    others go where its devices can be reached: the best single node counts.
    """
    fitting = [like for like in survey.likes if like.fits]
    limit = _limit(ask)
    if not ask.claims and not any(like.resources for like in fitting):
        rooms = [checks.room(position) for like in fitting for position in like.positions]
        known = [room for room in rooms if room is not None]
        return _limited(Replicas(sum(known), at_least=len(known) < len(rooms)), limit)
    shared = [claim for claim in ask.claims if claim.shared]
    if shared and ask.question.pod is not None:
        return _limited(_sharing(ask, checks, fitting), limit)
    books = _Books(usage)
    count, one_by_one = _fill_in_step(ask, checks, fitting, books)
    for like in one_by_one:
        for position in like.positions:
            count += _fill(ask, checks, position, like.resources, books)
    return _limited(Replicas(count, books.stopped), limit)


def _fill_in_step(
    ask: AllocationProblem, checks: NodeChecks, likes: Iterable[Like], books: _Books
) -> tuple[int, list[Like]]:
    """Give every stand another replica, as long as one gets any; and the nodes whose devices others can reach too."""
    stands = [_Stand(like, [checks.room(position) for position in like.positions]) for like in likes]
    alive = [stand for stand in stands if ask.claims or stand.like.resources]
    filled = [stand for stand in stands if not ask.claims and not stand.like.resources]
    for stand in filled:
        stand.replicas = max((room for room in stand.rooms if room is not None), default=1)
    one_by_one: list[Like] = []
    while alive and not books.stopped:
        survivors: list[_Stand] = []
        placed: list[Object] = []
        for stand in alive:
            allocations = _place(ask, stand.like.positions[0], stand.like.resources, books)
            if allocations is None:
                filled.append(stand)
            elif _reachable_elsewhere(allocations, ask, stand.like):
                one_by_one.append(stand.like)
            else:
                placed += allocations
                stand.replicas += 1
                survivors.append(stand)
        books.hold(placed)
        alive = [stand for stand in survivors if stand.replicas < stand.most]
        filled += [stand for stand in survivors if stand.replicas >= stand.most]
    books.stopped = books.stopped or any(stand.replicas >= _MOST_ON_NODE for stand in filled if None in stand.rooms)
    return sum(stand.count for stand in (*filled, *alive)), one_by_one


def _fill(ask: AllocationProblem, checks: NodeChecks, position: int, resources: frozenset[str], books: _Books) -> int:
    """Fill one node."""
    room = checks.room(position)
    count = 0
    while (room is None or count < room) and count < _MOST_ON_NODE:
        allocations = _place(ask, position, resources, books)
        if allocations is None:
            break
        books.hold(allocations)
        count += 1
    return count


def _sharing(ask: AllocationProblem, checks: NodeChecks, likes: Sequence[Like]) -> Replicas:
    """Replicas of a claim that they share: all on the best node, unless its devices can be reached from others too."""
    if not likes:
        return Replicas(0)
    if not all(claim.shared for claim in ask.claims):
        return Replicas(1, at_least=True)
    rooms = [checks.room(position) for like in likes for position in like.positions]
    known = [MOST_PODS if room is None else room for room in rooms]
    tied = all(_tied(allocation) for like in likes if like.outcome for allocation in like.outcome.allocations)
    most = max(known) if tied else sum(known)
    return Replicas(most if all(claim.group for claim in ask.claims) else min(MOST_PODS, most))


def _tied(allocation: Object) -> bool:
    """Whether the devices can be reached from one node only."""
    return bool(lookup(allocation, ("nodeSelector", "nodeSelectorTerms", 0, "matchFields")))


def _place(ask: AllocationProblem, position: int, resources: frozenset[str], books: _Books) -> list[Object] | None:
    """One more replica on a node; None where there is no room for it."""
    node = ask.nodes[position]
    try:
        if resources not in books.allocators:
            books.allocators[resources] = ask.allocator(resources, books.usage)
        allocator = books.allocators[resources]
        shape = allocator.node_shape(node)
        if shape in books.failed:
            return None
        books.stopped = books.stopped or books.searches >= _MOST_SEARCHES
        books.searches += 1
        allocations = None if books.stopped else allocator.allocate(node)
    except AllocationError:
        return None
    if allocations is None:
        books.failed.add(shape)
    return allocations


def _reachable_elsewhere(allocations: Iterable[Object], ask: AllocationProblem, like: Like) -> bool:
    """Whether any of the devices is not the node's own."""
    own = {found.pool_id for found in ask.index.of_node(_name(ask.nodes[like.positions[0]]))}
    return any(
        (result.get("driver"), result.get("pool")) not in own
        for allocation in allocations
        for result in lookup(allocation, ("devices", "results")) or []
    )


def _name(node: Object) -> str:
    return str(lookup(node, ("metadata", "name")))


def _limit(ask: AllocationProblem) -> int | None:
    """For how many more pods the claims that all replicas share can be reserved; None where they share none.

    A claim of a PodGroup is reserved for the group, whatever number of pods it has.
    """
    if ask.question.pod is None:
        return None
    shared = [claim for claim in (*ask.question.allocated, *ask.claims) if claim.shared and not claim.group]
    return min((MOST_PODS - len(reservations(claim.claim)) for claim in shared), default=None)


def _limited(found: Replicas, limit: int | None) -> Replicas:
    return found if limit is None or found.count < limit else Replicas(max(0, limit))


def _together(usage: Usage, more: Usage) -> Usage:
    capacity: defaultdict[str, dict[str, int]] = defaultdict(dict)
    for part in (usage.capacity, more.capacity):
        _add(capacity, part or {})
    return Usage(usage.devices | more.devices, usage.shared | more.shared, dict(capacity))


def _add(sums: dict[str, Any], part: Mapping[str, Mapping[str, int]]) -> None:
    for device, amounts in part.items():
        of_device = sums[device]
        for name, amount in amounts.items():
            of_device[name] = of_device.get(name, 0) + amount
