"""The number of replicas of a pod or claim that fit, placed one after the other."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from policies.dra.allocation.errors import AllocationError
from policies.dra.allocation.usage import Held
from policies.kubernetes.paths import lookup
from policies.outcome.claims import MOST_PODS, reservations

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Sequence

    from policies.dra.allocation.allocator import Allocator
    from policies.dra.allocation.usage import Usage
    from policies.kubernetes.objects import Object
    from policies.outcome.allocation import AllocationProblem
    from policies.outcome.nodes import NodeChecks
    from policies.outcome.survey import AlikeNodes, Survey

__all__ = ["ReplicaCount", "count_replicas"]

_MOST_ON_NODE = 128
_MOST_SEARCHES = 10_000
"""Counting ends after this number of searches; each takes a fraction of a millisecond."""


@dataclass(frozen=True, slots=True)
class ReplicaCount:
    """The number of replicas that fit."""

    count: int
    at_least: bool = False


@dataclass(slots=True)
class _Placements:
    """The devices in use after some replicas are placed."""

    usage: Usage
    searches: int = 0
    stopped: bool = False
    allocators: dict[frozenset[str], Allocator] = field(default_factory=dict)
    failed: set[Hashable] = field(default_factory=set)
    """Shapes of nodes that are full since the last placement."""

    def hold(self, allocations: Iterable[Object]) -> None:
        """Add allocations to the usage."""
        results = (lookup(allocation, ("devices", "results")) or () for allocation in allocations)
        self.usage = self.usage.and_held(map(Held.by, results))
        self.allocators = {}
        self.failed = set()


@dataclass(slots=True, eq=False)
class _AlikeFill:
    """The replicas placed on each of some alike nodes."""

    alike: AlikeNodes
    rooms: list[int | None]
    """The room of each node without its devices; None if unlimited."""
    replicas: int = 0

    @property
    def most(self) -> int:
        """The maximum of replicas on one node."""
        return min(_MOST_ON_NODE, max(_MOST_ON_NODE if room is None else room for room in self.rooms))

    @property
    def count(self) -> int:
        """The number of replicas on all these nodes."""
        return sum(self.replicas if room is None else min(self.replicas, room) for room in self.rooms)


def count_replicas(survey: Survey, groups: Iterable[AlikeNodes] | None = None) -> ReplicaCount:
    """Place replicas on the nodes that fit now, until they are full.

    Alike nodes with local devices are filled evenly, one standing for all. Devices that several nodes can reach are given
    to one node after the other. A claim that all replicas share is allocated once, and the best single node counts.

    Args:
        survey: With its nodes visited.
        groups: The only nodes to fill, groups or parts of groups; None for all.
    """
    problem, checks = survey.problem, survey.checks
    fitting = [alike for alike in (survey.groups if groups is None else groups) if alike.fits]
    limit = _limit(problem)
    if not problem.claims and not any(alike.resources for alike in fitting):
        rooms = [checks.room(position) for alike in fitting for position in alike.positions]
        known = [room for room in rooms if room is not None]
        return _at_most(ReplicaCount(sum(known), at_least=len(known) < len(rooms)), limit)
    shared = [claim for claim in problem.claims if claim.shared]
    if shared and problem.question.pod is not None:
        return _at_most(_count_sharing(problem, checks, fitting), limit)
    placements = _Placements(survey.cluster.usage)
    count, one_by_one = _fill_evenly(problem, checks, fitting, placements)
    for alike in one_by_one:
        for position in alike.positions:
            count += _fill(problem, checks, position, alike.resources, placements)
    return _at_most(ReplicaCount(count, placements.stopped), limit)


def _fill_evenly(
    problem: AllocationProblem, checks: NodeChecks, groups: Iterable[AlikeNodes], placements: _Placements
) -> tuple[int, list[AlikeNodes]]:
    """The replicas on nodes with local devices, filled evenly, and the nodes with shared devices."""
    stands = [_AlikeFill(alike, [checks.room(position) for position in alike.positions]) for alike in groups]
    alive = [stand for stand in stands if problem.claims or stand.alike.resources]
    filled = [stand for stand in stands if not problem.claims and not stand.alike.resources]
    for stand in filled:
        stand.replicas = max((room for room in stand.rooms if room is not None), default=1)
    one_by_one: list[AlikeNodes] = []
    while alive and not placements.stopped:
        survivors: list[_AlikeFill] = []
        placed: list[Object] = []
        for stand in alive:
            allocations = _place(problem, stand.alike.positions[0], stand.alike.resources, placements)
            if allocations is None:
                filled.append(stand)
            elif _reachable_elsewhere(allocations, problem, stand.alike):
                one_by_one.append(stand.alike)
            else:
                placed += allocations
                stand.replicas += 1
                survivors.append(stand)
        placements.hold(placed)
        alive = [stand for stand in survivors if stand.replicas < stand.most]
        filled += [stand for stand in survivors if stand.replicas >= stand.most]
    placements.stopped = placements.stopped or any(
        stand.replicas >= _MOST_ON_NODE for stand in filled if None in stand.rooms
    )
    return sum(stand.count for stand in (*filled, *alive)), one_by_one


def _fill(
    problem: AllocationProblem, checks: NodeChecks, position: int, resources: frozenset[str], placements: _Placements
) -> int:
    """Fill one node, and count its replicas."""
    room = checks.room(position)
    count = 0
    while (room is None or count < room) and count < _MOST_ON_NODE:
        allocations = _place(problem, position, resources, placements)
        if allocations is None:
            break
        placements.hold(allocations)
        count += 1
    return count


def _count_sharing(problem: AllocationProblem, checks: NodeChecks, groups: Sequence[AlikeNodes]) -> ReplicaCount:
    """Count replicas that share a claim: all on the best node, unless several nodes reach its devices."""
    if not groups:
        return ReplicaCount(0)
    if not all(claim.shared for claim in problem.claims):
        return ReplicaCount(1, at_least=True)
    rooms = [checks.room(position) for alike in groups for position in alike.positions]
    known = [MOST_PODS if room is None else room for room in rooms]
    tied = all(_is_tied(allocation) for alike in groups if alike.solution for allocation in alike.solution.allocations)
    most = max(known) if tied else sum(known)
    return ReplicaCount(most if all(claim.group for claim in problem.claims) else min(MOST_PODS, most))


def _is_tied(allocation: Object) -> bool:
    """True if the devices can be reached from one node only."""
    return bool(lookup(allocation, ("nodeSelector", "nodeSelectorTerms", 0, "matchFields")))


def _place(
    problem: AllocationProblem, position: int, resources: frozenset[str], placements: _Placements
) -> list[Object] | None:
    """Place one more replica on a node; None if the node is full."""
    node = problem.nodes[position]
    try:
        if resources not in placements.allocators:
            placements.allocators[resources] = problem.allocator(resources, placements.usage)
        allocator = placements.allocators[resources]
        shape = allocator.node_shape(node)
        if shape in placements.failed:
            return None
        placements.stopped = placements.stopped or placements.searches >= _MOST_SEARCHES
        placements.searches += 1
        allocations = None if placements.stopped else allocator.allocate(node)
    except AllocationError:
        return None
    if allocations is None:
        placements.failed.add(shape)
    return allocations


def _reachable_elsewhere(allocations: Iterable[Object], problem: AllocationProblem, alike: AlikeNodes) -> bool:
    """True if any of the devices is not local to the node."""
    own = {found.pool_id for found in problem.index.of_node(_name(problem.nodes[alike.positions[0]]))}
    return any(
        (result.get("driver"), result.get("pool")) not in own
        for allocation in allocations
        for result in lookup(allocation, ("devices", "results")) or []
    )


def _name(node: Object) -> str:
    return str(lookup(node, ("metadata", "name")))


def _limit(problem: AllocationProblem) -> int | None:
    """The number of pods that can still reserve the shared claims; None without shared claims.

    A claim of a PodGroup is reserved once for the whole group.
    """
    if problem.question.pod is None:
        return None
    shared = [claim for claim in (*problem.question.allocated, *problem.claims) if claim.shared and not claim.group]
    return min((MOST_PODS - len(reservations(claim.claim)) for claim in shared), default=None)


def _at_most(found: ReplicaCount, limit: int | None) -> ReplicaCount:
    return found if limit is None or found.count < limit else ReplicaCount(max(0, limit))
