"""From planned steps to one Python function."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from policies.dra.cel.errors import CelRuntimeError
from policies.dra.cel.interpreter import access, closures, plan
from policies.dra.cel.interpreter.closures import LoopParts, fold
from policies.dra.cel.interpreter.construction import raised

if TYPE_CHECKING:
    from collections.abc import Callable

    from policies.dra.cel.values import Value

    Frame = list[object]
    Code = Callable[[Frame], Value]

__all__ = ["DEEPEST", "compile_plan"]

DEEPEST = 60
"""Plans that are nested deeper would need more of Python's stack than a caller may have left."""


def compile_plan(program: plan.Program) -> Code:
    """A function of a frame that evaluates the program; it raises CelRuntimeError and EvaluationAborted."""
    return _Compiler().code(program.root)


class _Compiler:
    """Compiles the steps of one program; calls whose arguments are all known are made now."""

    def __init__(self) -> None:
        self._initials: dict[plan.Fold, Code] = {}

    def code(self, step: plan.Step, *, is_branch: bool = False, goes_on: bool = False) -> Code:
        """Args: the step, whether it is a branch of a ternary, and whether look-ups in what it comes to follow."""
        step = self._simplified(step)
        if is_branch and not goes_on and not isinstance(step, plan.Attribute):
            return access.wrapping_anew(self.code(step))
        if isinstance(step, plan.Constant):
            return closures.constant(step.value)
        if isinstance(step, plan.Attribute):
            return self._attribute(step, is_branch=is_branch, goes_on=goes_on)
        if isinstance(step, plan.Logic):
            return closures.and_or(self._codes(step.terms), step.decider)
        if isinstance(step, plan.Equality):
            return self._equality(step)
        if isinstance(step, plan.Membership):
            return closures.membership(self.code(step.value), step.members)
        if isinstance(step, plan.Call):
            return closures.call(step, self._codes(step.arguments))
        if isinstance(step, plan.OptionalOr):
            return closures.optional_or(self.code(step.left), self.code(step.right), unwraps=step.unwraps)
        if isinstance(step, plan.Fold):
            return self._fold(step)
        return self._construction(step)

    def _codes(self, steps: tuple[plan.Step, ...]) -> tuple[Code, ...]:
        return tuple(self.code(step) for step in steps)

    def _construction(self, step: plan.ListOf | plan.MapOf | plan.Message) -> Code:
        if isinstance(step, plan.ListOf):
            return closures.list_of(self._codes(step.elements), step.optional)
        if isinstance(step, plan.MapOf):
            return closures.map_of(
                tuple((self.code(key), self.code(value)) for key, value in step.entries), step.optional
            )
        return closures.message(step, self._codes(step.values))

    def _simplified(self, step: plan.Step) -> plan.Step:
        """A call of constants is a constant, here where nobody counts its cost."""
        if not isinstance(step, plan.Call) or step.takes_errors:
            return step
        step = replace(step, arguments=tuple(self._simplified(argument) for argument in step.arguments))
        values = [argument.value for argument in step.arguments if isinstance(argument, plan.Constant)]
        if len(values) < len(step.arguments):
            return step
        try:
            return plan.Constant(step.dispatcher.call(*map(raised, values)))
        except CelRuntimeError as error:
            return plan.Constant(error)

    def _equality(self, step: plan.Equality) -> Code:
        right = self._simplified(step.right)
        known = right if isinstance(right, plan.Constant) else None
        return closures.equality(self.code(step.left), self.code(right), known, is_negated=step.is_negated)

    def _attribute(self, step: plan.Attribute, *, is_branch: bool, goes_on: bool) -> Code:
        keys = tuple(self.code(qualifier.key) for qualifier in step.qualifiers)
        goes_on = goes_on or bool(keys)
        root = self._root(step.root, goes_on=goes_on)
        if isinstance(step.root, plan.Variable) and step.root.slot and not goes_on:
            return access.wrapping_anew(root)
        return access.attribute(step, root, keys, is_branch=is_branch)

    def _root(self, root: plan.Variable | plan.Choice | plan.Step, *, goes_on: bool) -> Code:
        if isinstance(root, plan.Variable):
            return access.variable(root, None if root.fold is None else self._initial(root.fold))
        if isinstance(root, plan.Choice):
            yes, no = (self.code(branch, is_branch=True, goes_on=goes_on) for branch in (root.yes, root.no))
            return access.choice(self.code(root.condition), yes, no)
        return self.code(root)

    def _initial(self, step: plan.Fold) -> Code:
        code = self._initials.get(step)
        if code is None:
            code = self._initials[step] = self.code(step.initial)
        return code

    def _fold(self, step: plan.Fold) -> Code:
        over, condition = self.code(step.range), self.code(step.condition)
        return fold(step, LoopParts(over, condition, self.code(step.step), self.code(step.result)))
