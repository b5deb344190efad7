"""Compiles planned steps to one Python function of a frame, with a meter or without."""

from __future__ import annotations

import operator
import threading
from typing import TYPE_CHECKING, NamedTuple

from policies.cel.errors import CelRuntimeError, EvaluationAborted, begin_evaluation
from policies.cel.interpreter import closures, plan
from policies.cel.interpreter.closures import value_or_raise
from policies.cel.interpreter.stack import METER, Compiled, Meter, on_empty_stack
from policies.cel.libraries.operators import equal, equals, is_not_strictly_false
from policies.cel.runtime_cost import ATTRIBUTE, call_charge
from policies.cel.sizes import LIST_COST, MAP_COST, STRUCT_COST

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from policies.cel.interpreter.stack import Code, Frame
    from policies.cel.runtime_cost import Charge, Outcome
    from policies.cel.values import Value

    Compilation = Generator["_Part", Code, Code]


_NATIVE: dict[str, Callable[..., bool]] = {
    "_<_": operator.lt,
    "_<=_": operator.le,
    "_>_": operator.gt,
    "_>=_": operator.ge,
}
"""The comparisons that Python's own operators do right on two ints or two strings."""


def _counted_call(
    charge: Charge,
    function: Callable[..., Value],
    arguments: tuple[Code, ...],
    *,
    takes_errors: bool = False,
    stops_early: bool = False,
) -> Code:
    """A call that is charged whether it fails or not; evaluates all arguments where cel-go does."""

    def run(frame: Frame) -> Value:
        outcomes: list[Outcome] = []
        result: Outcome | None = None
        for argument in arguments:
            try:
                outcomes.append(argument(frame))
            except CelRuntimeError as error:
                if stops_early and len(outcomes) < len(arguments) - 1:
                    raise
                outcomes.append(error)
                if not isinstance(result, CelRuntimeError) and not takes_errors:
                    result = error
        if result is None:
            try:
                result = function(*outcomes)
            except CelRuntimeError as error:
                result = error
        frame[METER].charge(charge(outcomes, result))  # type: ignore[attr-defined]  # the meter
        return value_or_raise(result)

    return run


def _charged_code(code: Code, cost: int) -> Code:
    """Code that costs something, whether it fails or not."""

    def run(frame: Frame) -> Value:
        try:
            value = code(frame)
        except CelRuntimeError:
            frame[METER].charge(cost)  # type: ignore[attr-defined]  # the meter
            raise
        frame[METER].charge(cost)  # type: ignore[attr-defined]  # the meter
        return value

    return run


def _uncounted_call(step: plan.Call, arguments: tuple[Code, ...], last: Outcome) -> Code:
    """A call that is not counted; `last` is the value of the last argument if constant, else None."""
    if step.takes_errors:
        return _not_strictly_false(arguments[0])
    if not step.dispatcher.looks_inside:
        if len(arguments) == 1:
            return _unary(step, arguments[0])
        if len(arguments) == 2 and last is not None and not isinstance(last, CelRuntimeError):
            return _with_constant(step, arguments[0], last)
    run = step.dispatcher.call
    return lambda frame: run(*[argument(frame) for argument in arguments])


def _not_strictly_false(value: Code) -> Code:
    def run(frame: Frame) -> Value:
        try:
            found = value(frame)
        except CelRuntimeError:
            return True
        return found if found.__class__ is bool else True

    return run


def _unary(step: plan.Call, argument: Code) -> Code:
    implementations: dict[type, Callable[[Value], Value]] = {}
    find = step.dispatcher.find

    def run(frame: Frame) -> Value:
        value = argument(frame)
        implementation = implementations.get(value.__class__)
        if implementation is None:
            implementation = implementations[value.__class__] = find((value,))
        return implementation(value)

    return run


def _with_constant(step: plan.Call, argument: Code, known: Value) -> Code:
    """A binary function whose second argument is known; the commonest comparisons are Python's own."""
    implementations: dict[type, Callable[[Value, Value], Value]] = {}
    find = step.dispatcher.find
    native = _NATIVE.get(step.function)
    if native is not None and known.__class__ in (int, str):
        implementations[known.__class__] = native

    def run(frame: Frame) -> Value:
        value = argument(frame)
        implementation = implementations.get(value.__class__)
        if implementation is None:
            implementation = implementations[value.__class__] = find((value, known))
        return implementation(value, known)

    return run


