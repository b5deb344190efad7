"""From planned steps to a routine of the exact evaluator, without recursion."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from policies.dra.cel.errors import CelRuntimeError, EvaluationAborted
from policies.dra.cel.interpreter import attribute_instructions as attributes
from policies.dra.cel.interpreter import construction, plan
from policies.dra.cel.interpreter import instructions as do
from policies.dra.cel.interpreter.machine import Label, Machine, Routine
from policies.dra.cel.steps import begin_evaluation

if TYPE_CHECKING:
    from policies.dra.cel.cost.standard_charges import Outcome
    from policies.dra.cel.interpreter.machine import Instruction

    _Task: TypeAlias = "_Evaluate | Label | Instruction"

__all__ = ["CountedProgram"]


@dataclass(frozen=True, slots=True)
class _Evaluate:
    """A part that is still to be assembled."""

    step: plan.Step
    is_inner: bool = False
    """Whether an attribute is a ternary's branch or an index, which are not charged as attributes."""
    is_branch: bool = False
    """Whether it is a ternary's branch after which there are no look-ups."""
    goes_on: bool = False
    """Whether it is a ternary's branch and look-ups follow."""


class CountedProgram:
    """A program for the stack machine: evaluates any expression and counts the cost exactly."""

    def __init__(self, program: plan.Program) -> None:
        self._routine = _assemble(program)
        self._slots = program.slots

    def evaluate(self, variable: object) -> tuple[Outcome, int]:
        """The value of the expression, or the error it fails with, and the cost; `variable.value` is its one variable."""
        begin_evaluation()
        machine = Machine([variable, *[None] * (self._slots - 1)])
        try:
            outcome = machine.run(self._routine)
        except EvaluationAborted as aborted:
            outcome = CelRuntimeError(aborted.message)
        return outcome, machine.cost


def _assemble(program: plan.Program) -> Routine:
    """The routine that evaluates a program."""
    assembler = _Assembler()
    end = Label()
    assembler.run(_Evaluate(program.root), end, do.halt)
    assembler.assemble_subroutines()
    return Routine(assembler.instructions, end.at)


class _Assembler:
    """Collects instructions; what a step consists of is put on a pile, first part on top."""

    def __init__(self) -> None:
        self.instructions: list[Instruction] = []
        self._beginnings: dict[plan.Fold, Label] = {}
        self._waiting: list[plan.Fold] = []

    def run(self, *tasks: _Task) -> None:
        pile: list[_Task] = list(reversed(tasks))
        while pile:
            task = pile.pop()
            if isinstance(task, Label):
                task.at = len(self.instructions)
            elif isinstance(task, _Evaluate):
                pile += reversed(self._parts(task))
            else:
                self.instructions.append(task)

    def assemble_subroutines(self) -> None:
        """Behind the routine come those that make accumulators, each once however often its name is read."""
        while self._waiting:
            fold = self._waiting.pop()
            self.run(self._beginnings[fold], _Evaluate(fold.initial), do.step_back(fold.accumulator))

    def _parts(self, task: _Evaluate) -> list[_Task]:
        step = task.step
        if task.is_branch and not isinstance(step, plan.Attribute):
            return [_Evaluate(step), attributes.wrap_anew]
        if isinstance(step, plan.Constant):
            return [do.push(step.value)]
        if isinstance(step, plan.Attribute):
            return self._attribute(step, is_inner=task.is_inner, goes_on=task.goes_on)
        if isinstance(step, plan.Logic):
            return _logic(step)
        if isinstance(step, plan.Equality):
            return [_Evaluate(step.left), _Evaluate(step.right), do.compare(is_negated=step.is_negated)]
        if isinstance(step, plan.Membership):
            return [_Evaluate(step.value), do.look_up_member(step.members)]
        if isinstance(step, plan.Call):
            return _call(step)
        if isinstance(step, plan.OptionalOr):
            end = Label()
            return [_Evaluate(step.left), do.or_else(end, unwraps=step.unwraps), _Evaluate(step.right), end]
        if isinstance(step, plan.Fold):
            return _fold(step)
        return _construction(step)

    def _attribute(self, step: plan.Attribute, *, is_inner: bool, goes_on: bool) -> list[_Task]:
        end = Label()
        goes_on = goes_on or bool(step.qualifiers)
        tasks = self._root(step.root, goes_on=goes_on)
        if isinstance(step.root, plan.Variable) and not goes_on:
            tasks.append(attributes.wrap_anew)
        if step.qualifiers:
            tasks.append(attributes.begin(end))
            for index, qualifier in enumerate(step.qualifiers):
                is_test = step.is_test and index == len(step.qualifiers) - 1
                tasks += _qualifier(qualifier, end, is_test=is_test)
            tasks += (attributes.close, end)
        if not is_inner:
            tasks.append(attributes.conclude(is_choice=isinstance(step.root, plan.Choice), is_test=step.is_test))
        return tasks

    def _root(self, root: plan.Variable | plan.Choice | plan.Step, *, goes_on: bool) -> list[_Task]:
        if isinstance(root, plan.Choice):
            otherwise, end = Label(), Label()
            yes, no = (
                _Evaluate(branch, is_inner=True, is_branch=not goes_on, goes_on=goes_on)
                for branch in (root.yes, root.no)
            )
            return [
                *(_Evaluate(root.condition), do.branch(otherwise, end)),
                *(yes, do.jump(end)),
                *(otherwise, no, end),
            ]
        if isinstance(root, plan.Variable):
            own = Label()
            return [own, do.load(root.slot, self._beginning(root.fold), own)]
        return [_Evaluate(root)]

    def _beginning(self, fold: plan.Fold | None) -> Label | None:
        if fold is None:
            return None
        if fold not in self._beginnings:
            self._beginnings[fold] = Label()
            self._waiting.append(fold)
        return self._beginnings[fold]


