"""Compiled code, the stack that it takes, and the meter that charges for its steps."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from policies.cel.errors import COST_LIMIT_EXCEEDED, EvaluationAborted, begin_evaluation, spend_steps, steps_spent
from policies.cel.values import UINT64_MAX

if TYPE_CHECKING:
    from policies.cel.values import Value


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


Frame = list[object]
"""The device, the meter or None, then the variables of comprehensions."""
Code = Callable[[Frame], "Value"]

_RESERVED_FRAMES = 200
"""The frames of a thread's stack that are left for its start and for the functions of CEL's libraries."""


class Compiled(NamedTuple):
    """Code, and the most frames of the stack that it takes, without first values that it reads."""

    code: Code
    frames: int


def first_value(initial: Compiled, frame: Frame) -> Value:
    """The value that an accumulator begins as; from a new thread if this one has too few frames left."""
    meter: Meter | None = frame[METER]  # type: ignore[assignment]  # a frame has it there
    if meter is None or meter.frames_left is None:
        return initial.code(frame)
    left = meter.frames_left
    if initial.frames > left:
        return on_empty_stack(initial, frame, meter)
    meter.frames_left = left - initial.frames
    try:
        return initial.code(frame)
    finally:
        meter.frames_left = left


def on_empty_stack(compiled: Compiled, frame: Frame, meter: Meter) -> Value:
    """The value of code that a new thread evaluates; its steps are counted for the caller's thread."""
    values: list[Value] = []
    failures: list[BaseException] = []
    left, spent = meter.frames_left, steps_spent()

    def run() -> None:
        nonlocal spent
        begin_evaluation()
        spend_steps(spent)
        try:
            values.append(compiled.code(frame))
        except BaseException as error:  # noqa: BLE001 - raised again below
            failures.append(error)
        spent = steps_spent()

    meter.frames_left = sys.getrecursionlimit() - _RESERVED_FRAMES - compiled.frames
    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    meter.frames_left = left
    begin_evaluation()
    spend_steps(spent)
    if failures:
        raise failures[0]
    return values[0]
