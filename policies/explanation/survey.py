"""The survey: whether the question fits on each node, now and if nothing were in use."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from policies.dra.allocation.errors import AllocationError
from policies.dra.allocation.usage import NONE
from policies.explanation.cluster import Holders
from policies.explanation.device_reasons import DeviceMismatch, DeviceReasons
from policies.explanation.group_report import ReasonKind
from policies.explanation.solver import Solution, SolutionState, Solver
from policies.work import check_cancelled

if TYPE_CHECKING:
    from collections.abc import Hashable

    from policies.explanation.audience import Audience
    from policies.explanation.cluster import Cluster, ResourceUsage
    from policies.explanation.nodes import NodeChecks, NodeMismatch
    from policies.explanation.problem import AllocationProblem
    from policies.explanation.question import Question
    from policies.settings import GPUAdmissionPolicy
    from policies.view import ClusterView

__all__ = ["AlikeNodes", "Failure", "Survey", "SurveyedQuestion", "survey"]


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


@dataclass(slots=True)
class Survey:
    """The results of all nodes."""

    groups: list[AlikeNodes] = field(default_factory=list)
    failure: Failure | None = None

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


def survey(problem: AllocationProblem, checks: NodeChecks, cluster: Cluster, audience: Audience) -> Survey:
    """Check every node, those of one shape once; the first error that stops the scheduler ends it."""
    found = Survey()
    by_key: dict[Hashable, AlikeNodes] = {}
    now, empty = Solver(problem, cluster.usage), Solver(problem, NONE)
    for position in range(len(problem.nodes)):
        check_cancelled()
        mismatch, resources = checks.mismatch(position), checks.served_by_claims(position)
        try:
            key, alike = _answer(position, mismatch, resources, now, empty, by_key)
        except AllocationError as error:
            found.failure = Failure(str(error), position)
            return found
        by_key[key] = alike
        alike.positions.append(position)
        if mismatch is not None:
            alike.mismatches.append(mismatch)
    found.groups = list(by_key.values())
    reasons = DeviceReasons(problem, now, cluster.usage, Holders(cluster.holding, audience))
    for alike in found.groups:
        if alike.solution is not None and alike.solution.state is SolutionState.DOES_NOT_FIT:
            alike.devices = reasons.mismatch(alike.positions[0], alike.resources)
    return found


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


@dataclass(frozen=True, slots=True)
class SurveyedQuestion:
    """A question with its survey, and the cluster."""

    question: Question
    problem: AllocationProblem
    survey: Survey
    cluster: Cluster
    resource_usage: ResourceUsage
    view: ClusterView
    settings: GPUAdmissionPolicy
    audience: Audience