def _qualifier(qualifier: plan.Qualifier, end: Label, *, is_test: bool) -> list[_Task]:
    key, is_optional = qualifier.key, qualifier.is_optional
    if isinstance(key, plan.Constant):
        value = key.value
        return [attributes.qualify(value, end, is_computed=False, is_optional=is_optional, is_test=is_test)]  # type: ignore[arg-type]  # planned keys are no errors
    look_up = attributes.qualify(None, end, is_computed=True, is_optional=is_optional, is_test=is_test)
    return [_Evaluate(key, is_inner=True), look_up]


def _logic(step: plan.Logic) -> list[_Task]:
    end = Label()
    tasks: list[_Task] = [do.push(None)]
    for term in step.terms:
        tasks += (_Evaluate(term), do.take_term(step.decider, end))
    return [*tasks, do.settle(step.decider), end]


def _call(step: plan.Call) -> list[_Task]:
    end = Label()
    tasks: list[_Task] = []
    for position, argument in enumerate(step.arguments, start=1):
        tasks.append(_Evaluate(argument))
        if step.stops_early and position < len(step.arguments):
            tasks.append(do.stop_at_error(position, end))
    return [*tasks, do.call(step), end]


def _fold(step: plan.Fold) -> list[_Task]:
    loop, result, end = Label(), Label(), Label()
    return [
        *(_Evaluate(step.range), do.start_fold(step, end)),
        *(loop, do.next_item(step, result)),
        *(_Evaluate(step.condition), do.check_condition(result)),
        *(_Evaluate(step.step), do.store(step.accumulator, loop)),
        *(result, _Evaluate(step.result), do.end_fold(step.accumulator)),
        end,
    ]


def _construction(step: plan.ListOf | plan.MapOf | plan.Message) -> list[_Task]:
    end = Label()
    tasks: list[_Task] = []
    if isinstance(step, plan.MapOf):
        for index, (key, value) in enumerate(step.entries):
            tasks += (_Evaluate(key), do.stop_at_error(2 * index + 1, end), _Evaluate(value))
            if index in step.optional:
                tasks.append(construction.check_optional("entry '{}'"))
            tasks += (do.stop_at_error(2 * index + 2, end), construction.check_key())
        count = 2 * len(step.entries)
    else:
        values = step.elements if isinstance(step, plan.ListOf) else step.values
        for index, value in enumerate(values):
            tasks.append(_Evaluate(value))
            if isinstance(step, plan.ListOf) and index in step.optional:
                tasks.append(construction.check_optional("list element"))
            tasks.append(do.stop_at_error(index + 1, end))
        count = len(values)
    return [*tasks, construction.build(step, count), end, construction.charge_construction(step)]
