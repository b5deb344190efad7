"""The survey: whether a question fits on each node, now and if nothing were in use."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from policies.dra.allocation.errors import AllocationError
from policies.dra.allocation.usage import NONE
from policies.kubernetes.objects import name_of
from policies.outcome.allocation import Solution, SolutionState, Solver, allocation_problem
from policies.outcome.cluster import Holders
from policies.outcome.device_reasons import DeviceMismatch, DeviceReasons
from policies.outcome.nodes import NodeChecks
from policies.outcome.reasons import Reason, ReasonKind, node_reason
from policies.work import check_cancelled

if TYPE_CHECKING:
    from collections.abc import Collection, Hashable, Iterable, Sequence

    from policies.outcome.cluster import Audience, Cluster, ResourceUsage
    from policies.outcome.question import Question
    from policies.outcome.reasons import NodeMismatch
    from policies.settings import GPUAdmissionPolicy
    from policies.view import ClusterView

__all__ = ["AlikeNodes", "Failure", "Survey"]

_MOST_VALUE_GROUPS = 4
_GAVE_UP = "whether it fits is unknown: too many combinations of devices nearly satisfy the claims to try them all"


@dataclass(frozen=True, slots=True)
class Failure:
    """An error that stops the scheduler, with the position of the first node that causes it."""

    message: str
    position: int


@dataclass(slots=True)
class AlikeNodes:
    """Nodes with the same result, by their own checks or by the shape of their devices."""

    fits_if_empty: bool
    mismatch: NodeMismatch | None = None
    solution: Solution | None = None
    devices: DeviceMismatch | None = None
    resources: frozenset[str] = frozenset()
    """The extended resources that a claim serves on these nodes."""
    positions: list[int] = field(default_factory=list)
    mismatches: list[NodeMismatch] = field(default_factory=list)
    """One for each node, if the checks of nodes decided."""

    @property
    def fits(self) -> bool:
        """True if the nodes fit now."""
        return self.solution is not None and self.solution.state is SolutionState.FITS


class Survey:
    """The results of all nodes for one question, and the facts that they rest on."""

    def __init__(
        self,
        question: Question,
        view: ClusterView,
        settings: GPUAdmissionPolicy,
        audience: Audience,
        *,
        cluster: Cluster,
        resource_usage: ResourceUsage,
    ) -> None:
        """Prepare the survey; `visit_nodes` does the work."""
        self.question = question
        self.view = view
        self.settings = settings
        self.audience = audience
        self.cluster = cluster
        self.resource_usage = resource_usage
        self.problem = allocation_problem(question, cluster, view, settings)
        self.checks = NodeChecks(self.problem.question, cluster.nodes, resource_usage, self.problem.by_resource)
        self.groups: list[AlikeNodes] = []

    def count(self, *, empty: bool = False) -> int:
        """The number of nodes that fit now, or that would fit if nothing were in use."""
        return sum(len(alike.positions) for alike in self.groups if (alike.fits_if_empty if empty else alike.fits))

    @property
    def unknown(self) -> int:
        """The number of nodes on which the search was given up."""
        gave_up = (
            alike
            for alike in self.groups
            if alike.solution is not None and alike.solution.state is SolutionState.GAVE_UP
        )
        return sum(len(alike.positions) for alike in gave_up)

    def visit_nodes(self) -> Failure | None:
        """Check every node, those of one shape once.

        Returns the first error that stops the scheduler; there are no groups then.

        Raises:
            AllocationError: The devices of a node that does not fit cannot be read.
        """
        by_key: dict[Hashable, AlikeNodes] = {}
        now, empty = Solver(self.problem, self.cluster.usage), Solver(self.problem, NONE)
        for position in range(len(self.problem.nodes)):
            check_cancelled()
            mismatch, resources = self.checks.mismatch(position), self.checks.served_by_claims(position)
            try:
                key, alike = _answer(position, mismatch, resources, now, empty, by_key)
            except AllocationError as error:
                return Failure(str(error), position)
            by_key[key] = alike
            alike.positions.append(position)
            if mismatch is not None:
                alike.mismatches.append(mismatch)
        self.groups = list(by_key.values())
        reasons = DeviceReasons(self.problem, now, self.cluster.usage, Holders(self.cluster.holding, self.audience))
        for alike in self.groups:
            if alike.solution is not None and alike.solution.state is SolutionState.DOES_NOT_FIT:
                alike.devices = reasons.mismatch(alike.positions[0], alike.resources)
        return None

    def ranked_groups(self, names: Collection[str] | None = None) -> list[list[AlikeNodes]]:
        """The groups, those with one reason together.

        Nodes that fit come first, then nodes that would fit if nothing were in use, then nodes rejected for their devices,
        the largest groups first.

        Args:
            names: The only nodes to rank; None for all.
        """
        groups = self.groups if names is None else [each for each in self._parts_on(names) if each.positions]
        merged: dict[Hashable, list[AlikeNodes]] = {}
        for alike in groups:
            merged.setdefault(_key(alike), []).append(alike)
        return sorted((group for each in merged.values() for group in _by_values(each)), key=_rank)

    def names(self, groups: Iterable[AlikeNodes]) -> list[str]:
        """The names of the nodes in some groups, in the order of the cluster."""
        positions = sorted(position for alike in groups for position in alike.positions)
        return [name_of(self.cluster.nodes[position]) for position in positions]

    def reason(self, groups: Sequence[AlikeNodes]) -> Reason | None:
        """The common reason of groups that `ranked_groups` has put together; None if they fit."""
        first = min(groups, key=lambda alike: alike.positions[0])
        if first.fits:
            return None
        if first.devices is not None:
            return first.devices.reason
        if first.mismatch is not None:
            there = [self.cluster.nodes[position] for position in first.positions]
            return node_reason(first.mismatches, there, self.question, self.audience)
        return Reason(ReasonKind.GAVE_UP, _GAVE_UP)

    def _parts_on(self, names: Collection[str]) -> Iterable[AlikeNodes]:
        for alike in self.groups:
            kept = [name_of(self.cluster.nodes[position]) in names for position in alike.positions]
            mismatches = [each for each, is_kept in zip(alike.mismatches, kept, strict=False) if is_kept]
            positions = [each for each, is_kept in zip(alike.positions, kept, strict=True) if is_kept]
            yield replace(alike, positions=positions, mismatches=mismatches)


def _answer(
    position: int,
    mismatch: NodeMismatch | None,
    resources: frozenset[str],
    now: Solver,
    empty: Solver,
    known: dict[Hashable, AlikeNodes],
) -> tuple[Hashable, AlikeNodes]:
    """The key of a node's group, and the group.

    Raises:
        AllocationError: Kubernetes' scheduler fails.
    """
    if mismatch is not None:
        in_time = mismatch.kind is ReasonKind.RESOURCES and not (mismatch.shortage and mismatch.shortage.is_permanent)
        fits_if_empty = in_time and _fits_if_empty(position, resources, empty)
        key: Hashable = (mismatch.kind, mismatch.key, fits_if_empty)
        return key, known.get(key) or AlikeNodes(fits_if_empty, mismatch, resources=resources)
    key = ("devices", now.shape(position, resources)) if now.has_claims(resources) else "fits"
    if key not in known:
        solution = now.solution(position, resources)
        fits_if_empty = solution.state is SolutionState.FITS or _fits_if_empty(position, resources, empty)
        return key, AlikeNodes(fits_if_empty, solution=solution, resources=resources)
    return key, known[key]


def _fits_if_empty(position: int, resources: frozenset[str], empty: Solver) -> bool:
    """True if a node fits in an empty cluster; errors count as False."""
    try:
        return empty.solution(position, resources).state is SolutionState.FITS
    except AllocationError:
        return False


def _key(alike: AlikeNodes) -> Hashable:
    if alike.fits:
        return "fits"
    if alike.mismatch is not None:
        return alike.mismatch.kind, alike.mismatch.key, alike.fits_if_empty
    if alike.devices is None:
        return "gave up"
    return alike.devices.reason.kind, alike.devices.gist, alike.fits_if_empty


def _by_values(groups: list[AlikeNodes]) -> list[list[AlikeNodes]]:
    """Groups by the values that devices have where they do not match; one group if there are many."""
    by_values: dict[Hashable, list[AlikeNodes]] = {}
    for alike in groups:
        by_values.setdefault(alike.devices.values if alike.devices else (), []).append(alike)
    return list(by_values.values()) if len(by_values) <= _MOST_VALUE_GROUPS else [groups]


def _rank(groups: Sequence[AlikeNodes]) -> tuple[bool, bool, bool, int]:
    first = groups[0]
    size = sum(len(alike.positions) for alike in groups)
    return not first.fits, not first.fits_if_empty, first.mismatch is not None, -size
