"""Solving claims on nodes: nodes of one shape are solved once."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from policies.dra.allocation.errors import InvalidPoolsError, SearchBudgetExceeded
from policies.explanation.problem import NO_RESOURCES, STEPS

if TYPE_CHECKING:
    from collections.abc import Hashable

    from policies.dra.allocation.usage import Usage
    from policies.dra.allocator import Allocator
    from policies.explanation.problem import AllocationProblem
    from policies.kubernetes.objects import Object

__all__ = ["Solution", "SolutionState", "Solver"]

_FEW_STEPS = 1_000
_MOST_GIVEN_UP = 10
"""Once the search was given up on so many shapes, it tries the others for a few steps only."""


class SolutionState(Enum):
    """What becomes of the claims on a node."""

    FITS = "fits"
    NOT = "not"
    GAVE_UP = "gave up"


@dataclass(frozen=True, slots=True)
class Solution:
    """The answer for all nodes of one shape."""

    state: SolutionState
    allocations: tuple[Object, ...] = ()
    """What each claim gets on the node that was asked about first."""
    node: int = 0
    """That node's position."""


class Solver:
    """Solves one ask against one usage, on as many nodes as there are."""

    def __init__(self, problem: AllocationProblem, usage: Usage) -> None:
        self._problem = problem
        self._usage = usage
        self._allocators: dict[tuple[frozenset[str], int], Allocator] = {}
        self._solutions: dict[Hashable, Solution] = {}
        self._given_up = 0

    def shape(self, position: int, resources: frozenset[str] = NO_RESOURCES) -> Hashable:
        """What of the node decides.

        Raises:
            AllocationError: a node selector of slices is none.
        """
        return resources, self.allocator(resources, STEPS).node_shape(self._problem.nodes[position])

    def solution(self, position: int, resources: frozenset[str] = NO_RESOURCES) -> Solution:
        """What becomes of the claims on a node.

        Raises:
            AllocationError: Kubernetes' scheduler fails, and with it the pod, whatever the other nodes are like.
        """
        if not self.has_claims(resources):
            return Solution(SolutionState.FITS, node=position)
        shape = self.shape(position, resources)
        if shape not in self._solutions:
            self._solutions[shape] = self._solve(position, resources)
        return self._solutions[shape]

    @property
    def solved(self) -> int:
        """How many shapes of nodes it was asked about."""
        return len(self._solutions)

    def has_claims(self, resources: frozenset[str]) -> bool:
        """Whether there are claims at all."""
        return bool(self._problem.claims or resources)

    def allocator(self, resources: frozenset[str], budget: int = STEPS) -> Allocator:
        """The allocator for nodes where these extended resources are served by a claim."""
        key = (resources, budget)
        if key not in self._allocators:
            self._allocators[key] = self._problem.allocator(resources, self._usage, budget)
        return self._allocators[key]

    def _solve(self, position: int, resources: frozenset[str]) -> Solution:
        budget = STEPS if self._given_up < _MOST_GIVEN_UP else _FEW_STEPS
        try:
            allocations = self.allocator(resources, budget).allocate(self._problem.nodes[position])
        except InvalidPoolsError:
            return Solution(SolutionState.NOT, node=position)
        except SearchBudgetExceeded:
            self._given_up += 1
            return Solution(SolutionState.GAVE_UP, node=position)
        if allocations is None:
            return Solution(SolutionState.NOT, node=position)
        return Solution(SolutionState.FITS, tuple(allocations), position)
