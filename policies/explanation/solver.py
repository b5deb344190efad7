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

__all__ = ["Outcome", "Solver", "State"]

_FEW_STEPS = 1_000
_MOST_GIVEN_UP = 10
"""Once the search was given up on so many shapes, it tries the others for a few steps only."""


class State(Enum):
    """What becomes of the claims on a node."""

    FITS = "fits"
    NOT = "not"
    GAVE_UP = "gave up"


@dataclass(frozen=True, slots=True)
class Outcome:
    """The answer for all nodes of one shape."""

    state: State
    allocations: tuple[Object, ...] = ()
    """What each claim gets on the node that was asked about first."""
    node: int = 0
    """That node's position."""


class Solver:
    """Solves one ask against one usage, on as many nodes as there are."""

    def __init__(self, ask: AllocationProblem, usage: Usage) -> None:
        self._ask = ask
        self._usage = usage
        self._allocators: dict[tuple[frozenset[str], int], Allocator] = {}
        self._outcomes: dict[Hashable, Outcome] = {}
        self._given_up = 0

    def shape(self, position: int, resources: frozenset[str] = NO_RESOURCES) -> Hashable:
        """What of the node decides.

        Raises:
            AllocationError: a node selector of slices is none.
        """
        return resources, self.allocator(resources, STEPS).node_shape(self._ask.nodes[position])

    def outcome(self, position: int, resources: frozenset[str] = NO_RESOURCES) -> Outcome:
        """What becomes of the claims on a node.

        Raises:
            AllocationError: Kubernetes' scheduler fails, and with it the pod, whatever the other nodes are like.
        """
        if not self.asks(resources):
            return Outcome(State.FITS, node=position)
        shape = self.shape(position, resources)
        if shape not in self._outcomes:
            self._outcomes[shape] = self._solved(position, resources)
        return self._outcomes[shape]

    @property
    def solved(self) -> int:
        """How many shapes of nodes it was asked about."""
        return len(self._outcomes)

    def asks(self, resources: frozenset[str]) -> bool:
        """Whether there are claims at all."""
        return bool(self._ask.claims or resources)

    def allocator(self, resources: frozenset[str], budget: int = STEPS) -> Allocator:
        """The allocator for nodes where these extended resources are served by a claim."""
        key = (resources, budget)
        if key not in self._allocators:
            self._allocators[key] = self._ask.allocator(resources, self._usage, budget)
        return self._allocators[key]

    def _solved(self, position: int, resources: frozenset[str]) -> Outcome:
        budget = STEPS if self._given_up < _MOST_GIVEN_UP else _FEW_STEPS
        try:
            allocations = self.allocator(resources, budget).allocate(self._ask.nodes[position])
        except InvalidPoolsError:
            return Outcome(State.NOT, node=position)
        except SearchBudgetExceeded:
            self._given_up += 1
            return Outcome(State.GAVE_UP, node=position)
        if allocations is None:
            return Outcome(State.NOT, node=position)
        return Outcome(State.FITS, tuple(allocations), position)
