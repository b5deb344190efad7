"""The instructions of the exact evaluator; each function makes one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.dra.cel.cost.runtime_cost import LIST_COST, MAP_COST, STRUCT_COST, call_charge
from policies.dra.cel.equality import equal, equals
from policies.dra.cel.errors import CelRuntimeError
from policies.dra.cel.interpreter import plan
from policies.dra.cel.interpreter.access import UNSET, begun
from policies.dra.cel.interpreter.construction import build_list, build_map, build_message
from policies.dra.cel.interpreter.membership import is_member
from policies.dra.cel.kinds import shown
from policies.dra.cel.libraries.operators import is_not_strictly_false
from policies.dra.cel.unconvertible import Unconvertible
from policies.dra.cel.values import Absent, Map, Optional

if TYPE_CHECKING:
    from collections.abc import Callable

    from policies.dra.cel.cost.outcome_sizes import Outcome
    from policies.dra.cel.interpreter.machine import Instruction, Label, Machine
    from policies.dra.cel.values import Value

__all__ = [
    "branch",
    "build",
    "call",
    "charge_construction",
    "check_key",
    "check_optional",
    "compare",
    "halt",
    "jump",
    "load",
    "look_up_member",
    "or_else",
    "push",
    "settle",
    "step_back",
    "stop_at_error",
    "take_term",
]

_NO_OVERLOAD = "no such overload"


def _failed(value: object) -> bool:
    return value.__class__ is CelRuntimeError


def _outcome(compute: Callable[[], Outcome]) -> Outcome:
    try:
        return compute()
    except CelRuntimeError as error:
        return error.with_traceback(None)


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
        machine.frame[slot] = value if _failed(value) else begun(value)  # type: ignore[arg-type]  # a value
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
            stack[-1] = value if _failed(value) else CelRuntimeError(_NO_OVERLOAD)
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
        if _failed(left) or _failed(right):
            result = left if _failed(left) else right  # type: ignore[assignment]  # an error
        elif is_negated:
            result = not equal(left, right)  # type: ignore[arg-type]  # values
        else:
            result = _outcome(lambda: equals(left, right))  # type: ignore[arg-type]  # values
        machine.charge(charge((left, right), result))  # type: ignore[arg-type]  # outcomes
        stack.append(result)

    return run


def look_up_member(members: frozenset[object]) -> Instruction:
    """`x in [constants]`."""

    def run(machine: Machine) -> None:
        if not _failed(machine.stack[-1]):
            machine.stack[-1] = is_member(machine.stack[-1], members)  # type: ignore[arg-type]  # a value

    return run


def stop_at_error(count: int, end: Label) -> Instruction:
    """If the last of so many arguments failed, it is all that remains of them."""

    def run(machine: Machine) -> int | None:
        if not _failed(machine.stack[-1]):
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
        failure = None if step.takes_errors else next(filter(_failed, arguments), None)
        result = _outcome(lambda: function(*arguments)) if failure is None else failure  # type: ignore[arg-type]
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
        machine.stack.append(value if _failed(value) else CelRuntimeError(_NO_OVERLOAD))
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


def check_optional(what: str) -> Instruction:
    """Refuse the last element or value if it was written with `?` and is no optional; below a value is its key."""

    def run(machine: Machine) -> None:
        value = machine.stack[-1]
        if _failed(value) or isinstance(value, Optional):
            return
        subject = what.format(shown(machine.stack[-2])) if "{}" in what else what  # type: ignore[arg-type]  # a value
        text = shown(value)  # type: ignore[arg-type]  # a value
        machine.stack[-1] = CelRuntimeError(f"cannot initialize optional {subject} from non-optional value {text}")

    return run


def check_key() -> Instruction:
    """Refuse the key of the entry on top if cel-go would panic on it."""

    def run(machine: Machine) -> None:
        Map.key(machine.stack[-2])  # type: ignore[arg-type]  # a value

    return run


def build(step: plan.ListOf | plan.MapOf | plan.Message, count: int) -> Instruction:
    """Make a list, map or message of the parts on top."""

    def run(machine: Machine) -> None:
        stack = machine.stack
        parts = stack[len(stack) - count :]
        del stack[len(stack) - count :]
        stack.append(_outcome(lambda: _built(step, parts)))  # type: ignore[arg-type]  # values

    return run


def _built(step: plan.ListOf | plan.MapOf | plan.Message, parts: list[Value]) -> Value:
    if isinstance(step, plan.ListOf):
        return build_list(parts, step.optional)
    if isinstance(step, plan.MapOf):
        return build_map(zip(parts[::2], parts[1::2], strict=True), step.optional)
    return build_message(step.type_name, zip(step.fields, parts, strict=True))


def charge_construction(step: plan.ListOf | plan.MapOf | plan.Message) -> Instruction:
    """Charge for a list, map or message, whether it came about or not."""
    costs = {plan.ListOf: LIST_COST, plan.MapOf: MAP_COST, plan.Message: STRUCT_COST}
    cost = costs[type(step)]
    return lambda machine: machine.charge(cost)