_DEEP = threading.Lock()
"""Held while an evaluation needs more than one thread, so that there are few threads."""
_FRAMES_OF_STEP = 4
"""The most of Python's frames that the code of one step takes: a charge, look-ups, an optional, a choice."""


class CountedProgram:
    """A program with a meter: evaluates any expression and counts the cost exactly."""

    def __init__(self, program: plan.Program) -> None:
        self._compiled = compile_plan(program, counts=True)
        self._variables = [None] * program.variables

    def evaluate(self, variable: object) -> tuple[Outcome, int]:
        """The value or error of the expression, and the cost; `variable.value` is its one variable."""
        try:
            return self._evaluate(variable, lambda frame, _: self._compiled.code(frame))
        except RecursionError:
            with _DEEP:
                return self._evaluate(variable, lambda frame, meter: on_empty_stack(self._compiled, frame, meter))

    def _evaluate(self, variable: object, run: Callable[[Frame, Meter], Value]) -> tuple[Outcome, int]:
        begin_evaluation()
        meter = Meter()
        outcome: Outcome
        try:
            outcome = run([variable, meter, *self._variables], meter)
        except CelRuntimeError as error:
            outcome = error.with_traceback(None)
        except EvaluationAborted as aborted:
            outcome = CelRuntimeError(aborted.message)
        return outcome, meter.cost


def compile_plan(program: plan.Program, *, counts: bool) -> Compiled:
    """A function of a frame that evaluates the program; it raises CelRuntimeError and EvaluationAborted."""
    compiler = _Compiler(counts=counts)
    root = _Part(program.root)
    pending = [(root, compiler.compilation(root))]
    frames = [0]
    """For each that is pending, the frames of its deepest part."""
    code: Code | None = None
    while True:
        part, compilation = pending[-1]
        try:
            needed = next(compilation) if code is None else compilation.send(code)
        except StopIteration as finished:
            pending.pop()
            code = finished.value
            compiler.frames = _FRAMES_OF_STEP + frames.pop()
            if not pending:
                return Compiled(finished.value, compiler.frames)
            if not part.is_initial:
                frames[-1] = max(frames[-1], compiler.frames)
        else:
            pending.append((needed, compiler.compilation(needed)))
            frames.append(0)
            code = None


class _Part(NamedTuple):
    """A step to be compiled, and where it stands."""

    step: plan.Step
    is_inner: bool = False
    """True if it is a ternary's branch or an index: an attribute there is not charged, and its `has` finds a value."""
    is_branch: bool = False
    """True if it is a ternary's branch after which there are no look-ups."""
    goes_on: bool = False
    """True if it is a ternary's branch and look-ups follow."""
    is_initial: bool = False
    """True if it is what an accumulator begins as."""


