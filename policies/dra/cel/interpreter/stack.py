"""Compiled code, and the stack that it takes when variables of `cel.bind` read each other.

Such a variable gets its value when it is first read. In an expression of 10 KiB, each may read the one before, which nests
some 20,000 of Python's calls. A higher limit of recursion would hold for all threads, and C code that recurses, such as
json.loads, would overflow C's stack there. So an evaluation that is too deep for one thread continues in another one.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from policies.dra.cel.interpreter.meter import METER
from policies.dra.cel.steps import begin_evaluation, spend_steps, steps_spent

if TYPE_CHECKING:
    from policies.dra.cel.interpreter.meter import Meter
    from policies.dra.cel.values import Value

__all__ = ["Code", "Compiled", "Frame", "first_value", "on_empty_stack"]

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
