"""The instructions of the stack machine; each function makes one. While a loop runs, its iterator is on the stack.

Source of loops: cel-go interpreter/interpretable.go, evalFold and folder.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.dra.cel.cost.runtime_cost import call_charge
from policies.dra.cel.equality import equal, equals
from policies.dra.cel.errors import CelRuntimeError
from policies.dra.cel.interpreter.access import UNSET, begun
from policies.dra.cel.interpreter.closures import entries, finished
from policies.dra.cel.interpreter.lookups import is_member
from policies.dra.cel.interpreter.machine import is_failure, outcome_of
from policies.dra.cel.kinds import Unconvertible
from policies.dra.cel.libraries.operators import is_not_strictly_false
from policies.dra.cel.values import Absent, Optional

if TYPE_CHECKING:
    from policies.dra.cel.cost.standard_charges import Outcome
    from policies.dra.cel.interpreter import plan
    from policies.dra.cel.interpreter.machine import Instruction, Label, Machine

__all__ = [
    "branch",
    "call",
    "check_condition",
    "compare",
    "end_fold",
    "halt",
    "jump",
    "load",
    "look_up_member",
    "next_item",
    "or_else",
    "push",
    "settle",
    "start_fold",
    "step_back",
    "stop_at_error",
    "store",
    "take_term",
]

_NO_OVERLOAD = "no such overload"


def push(value: object) -> Instruction:
    """Put a constant on the stack."""
    return lambda machine: machine.stack.append(value)


def halt(machine: Machine) -> None:
    """Where a routine ends, which is never run."""


def jump(label: Label) -> Instruction:
    """Go on elsewhere."""
    return lambda _: label.at


def load(slot: int, initial: Label | None, own: Label) -> Instruction:
    """Put a variable on the stack; an accumulator that has not begun is made by its subroutine first."""

    def run(machine: Machine) -> int | None:
        value = machine.frame[slot]
        if value is UNSET and initial is not None:
            machine.returns.append(own.at)
            return initial.at
        machine.stack.append(value.value if slot == 0 else value)  # type: ignore[attr-defined]  # 0 is the Device
        return None

    return run


def step_back(slot: int) -> Instruction:
    """End the subroutine that makes an accumulator."""

    def run(machine: Machine) -> int:
        value = machine.stack.pop()
        machine.frame[slot] = value if is_failure(value) else begun(value)  # type: ignore[arg-type]  # a value
        return machine.returns.pop()

    return run


def take_term(decider: bool, end: Label) -> Instruction:
    """Look at a term of `&&` or `||`; below it is the first failure so far, or None."""

    def run(machine: Machine) -> int | None:
        stack = machine.stack
        value = stack.pop()
        if value is decider:
            stack[-1] = decider
            return end.at
        if value.__class__ is not bool and stack[-1] is None:
            stack[-1] = value if is_failure(value) else CelRuntimeError(_NO_OVERLOAD)
        return None

    return run


def settle(decider: bool) -> Instruction:
    """After the last term: a failure, or what remains when nothing decided."""

    def run(machine: Machine) -> None:
        if machine.stack[-1] is None:
            machine.stack[-1] = not decider

    return run


def compare(*, is_negated: bool) -> Instruction:
    """`==` or `!=` of the two on top."""
    charge = call_charge("_!=_" if is_negated else "_==_", "not_equals" if is_negated else "equals")

    def run(machine: Machine) -> None:
        stack = machine.stack
        right, left = stack.pop(), stack.pop()
        result: Outcome
        if is_failure(left) or is_failure(right):
            result = left if is_failure(left) else right  # type: ignore[assignment]  # an error
        elif is_negated:
            result = not equal(left, right)  # type: ignore[arg-type]  # values
        else:
            result = outcome_of(lambda: equals(left, right))  # type: ignore[arg-type]  # values
        machine.charge(charge((left, right), result))  # type: ignore[arg-type]  # outcomes
        stack.append(result)

    return run


def look_up_member(members: frozenset[object]) -> Instruction:
    """`x in [constants]`."""

    def run(machine: Machine) -> None:
        if not is_failure(machine.stack[-1]):
            machine.stack[-1] = is_member(machine.stack[-1], members)  # type: ignore[arg-type]  # a value

    return run


def stop_at_error(count: int, end: Label) -> Instruction:
    """If the last of so many arguments is_failure, it is all that remains of them."""

    def run(machine: Machine) -> int | None:
        if not is_failure(machine.stack[-1]):
            return None
        machine.stack[-count:] = [machine.stack[-1]]
        return end.at

    return run


def call(step: plan.Call) -> Instruction:
    """A function on its arguments."""
    count = len(step.arguments)
    charge = call_charge(step.function, step.dispatcher.overload_id)
    function = is_not_strictly_false if step.takes_errors else step.dispatcher.call

    def run(machine: Machine) -> None:
        stack = machine.stack
        arguments = stack[len(stack) - count :]
        del stack[len(stack) - count :]
        failure = None if step.takes_errors else next(filter(is_failure, arguments), None)
        result = outcome_of(lambda: function(*arguments)) if failure is None else failure  # type: ignore[arg-type]
        machine.charge(charge(arguments, result))  # type: ignore[arg-type]  # outcomes
        stack.append(result)

    return run


def branch(otherwise: Label, end: Label) -> Instruction:
    """Choose by the condition on top."""

    def run(machine: Machine) -> int | None:
        value = machine.stack.pop()
        if value is True:
            return None
        if value is False:
            return otherwise.at
        machine.stack.append(value if is_failure(value) else CelRuntimeError(_NO_OVERLOAD))
        return end.at

    return run


def or_else(end: Label, *, unwraps: bool) -> Instruction:
    """`or` and `orValue`: go on to the right side only if the left one has no value."""

    def run(machine: Machine) -> int | None:
        value = machine.stack[-1]
        if not isinstance(value, Optional):
            return end.at
        if isinstance(value.value, Absent):
            machine.stack.pop()
            return None
        if unwraps:
            inner = value.value
            machine.stack[-1] = inner.error if isinstance(inner, Unconvertible) else inner
        return end.at

    return run


def start_fold(step: plan.Fold, end: Label) -> Instruction:
    """Begin to go through what is on top."""

    def run(machine: Machine) -> int | None:
        over = machine.stack.pop()
        if not is_failure(over):
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
        grown = value is machine.frame[slot] and not is_failure(value)
        machine.stack[-1] = finished(value) if grown else value  # type: ignore[arg-type]  # a value

    return run