class _Compiler:
    """Compiles the steps of one program: each is a generator that yields the parts whose code it needs.

    Expressions can be nested deeper than Python's stack.
    """

    def __init__(self, *, counts: bool) -> None:
        self._counts = counts
        self.frames = 0
        """The frames that the code takes which was compiled last."""
        self._initials: dict[plan.Fold, Compiled] = {}
        self._known: dict[Code, Outcome] = {}
        """The outcome of constant code."""

    def compilation(self, part: _Part) -> Compilation:
        step = part.step
        if isinstance(step, plan.Attribute):
            return (yield from self._attribute(step, part))
        if part.is_branch:
            return closures.rewrap_code((yield _Part(step)))
        if isinstance(step, plan.Constant):
            return self._constant(step.value)
        if isinstance(step, plan.Logic):
            return closures.and_or((yield from _codes(step.terms)), step.decider)
        if isinstance(step, plan.Equality):
            return (yield from self._equality(step))
        if isinstance(step, plan.Membership):
            return closures.membership((yield _Part(step.value)), step.members)
        if isinstance(step, plan.Call):
            return (yield from self._call(step))
        if isinstance(step, plan.OptionalOr):
            left, right = (yield _Part(step.left)), (yield _Part(step.right))
            return closures.optional_or(left, right, unwraps=step.unwraps, is_strict=step.is_strict)
        if isinstance(step, plan.Fold):
            return closures.fold(step, *(yield from _codes((step.range, step.condition, step.step, step.result))))
        return (yield from self._construction(step))

    def _constant(self, value: Outcome) -> Code:
        code = closures.constant(value)
        self._known[code] = value
        return code

    def _call(self, step: plan.Call) -> Compilation:
        arguments = yield from _codes(step.arguments)
        if self._counts:
            charge = call_charge(step.function, step.dispatcher.overload_id)
            function = is_not_strictly_false if step.takes_errors else step.dispatcher.call
            return _counted_call(
                charge, function, arguments, takes_errors=step.takes_errors, stops_early=step.stops_early
            )
        if not step.takes_errors and all(argument in self._known for argument in arguments):
            try:
                return self._constant(step.dispatcher.call(*[argument([]) for argument in arguments]))
            except CelRuntimeError as error:
                return self._constant(error)
        return _uncounted_call(step, arguments, self._known.get(arguments[-1]))

    def _equality(self, step: plan.Equality) -> Compilation:
        left, right = yield from _codes((step.left, step.right))
        if self._counts:
            name = ("_!=_", "not_equals") if step.is_negated else ("_==_", "equals")
            function = (lambda one, other: not equal(one, other)) if step.is_negated else equals
            return _counted_call(call_charge(*name), function, (left, right))
        return closures.equality(left, right, self._known.get(right), is_negated=step.is_negated)

    def _construction(self, step: plan.ListOf | plan.MapOf | plan.Message) -> Compilation:
        if isinstance(step, plan.ListOf):
            code, cost = closures.list_code((yield from _codes(step.elements)), step.optional), LIST_COST
        elif isinstance(step, plan.MapOf):
            keys_and_values = yield from _codes(tuple(part for entry in step.entries for part in entry))
            entries = tuple(zip(keys_and_values[::2], keys_and_values[1::2], strict=True))
            code, cost = closures.map_code(entries, step.optional), MAP_COST
        else:
            code, cost = closures.message_code(step, (yield from _codes(step.values))), STRUCT_COST
        return _charged_code(code, cost) if self._counts else code

    def _attribute(self, step: plan.Attribute, part: _Part) -> Compilation:
        goes_on = part.goes_on or bool(step.qualifiers)
        root = yield from self._root(step.root, goes_on=goes_on)
        if isinstance(step.root, plan.Variable) and step.root.slot and not goes_on:
            root = closures.rewrap_code(root)
        keys = yield from _codes(tuple(qualifier.key for qualifier in step.qualifiers), is_inner=True)
        code = closures.attribute(step, root, keys, is_inner=part.is_inner, counts=self._counts)
        cost = (0 if isinstance(step.root, plan.Choice) else ATTRIBUTE) - (ATTRIBUTE if step.is_test else 0)
        return _charged_code(code, cost) if self._counts and cost and not part.is_inner else code

    def _root(self, root: plan.Variable | plan.Choice | plan.Step, *, goes_on: bool) -> Compilation:
        if isinstance(root, plan.Variable):
            if root.fold is not None and root.fold not in self._initials:
                code = yield _Part(root.fold.initial, is_initial=True)
                self._initials[root.fold] = Compiled(code, self.frames)
            return closures.variable(root, None if root.fold is None else self._initials[root.fold])
        if isinstance(root, plan.Choice):
            condition = yield _Part(root.condition)
            yes = yield _Part(root.yes, is_inner=True, is_branch=not goes_on, goes_on=goes_on)
            no = yield _Part(root.no, is_inner=True, is_branch=not goes_on, goes_on=goes_on)
            return closures.choice(condition, yes, no)
        return (yield _Part(root))


def _codes(steps: tuple[plan.Step, ...], *, is_inner: bool = False) -> Generator[_Part, Code, tuple[Code, ...]]:
    codes = []
    for step in steps:
        codes.append((yield _Part(step, is_inner)))  # noqa: PERF401 - a comprehension cannot yield
    return tuple(codes)
