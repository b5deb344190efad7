"""A bound on the work of one evaluation, for what CEL's own costs do not see.

cel-go charges one unit for comparing two lists of lists, however large the inner ones are, and as much for adding two
strings whose types it does not know. Expressions that use it would run for ever. Kubernetes stops them by a time limit;
we stop them by counting.

This is no `policies.work.Work`: like the cost in `interpreter.meter`, it stands for a limit of Kubernetes. A selector that
exceeds it fails on the device for every review, and that verdict is cached, whatever work the review may still do.
"""

from __future__ import annotations

import threading

from policies.dra.cel.errors import EvaluationAborted

__all__ = ["COST_LIMIT_EXCEEDED", "STEP_LIMIT", "begin_evaluation", "spend_steps", "steps_spent"]

STEP_LIMIT = 2_500_000
"""Steps: a list's element visited, four characters of a string built. The cost limit allows as many characters."""

COST_LIMIT_EXCEEDED = "operation cancelled: actual cost limit exceeded"


class _Meter(threading.local):
    left = STEP_LIMIT


_METER = _Meter()


def begin_evaluation() -> None:
    """Start an evaluation in this thread."""
    _METER.left = STEP_LIMIT


def spend_steps(steps: int) -> None:
    """Count steps before they are made.

    Raises:
        EvaluationAborted: they would be too many.
    """
    if steps > _METER.left:
        raise EvaluationAborted(COST_LIMIT_EXCEEDED)
    _METER.left -= steps


def steps_spent() -> int:
    """The steps that were counted in this thread since the evaluation began."""
    return STEP_LIMIT - _METER.left
