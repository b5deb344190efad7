"""Solving claims on nodes: nodes of one shape are solved once."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import Enum
from typing import TYPE_CHECKING

from policies.dra.allocation.errors import InvalidPoolsError, SearchBudgetExceeded
from policies.dra.allocator import Allocator
from policies.dra.keeping_on import KeepOn, for_ever
from policies.explanation.extended_resources import NO_RESOURCES, implicit_claim

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping, Sequence

    from policies.dra.allocation.features import Features
    from policies.dra.allocation.index import SliceIndex
    from policies.dra.allocation.usage import Usage
    from policies.explanation.question import NamedClaim, Question
    from policies.kubernetes.objects import Object

__all__ = ["Ask", "Outcome", "Solver", "State"]

_STEPS = 20_000
"""Search steps on one node; what the scheduler would find is found in hundreds."""
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


@dataclass(frozen=True, slots=True)
class Ask:
    """Claims that are asked for together, and all that decides about them but nodes and usage."""

    question: Question
    claims: tuple[NamedClaim, ...]
    classes: tuple[Object, ...]
    by_resource: Mapping[str, Object]
    """The DeviceClass by extended resource that it can serve."""
    index: SliceIndex
    nodes: Sequence[Object]
    features: Features
    keep_on: KeepOn = for_ever
    _allocators: dict[frozenset[str], Allocator] = field(default_factory=dict, init=False)
    """One for each set of resources that claims serve; against all usages together, since these share what they know."""

    def with_claim(self, number: int, claim: NamedClaim) -> Ask:
        """The same with another claim in the place of one."""
        return replace(self, claims=(*self.claims[:number], claim, *self.claims[number + 1 :]))

    def claims_on(self, resources: frozenset[str]) -> tuple[NamedClaim, ...]:
        """All claims on nodes where these extended resources are served by a claim."""
        if not resources:
            return self.claims
        return (*self.claims, implicit_claim(self.question, self.by_resource, resources))

    def allocator(self, resources: frozenset[str], usage: Usage, budget: int = _STEPS) -> Allocator:
        """An allocator for these claims.

        Raises:
            AllocationError: a field of a claim or a class is of the wrong type.
        """
        if resources not in self._allocators:
            self._allocators[resources] = Allocator(
                self.index,
                claims=[claim.claim for claim in self.claims_on(resources)],
                classes=self.classes,
                features=self.features,
                keep_on=self.keep_on,
            )
        return self._allocators[resources].against(usage, budget)


class Solver:
    """Solves one ask against one usage, on as many nodes as there are."""

    def __init__(self, ask: Ask, usage: Usage) -> None:
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
        return resources, self.allocator(resources, _STEPS).node_shape(self._ask.nodes[position])

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

    def allocator(self, resources: frozenset[str], budget: int = _STEPS) -> Allocator:
        """The allocator for nodes where these extended resources are served by a claim."""
        key = (resources, budget)
        if key not in self._allocators:
            self._allocators[key] = self._ask.allocator(resources, self._usage, budget)
        return self._allocators[key]

    def _solved(self, position: int, resources: frozenset[str]) -> Outcome:
        budget = _STEPS if self._given_up < _MOST_GIVEN_UP else _FEW_STEPS
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
