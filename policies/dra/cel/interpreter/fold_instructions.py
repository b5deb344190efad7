"""The instructions of comprehensions; while one runs, its iterator is on the stack.

Source: cel-go interpreter/interpretable.go, evalFold and folder.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.dra.cel.errors import CelRuntimeError
from policies.dra.cel.interpreter.access import UNSET
from policies.dra.cel.interpreter.comprehensions import entries, finished

if TYPE_CHECKING:
    from policies.dra.cel.interpreter import plan
    from policies.dra.cel.interpreter.machine import Instruction, Label, Machine

__all__ = ["check_condition", "end_fold", "next_item", "start_fold", "store"]


def _failed(value: object) -> bool:
    return value.__class__ is CelRuntimeError


def start_fold(step: plan.Fold, end: Label) -> Instruction:
    """Begin to go through what is on top."""

    def run(machine: Machine) -> int | None:
        over = machine.stack.pop()
        if not _failed(over):
            try:
                machine.stack.append(entries(over, are_pairs=step.second >= 0))  # type: ignore[arg-type]  # a value
            except CelRuntimeError as error:
                over = error
            else:
                machine.frame[step.accumulator] = UNSET
                return None
        machine.stack.append(over)
        return end.at

    return run


def next_item(step: plan.Fold, result: Label) -> Instruction:
    """Set the loop's variables to the next item, or end the loop."""

    def run(machine: Machine) -> int | None:
        item = next(machine.stack[-1], None)  # type: ignore[call-overload]  # the iterator
        if item is None:
            return result.at
        machine.count_iteration()
        machine.frame[step.variable] = item[0]
        if step.second >= 0:
            machine.frame[step.second] = item[1]
        return None

    return run


def check_condition(result: Label) -> Instruction:
    """End the loop if the condition is false; whatever else it is, go on."""
    return lambda machine: result.at if machine.stack.pop() is False else None


def store(slot: int, loop: Label) -> Instruction:
    """Keep what the step came to, and begin the next round."""

    def run(machine: Machine) -> int:
        machine.frame[slot] = machine.stack.pop()
        return loop.at

    return run


def end_fold(slot: int) -> Instruction:
    """Put the result in the place of the iterator."""

    def run(machine: Machine) -> None:
        value = machine.stack.pop()
        grown = value is machine.frame[slot] and not _failed(value)
        machine.stack[-1] = finished(value) if grown else value  # type: ignore[arg-type]  # a value

    return run
