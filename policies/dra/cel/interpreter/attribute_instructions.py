"""The instructions of attributes: look-ups one after the other, each with its charge.

While an attribute is evaluated, the stack has what was reached so far, and on top of it whether that is optional.
Source: cel-go interpreter/attributes.go, applyQualifiers; runtimecost.go, Observe.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.dra.cel.cost.runtime_cost import ATTRIBUTE, QUALIFIER
from policies.dra.cel.errors import CelRuntimeError
from policies.dra.cel.interpreter.lookups import checked_key, find, get, unwrapped, wrapped_anew
from policies.dra.cel.values import Absent, Optional

if TYPE_CHECKING:
    from policies.dra.cel.interpreter.machine import Instruction, Label, Machine
    from policies.dra.cel.values import Value

__all__ = ["begin", "close", "conclude", "qualify", "wrap_anew"]


def begin(end: Label) -> Instruction:
    """Look at where the attribute begins: what is inside of an optional there, nothing in an error or nothing."""

    def run(machine: Machine) -> int | None:
        value = machine.stack[-1]
        if value.__class__ is CelRuntimeError:
            return end.at
        if isinstance(value, Optional):
            if isinstance(value.value, Absent):
                return end.at
            machine.stack[-1] = unwrapped(value.value)
        machine.stack.append(isinstance(value, Optional))
        return None

    return run


def wrap_anew(machine: Machine) -> None:
    """What an optional becomes in an attribute without look-ups."""
    value = machine.stack[-1]
    if isinstance(value, Optional):
        machine.stack[-1] = wrapped_anew(value)


def qualify(key: Value | None, end: Label, *, is_computed: bool, is_optional: bool, is_test: bool) -> Instruction:
    """One look-up; a computed key is on top of the stack."""

    def run(machine: Machine) -> int | None:
        stack = machine.stack
        found_key = stack.pop() if is_computed else key
        from_optional, operand = stack.pop(), stack.pop()
        looks = from_optional or is_optional
        try:
            if found_key.__class__ is CelRuntimeError:
                raise found_key.with_traceback(None)
            checked = checked_key(found_key)  # type: ignore[arg-type]  # a value
            value = (find if looks or is_test else get)(operand, checked)  # type: ignore[arg-type]  # a value
        except CelRuntimeError as error:
            machine.charge(0 if looks else QUALIFIER)
            stack.append(error)
            return end.at
        if looks and isinstance(value, Absent):
            stack.append(Optional())
            return end.at
        machine.charge(QUALIFIER)
        stack.append(not isinstance(value, Absent) if is_test and not looks else value)
        stack.append(looks)
        return None

    return run


def close(machine: Machine) -> None:
    """After the last look-up: what was reached, as an optional if any look-up was."""
    if machine.stack.pop():
        machine.stack[-1] = Optional(machine.stack[-1])  # type: ignore[arg-type]  # a value


def conclude(*, is_choice: bool, is_test: bool) -> Instruction:
    """Charge for an attribute that is evaluated for itself, and make a bool of what `has` found."""
    cost = (0 if is_choice else ATTRIBUTE) - (ATTRIBUTE if is_test else 0)

    def run(machine: Machine) -> None:
        machine.charge(cost)
        value = machine.stack[-1]
        if is_test and isinstance(value, Optional):
            machine.stack[-1] = not isinstance(value.value, Absent)

    return run
