"""The fast way to evaluate: each step becomes a Python function of the frame, with constants folded in.

It does not count costs, so it is only for expressions whose static cost shows that no device can reach the limit.
A frame is a list: the device first, then the variables of comprehensions.
Source of comprehensions: cel-go interpreter/interpretable.go, evalFold and folder.
"""

from __future__ import annotations

import operator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from policies.dra.cel.equality import equal, equals
from policies.dra.cel.errors import CelRuntimeError
from policies.dra.cel.interpreter import plan
from policies.dra.cel.interpreter.access import UNSET
from policies.dra.cel.interpreter.construction import build_list, build_map, build_message, raised
from policies.dra.cel.interpreter.lookups import is_member
from policies.dra.cel.kinds import go_type, usable
from policies.dra.cel.values import Absent, Accumulation, Concatenation, Growing, Map, Optional

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from policies.dra.cel.values import Value

    Frame = list[object]
    Code = Callable[[Frame], Value]
    from collections.abc import Callable

__all__ = [
    "LoopParts",
    "and_or",
    "call",
    "constant",
    "entries",
    "equality",
    "finished",
    "fold",
    "list_of",
    "map_of",
    "membership",
    "message",
    "optional_or",
]


@dataclass(frozen=True, slots=True)
class LoopParts:
    """The parts of a comprehension, ready to run."""

    range: Code
    condition: Code
    step: Code
    result: Code


def entries(over: Value, *, are_pairs: bool) -> Iterator[tuple[Value, Value]]:
    """What a loop's variables become: elements or keys; with two variables indices or keys, and what is there.

    Raises:
        CelRuntimeError: the value is neither list nor map.
    """
    if isinstance(over, Map):
        return iter(over.items()) if are_pairs else ((key, None) for key in over)
    if isinstance(over, tuple | Concatenation):
        return iter(enumerate(over)) if are_pairs else ((element, None) for element in over)
    if are_pairs:
        raise CelRuntimeError(f"unsupported comprehension range type: {go_type(over)}")
    raise CelRuntimeError(f"got '{go_type(over)}', expected iterable type")


def finished(value: Value) -> Value:
    """What grew while it was folded, as it is now."""
    if isinstance(value, Accumulation):
        return tuple(value)
    if isinstance(value, Growing):
        return Map(dict(zip(map(Map.key, value), (found for _, found in value.items()), strict=True)))
    return value


def fold(step: plan.Fold, parts: LoopParts) -> Code:
    """A comprehension."""
    accumulator, first, second = step.accumulator, step.variable, step.second
    are_pairs = second >= 0
    over, condition, advance, result = parts.range, parts.condition, parts.step, parts.result

    def run(frame: Frame) -> Value:
        items = entries(over(frame), are_pairs=are_pairs)
        frame[accumulator] = UNSET
        for frame[first], value in items:
            if are_pairs:
                frame[second] = value
            if not _goes_on(condition, frame):
                break
            try:
                frame[accumulator] = advance(frame)
            except CelRuntimeError as error:
                frame[accumulator] = error
        return finished(result(frame))

    return run


def _goes_on(condition: Code, frame: Frame) -> bool:
    """Whether the loop is not told to stop; errors do not stop it."""
    try:
        return condition(frame) is not False
    except CelRuntimeError:
        return True


_NO_OVERLOAD = "no such overload"
_NATIVE: dict[str, Callable[..., bool]] = {
    "_<_": operator.lt,
    "_<=_": operator.le,
    "_>_": operator.gt,
    "_>=_": operator.ge,
}
"""What Python's own operators do right on two ints or two strings."""


def constant(value: Value | CelRuntimeError) -> Code:
    """A value, or the raising of an error."""
    if isinstance(value, CelRuntimeError):
        return lambda _: raised(value)
    return lambda _: value


def and_or(terms: tuple[Code, ...], decider: bool) -> Code:
    """`&&` or `||`: the first deciding term ends it; else the first that failed fails it."""

    def run(frame: Frame) -> Value:
        failure = None
        for term in terms:
            try:
                value = term(frame)
            except CelRuntimeError as error:
                failure = failure or error
                continue
            if value is decider:
                return decider
            if value.__class__ is not bool:
                failure = failure or CelRuntimeError(_NO_OVERLOAD)
        if failure is not None:
            raise failure
        return not decider

    return run


def equality(left: Code, right: Code, known: plan.Constant | None, *, is_negated: bool) -> Code:
    """`==` or `!=`; `known` is the right side if it is a constant."""
    if is_negated:
        return lambda frame: not equal(left(frame), right(frame))
    if known is None or not isinstance(known.value, str | bool):
        return lambda frame: equals(left(frame), right(frame))
    expected = known.value
    kind = expected.__class__

    def run(frame: Frame) -> Value:
        value = left(frame)
        return value == expected if value.__class__ is kind else equals(value, expected)

    return run


def membership(value: Code, members: frozenset[object]) -> Code:
    """`x in [constants]`."""
    return lambda frame: is_member(value(frame), members)


def call(step: plan.Call, arguments: tuple[Code, ...]) -> Code:
    """A function on its arguments."""
    if step.takes_errors:
        return _not_strictly_false(arguments[0])
    if step.dispatcher.looks_inside:
        return _called_each_time(step, arguments)
    if len(arguments) == 1:
        return _unary(step, arguments[0])
    last = step.arguments[-1]
    if len(arguments) == _PAIR and isinstance(last, plan.Constant) and not isinstance(last.value, CelRuntimeError):
        return _with_constant(step, arguments[0], last.value)
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


def optional_or(left: Code, right: Code, *, unwraps: bool) -> Code:
    """`or` and `orValue`; a left side that is no optional at all is the result."""

    def run(frame: Frame) -> Value:
        value = left(frame)
        if not isinstance(value, Optional):
            return value
        if isinstance(value.value, Absent):
            return right(frame)
        return usable(value.value) if unwraps else value

    return run


def list_of(elements: tuple[Code, ...], optional: frozenset[int]) -> Code:
    """A list literal."""
    if not optional:
        return lambda frame: tuple([element(frame) for element in elements])
    return lambda frame: build_list([element(frame) for element in elements], optional)


def map_of(entries: tuple[tuple[Code, Code], ...], optional: frozenset[int]) -> Code:
    """A map literal."""
    return lambda frame: build_map(((key(frame), value(frame)) for key, value in entries), optional)


def message(step: plan.Message, values: tuple[Code, ...]) -> Code:
    """A duration or timestamp from its fields."""
    return lambda frame: build_message(
        step.type_name, [(name, value(frame)) for name, value in zip(step.fields, values, strict=True)]
    )
