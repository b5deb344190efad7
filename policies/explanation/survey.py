"""The survey: whether the question fits on each node, now and if nothing were in use."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from policies.dra.allocation.errors import AllocationError
from policies.dra.allocation.usage import NONE
from policies.explanation.device_reasons import DeviceMiss, DeviceReasons
from policies.explanation.report import ReasonKind
from policies.explanation.solver import Outcome, Solver, State

if TYPE_CHECKING:
    from collections.abc import Hashable

    from policies.explanation.cluster import Cluster, Taken
    from policies.explanation.nodes import Miss, NodeChecks
    from policies.explanation.problem import AllocationProblem
    from policies.explanation.question import Question
    from policies.settings import GPUAdmissionPolicy
    from policies.view import ClusterView

__all__ = ["Facts", "Failure", "Like", "Survey", "survey"]


@dataclass(frozen=True, slots=True)
class Failure:
    """An error that stops the scheduler, on the node where it is met first."""

    message: str
    position: int


@dataclass(slots=True)
class Like:
    """Nodes that have one answer: by their own checks, or by the shape of their devices."""

    fits_if_empty: bool
    miss: Miss | None = None
    outcome: Outcome | None = None
    devices: DeviceMiss | None = None
    resources: frozenset[str] = frozenset()
    """The extended resources that a claim serves here."""
    positions: list[int] = field(default_factory=list)
    misses: list[Miss] = field(default_factory=list)
    """One for each node, where the node's own checks decided."""

    @property
    def fits(self) -> bool:
        """Whether it fits now."""
        return self.outcome is not None and self.outcome.state is State.FITS


@dataclass(slots=True)
class Survey:
    """What became of all nodes."""

    likes: list[Like] = field(default_factory=list)
    failure: Failure | None = None

    def count(self, *, empty: bool = False) -> int:
        """Nodes that fit now, or that would if nothing were in use."""
        return sum(len(like.positions) for like in self.likes if (like.fits_if_empty if empty else like.fits))

    @property
    def unknown(self) -> int:
        """Nodes on which the search was given up."""
        gave_up = (like for like in self.likes if like.outcome is not None and like.outcome.state is State.GAVE_UP)
        return sum(len(like.positions) for like in gave_up)


def survey(ask: AllocationProblem, checks: NodeChecks, cluster: Cluster) -> Survey:
    """Ask every node, those of one shape once. It ends with the first error that stops the scheduler."""
    found = Survey()
    by_key: dict[Hashable, Like] = {}
    now, empty = Solver(ask, cluster.usage), Solver(ask, NONE)
    for position in range(len(ask.nodes)):
        ask.check_cancelled()
        miss, resources = checks.miss(position), checks.served_by_claims(position)
        try:
            key, like = _answer(position, miss, resources, now, empty, by_key)
        except AllocationError as error:
            found.failure = Failure(str(error), position)
            return found
        by_key[key] = like
        like.positions.append(position)
        if miss is not None:
            like.misses.append(miss)
    found.likes = list(by_key.values())
    reasons = DeviceReasons(ask, now, cluster.usage, cluster.holders)
    for like in found.likes:
        if like.outcome is not None and like.outcome.state is State.NOT:
            like.devices = reasons.miss(like.positions[0], like.resources)
    return found


def _answer(
    position: int,
    miss: Miss | None,
    resources: frozenset[str],
    now: Solver,
    empty: Solver,
    known: dict[Hashable, Like],
) -> tuple[Hashable, Like]:
    """The nodes that this one is like.

    Raises:
        AllocationError: Kubernetes' scheduler fails.
    """
    if miss is not None:
        in_time = miss.kind is ReasonKind.RESOURCES and not (miss.shortage and miss.shortage.for_ever)
        fits_if_empty = in_time and _fits_if_empty(position, resources, empty)
        key: Hashable = (miss.kind, miss.key, fits_if_empty)
        return key, known.get(key) or Like(fits_if_empty, miss, resources=resources)
    key = ("devices", now.shape(position, resources)) if now.asks(resources) else "fits"
    if key not in known:
        outcome = now.outcome(position, resources)
        fits_if_empty = outcome.state is State.FITS or _fits_if_empty(position, resources, empty)
        return key, Like(fits_if_empty, outcome=outcome, resources=resources)
    return key, known[key]


def _fits_if_empty(position: int, resources: frozenset[str], empty: Solver) -> bool:
    """Errors do not count: they would be met only once nothing is in use."""
    try:
        return empty.outcome(position, resources).state is State.FITS
    except AllocationError:
        return False


@dataclass(frozen=True, slots=True)
class Facts:
    """A question that does not fit everywhere, what was found out about it, and the cluster."""

    question: Question
    ask: AllocationProblem
    survey: Survey
    cluster: Cluster
    taken: Taken
    view: ClusterView
    settings: GPUAdmissionPolicy
