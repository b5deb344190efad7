"""Pods of lower priority that must end for a pod to fit.

Kubernetes' scheduler preempts pods for the resources of nodes, but not for devices of claims.

Source: k8s.io/kubernetes pkg/scheduler/framework/preemption; the plugin dynamicresources has no PreFilterExtensions.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple

from policies.devices.allocation.reading import AllocationError
from policies.devices.allocation.usage import Held, Usage
from policies.fleet.cluster_digest import Nodes
from policies.kubernetes.bounds import check_cancelled
from policies.kubernetes.objects import lookup, name_of, namespace_of
from policies.kubernetes.pod_templates import pod_priority, preempts
from policies.kubernetes.quantities import taken_by
from policies.kubernetes.view import UNKNOWN, ClusterView
from policies.outcome.allocation import SolutionState, Solver
from policies.outcome.claims import MOST_PODS, reservations
from policies.outcome.nodes import NodeChecks

if TYPE_CHECKING:
    from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence

    from policies.devices.allocation.allocator import Allocator
    from policies.fleet.cluster_digest import Holding
    from policies.kubernetes.objects import Object
    from policies.outcome.allocation import AllocationProblem
    from policies.outcome.survey import AlikeNodes, Survey


_MOST_NODES = 16
"""Nodes that are tried, those with the fewest pods of lower priority first."""
_MOST_PODS = 64
"""Pods of lower priority on a node; nodes with more are skipped."""


class PodsToEnd(NamedTuple):
    """Pods on one node that must end for a pod of higher priority to fit there."""

    node: str
    pods: tuple[str, ...]
    """As `team-b/train-0`."""
    highest_priority: int
    """The highest priority of these pods."""
    priority: int
    """The priority of the pod that fits then."""


class _Pod(NamedTuple):
    """A pod on a node, with known priority."""

    name: str
    """`team-b/train-0`."""
    priority: int
    amounts: tuple[tuple[str, int], ...]
    """The resources that it uses on its node, in billionths."""


@dataclass(frozen=True, slots=True)
class _Node:
    """A node on which the question would fit if nothing were in use."""

    position: int
    name: str
    lower: tuple[_Pod, ...]
    """The pods of lower priority on the node, the highest priority first."""
    claims: tuple[Holding, ...]
    """The claims that only these pods use."""
    others: Usage
    """The devices that all others use in the cluster."""


def pods_to_end(survey: Survey) -> list[PodsToEnd]:
    """For each node the pods of lower priority that must end for the pod to fit, fewest pods first.

    Nodes on which the scheduler preempts pods by itself are left out.
    """
    pod = survey.question.pod
    if pod is None or not survey.cluster.nodes_known or not preempts(pod.spec, survey.view):
        return []
    priority = pod_priority(pod.spec, survey.view)
    if priority is UNKNOWN:
        return []
    found = []
    for node in _nodes(survey, priority):
        check_cancelled()
        if ended := _pods_to_end(node, survey):
            highest = max(each.priority for each in ended)
            found.append(PodsToEnd(node.name, tuple([each.name for each in ended]), highest, priority))
    return sorted(found, key=lambda each: (len(each.pods), each.highest_priority, each.node))


def _nodes(survey: Survey, priority: int) -> list[_Node]:
    """The nodes to try."""
    pods = survey.view.derive(_pods_by_node)
    lower: dict[int, tuple[_Pod, ...]] = {}
    solver = Solver(survey.problem, survey.cluster.usage)
    for alike in survey.groups:
        if alike.fits_if_empty and not alike.fits and solver.has_claims(alike.resources):
            for position in alike.positions:
                found = pods.get(name_of(survey.cluster.nodes[position]), ())
                lower[position] = tuple(each for each in found if each.priority < priority)
    few = sorted(
        (position for position in lower if 0 < len(lower[position]) <= _MOST_PODS), key=lambda each: len(lower[each])
    )
    return [_node(position, lower[position], survey) for position in few[:_MOST_NODES]]


def _node(position: int, lower: Sequence[_Pod], survey: Survey) -> _Node:
    names = {each.name for each in lower}
    theirs = [each for each in survey.cluster.holding if _is_freed(each, names)]
    kept = {id(each) for each in theirs}
    others = Usage.of_allocations(each.held for each in survey.cluster.holding if id(each) not in kept)
    held = {each.name: sum(len(claim.held.devices) for claim in theirs if each.name in claim.pods) for each in lower}
    ordered = sorted(lower, key=lambda each: (-each.priority, held[each.name], each.name))
    return _Node(position, name_of(survey.cluster.nodes[position]), tuple(ordered), tuple(theirs), others)


def _pods_to_end(node: _Node, survey: Survey) -> tuple[_Pod, ...]:
    """A minimal set of pods to end; empty if all do not suffice, or the scheduler preempts by itself.

    Like the scheduler, it ends all of them and then spares those of the highest priority first; of equal priority, those
    with the fewest devices.
    """
    if not _fits(node, node.lower, survey) or _fits(node, node.lower, survey, freed=()):
        return ()
    ended = list(node.lower)
    for each in node.lower:
        without = [other for other in ended if other is not each]
        if _fits(node, without, survey):
            ended = without
    return tuple(ended)


def _fits(node: _Node, ended: Sequence[_Pod], survey: Survey, freed: Collection[_Pod] | None = None) -> bool:
    """True if the question fits once pods have ended; only pods in `freed`, if given, free their devices."""
    names = {each.name for each in (ended if freed is None else freed)}
    usage = node.others.and_held(each.held for each in node.claims if not _is_freed(each, names))
    resource_usage = survey.resource_usage.without(node.name, [each.amounts for each in ended])
    problem = replace(survey.problem, nodes=Nodes([survey.cluster.nodes[node.position]]))
    checks = NodeChecks(problem, resource_usage)
    if checks.mismatches(0):
        return False
    try:
        solution = Solver(survey.problem, usage).solution(node.position, checks.served_by_claims(0))
    except AllocationError:
        return False
    return solution.state is SolutionState.FITS


def _is_freed(claim: Holding, ended: Collection[str]) -> bool:
    """True if a claim is unused once these pods have ended."""
    return bool(claim.pods) and all(name in ended for name in claim.pods)


def _pods_by_node(view: ClusterView) -> Mapping[str, tuple[_Pod, ...]]:
    """The listed pods by node."""
    found: defaultdict[str, list[_Pod]] = defaultdict(list)
    pods, usages = view.list("Pod"), view.derive_each("Pod", taken_by)
    for pod, taken in () if pods is UNKNOWN or usages is UNKNOWN else zip(pods, usages, strict=True):
        if taken is not None and (priority := pod_priority(lookup(pod, ("spec",)), view)) is not UNKNOWN:
            node, amounts = taken
            found[node].append(_Pod(f"{namespace_of(pod)}/{name_of(pod)}", priority, amounts))
    return {node: tuple(there) for node, there in found.items()}


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
    own = {found.pool_id for found in problem.index.of_node(name_of(problem.nodes[alike.positions[0]]))}
    return any(
        (result.get("driver"), result.get("pool")) not in own
        for allocation in allocations
        for result in lookup(allocation, ("devices", "results")) or []
    )


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
