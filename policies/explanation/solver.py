"""The solver: allocates claims on nodes, once for all nodes of one shape."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from policies.dra.allocation.errors import InvalidPoolsError, SearchBudgetExceeded
from policies.explanation.problem import NO_RESOURCES, STEPS

if TYPE_CHECKING:
    from collections.abc import Hashable

    from policies.dra.allocation.allocator import Allocator
    from policies.dra.allocation.usage import Usage
    from policies.explanation.problem import AllocationProblem
    from policies.kubernetes.objects import Object

__all__ = ["Solution", "SolutionState", "Solver"]

_FEW_STEPS = 1_000
_MOST_GIVEN_UP = 10
"""After this number of searches that were given up, the others get a few steps only."""


class SolutionState(Enum):
    """Whether the claims fit a node."""

    FITS = "fits"
    DOES_NOT_FIT = "does not fit"
    GAVE_UP = "gave up"


@dataclass(frozen=True, slots=True)
class Solution:
    """The result for all nodes of one shape."""

    state: SolutionState
    allocations: tuple[Object, ...] = ()
    """The allocation of each claim on the node that was solved first."""
    node: int = 0
    """The position of that node."""


class Solver:
    """Solves a problem with one usage, on any number of nodes."""

    def __init__(self, problem: AllocationProblem, usage: Usage) -> None:
        self._problem = problem
        self._usage = usage
        self._allocators: dict[tuple[frozenset[str], int], Allocator] = {}
        self._solutions: dict[Hashable, Solution] = {}
        self._given_up = 0

    def shape(self, position: int, resources: frozenset[str] = NO_RESOURCES) -> Hashable:
        """A key, equal for nodes with the same solution.

        Raises:
            AllocationError: A node selector of a slice is invalid.
        """
        return resources, self.allocator(resources, STEPS).node_shape(self._problem.nodes[position])

    def solution(self, position: int, resources: frozenset[str] = NO_RESOURCES) -> Solution:
        """The solution on a node.

        Raises:
            AllocationError: Kubernetes' scheduler fails, for all nodes.
        """
        if not self.has_claims(resources):
            return Solution(SolutionState.FITS, node=position)
        shape = self.shape(position, resources)
        if shape not in self._solutions:
            self._solutions[shape] = self._solve(position, resources)
        return self._solutions[shape]

    @property
    def solved(self) -> int:
        """The number of shapes that were solved."""
        return len(self._solutions)

    def has_claims(self, resources: frozenset[str]) -> bool:
        """True if there are claims to allocate."""
        return bool(self._problem.claims or resources)

    def allocator(self, resources: frozenset[str], budget: int = STEPS) -> Allocator:
        """The allocator for nodes where a claim serves these extended resources."""
        key = (resources, budget)
        if key not in self._allocators:
            self._allocators[key] = self._problem.allocator(resources, self._usage, budget)
        return self._allocators[key]

    def _solve(self, position: int, resources: frozenset[str]) -> Solution:
        budget = STEPS if self._given_up < _MOST_GIVEN_UP else _FEW_STEPS
        try:
            allocations = self.allocator(resources, budget).allocate(self._problem.nodes[position])
        except InvalidPoolsError:
            return Solution(SolutionState.DOES_NOT_FIT, node=position)
        except SearchBudgetExceeded:
            self._given_up += 1
            return Solution(SolutionState.GAVE_UP, node=position)
        if allocations is None:
            return Solution(SolutionState.DOES_NOT_FIT, node=position)
        return Solution(SolutionState.FITS, tuple(allocations), position)
