"""Pods of lower priority that must end for a pod to fit.

Kubernetes' scheduler preempts pods for the resources of nodes, but not for devices of claims.

Source: k8s.io/kubernetes pkg/scheduler/framework/preemption; the plugin dynamicresources has no PreFilterExtensions.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

from policies.dra.allocation.errors import AllocationError
from policies.dra.allocation.usage import Usage
from policies.fleet.cluster_digest import Nodes
from policies.kubernetes.amounts import taken_by
from policies.kubernetes.objects import name_of, namespace_of
from policies.kubernetes.paths import lookup
from policies.outcome.allocation import SolutionState, Solver
from policies.outcome.nodes import NodeChecks
from policies.priorities import pod_priority, preempts
from policies.view import UNKNOWN, ClusterView
from policies.work import check_cancelled

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from policies.fleet.cluster_digest import Holding
    from policies.outcome.survey import Survey

__all__ = ["PodsToEnd", "pods_to_end"]

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
    pods = view.list("Pod")
    found: defaultdict[str, list[_Pod]] = defaultdict(list)
    for pod in () if pods is UNKNOWN else pods:
        resource_usage, priority = taken_by(pod), pod_priority(lookup(pod, ("spec",)), view)
        if resource_usage is not None and priority is not UNKNOWN:
            name = f"{namespace_of(pod)}/{name_of(pod)}"
            found[resource_usage[0]].append(_Pod(name, priority, resource_usage[1]))
    return {node: tuple(there) for node, there in found.items()}
