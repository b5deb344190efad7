"""Code that calls functions, and that charges for what it evaluates."""

from __future__ import annotations

import operator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from policies.dra.cel.errors import CelRuntimeError
from policies.dra.cel.interpreter.closures import value_or_raise
from policies.dra.cel.interpreter.meter import METER

if TYPE_CHECKING:
    from collections.abc import Callable

    from policies.dra.cel.cost.standard_charges import Charge, Outcome
    from policies.dra.cel.interpreter import plan
    from policies.dra.cel.interpreter.stack import Code, Frame
    from policies.dra.cel.values import Value

__all__ = ["CountedCall", "call", "charged_code", "counted_call"]

_NATIVE: dict[str, Callable[..., bool]] = {
    "_<_": operator.lt,
    "_<=_": operator.le,
    "_>_": operator.gt,
    "_>=_": operator.ge,
}
"""What Python's own operators do right on two ints or two strings."""


@dataclass(frozen=True, slots=True)
class CountedCall:
    """How a call is evaluated and charged."""

    charge: Charge
    function: Callable[..., Value]
    takes_errors: bool = False
    stops_early: bool = False
    """True if arguments after one that fails are not evaluated, and the call is then not charged."""


def counted_call(call: CountedCall, arguments: tuple[Code, ...]) -> Code:
    """A call that is charged whether it fails or not; evaluates all arguments where cel-go does."""
    charge, function, takes_errors, stops_early = call.charge, call.function, call.takes_errors, call.stops_early

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


def charged_code(code: Code, cost: int) -> Code:
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


def call(step: plan.Call, arguments: tuple[Code, ...], last: Outcome) -> Code:
    """A call that is not counted; `last` is the value of the last argument if constant, else None."""
    if step.takes_errors:
        return _not_strictly_false(arguments[0])
    if step.dispatcher.looks_inside:
        return _called_each_time(step, arguments)
    if len(arguments) == 1:
        return _unary(step, arguments[0])
    if len(arguments) == _PAIR and last is not None and not isinstance(last, CelRuntimeError):
        return _with_constant(step, arguments[0], last)
    return _called_each_time(step, arguments)


_PAIR = 2


def _called_each_time(step: plan.Call, arguments: tuple[Code, ...]) -> Code:
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
