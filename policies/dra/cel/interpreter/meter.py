"""The meter of an evaluation, which charges as cel-go's cost tracker does; see `cost.runtime_cost`.

Source: cel-go interpreter/runtimecost.go.
"""

from __future__ import annotations

from policies.dra.cel.errors import EvaluationAborted
from policies.dra.cel.steps import COST_LIMIT_EXCEEDED
from policies.dra.cel.values import UINT64_MAX

__all__ = ["COST_LIMIT", "METER", "Meter"]

COST_LIMIT = 1_000_000
"""CELSelectorExpressionMaxCost of resource.k8s.io, for the static estimate and at run time."""
METER = 1
"""The place of the meter in a frame; None there while costs are not counted."""

_INTERRUPTED = "operation interrupted"
_MOST_ITERATIONS = COST_LIMIT // 2
"""Rounds of loops; those that cost anything cost at least two."""


class Meter:
    """The cost of one evaluation so far."""

    __slots__ = ("_iterations", "cost", "frames_left")

    def __init__(self) -> None:
        self.cost = 0
        self._iterations = 0
        self.frames_left: int | None = None
        """The frames of this thread's stack for first values of variables; None if they are not counted."""

    def charge(self, cost: int) -> None:
        """Add to the cost; some of cel-go's charges are so large that its sum wraps around.

        Raises:
            EvaluationAborted: the cost limit is exceeded.
        """
        self.cost = (self.cost + cost) & UINT64_MAX
        if self.cost > COST_LIMIT:
            raise EvaluationAborted(COST_LIMIT_EXCEEDED)

    def count_iteration(self) -> None:
        """Bound loops, some of which cost nothing at all.

        Raises:
            EvaluationAborted: Kubernetes' time limit would long have ended the evaluation.
        """
        self._iterations += 1
        if self._iterations > _MOST_ITERATIONS:
            raise EvaluationAborted(_INTERRUPTED)
