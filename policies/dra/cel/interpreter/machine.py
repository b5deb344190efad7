"""The exact way to evaluate: a stack machine that charges as cel-go's cost tracker does and never recurses.

Failures are values on its stack, because cel-go goes on after many of them and charges for what it does.
Source: cel-go interpreter/runtimecost.go and interpretable.go; what is charged when is told in `runtime_cost`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from policies.dra.cel.errors import CelRuntimeError, EvaluationAborted
from policies.dra.cel.steps import COST_LIMIT_EXCEEDED

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from policies.dra.cel.cost.standard_charges import Outcome

    Instruction = Callable[["Machine"], int | None]
    """Does one thing and answers where to go on if it is not the next instruction."""

__all__ = ["COST_LIMIT", "Label", "Machine", "Routine", "is_failure", "outcome_of"]

COST_LIMIT = 1_000_000
"""CELSelectorExpressionMaxCost of resource.k8s.io, for the static estimate and at run time."""

_INTERRUPTED = "operation interrupted"
_MOST_ITERATIONS = COST_LIMIT // 2
"""Rounds of loops; those that cost anything cost at least two."""
_UINT64 = 2**64 - 1


@dataclass(slots=True, eq=False)
class Label:
    """A place in a routine that instructions jump to; known once everything is assembled."""

    at: int = -1


@dataclass(frozen=True, slots=True)
class Routine:
    """An assembled expression, with its subroutines behind its end."""

    instructions: Sequence[Instruction]
    end: int


@dataclass(slots=True)
class Machine:
    """One evaluation."""

    frame: list[object]
    """The Device and the variables of comprehensions."""
    stack: list[object] = field(default_factory=list)
    returns: list[int] = field(default_factory=list)
    """Where subroutines go back to."""
    cost: int = 0
    iterations: int = 0

    def run(self, routine: Routine) -> Outcome:
        """The value of the expression or the error it came to.

        Raises:
            EvaluationAborted: the cost limit is exceeded, or cel-go would panic.
        """
        instructions, end, place = routine.instructions, routine.end, 0
        while place != end:
            jump = instructions[place](self)
            if self.cost > COST_LIMIT:
                raise EvaluationAborted(COST_LIMIT_EXCEEDED)
            place = place + 1 if jump is None else jump
        return self.stack.pop()  # type: ignore[return-value]  # of an expression

    def charge(self, cost: int) -> None:
        """Add to the cost; some of cel-go's charges are so large that its sum wraps around."""
        self.cost = (self.cost + cost) & _UINT64

    def count_iteration(self) -> None:
        """Bound loops, some of which cost nothing at all.

        Raises:
            EvaluationAborted: Kubernetes' time limit would long have ended the evaluation.
        """
        self.iterations += 1
        if self.iterations > _MOST_ITERATIONS:
            raise EvaluationAborted(_INTERRUPTED)


def is_failure(value: object) -> bool:
    """Whether a value on the stack is an error."""
    return value.__class__ is CelRuntimeError


def outcome_of(compute: Callable[[], Outcome]) -> Outcome:
    """The value that a function returns, or the error that it raises."""
    try:
        return compute()
    except CelRuntimeError as error:
        return error.with_traceback(None)
