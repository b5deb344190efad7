"""Code for operators, loops, lists, maps and messages, with a meter in the frame or without."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from policies.cel.equality import equal, equals
from policies.cel.errors import NO_OVERLOAD, CelRuntimeError
from policies.cel.interpreter.access import UNSET
from policies.cel.interpreter.lookups import is_member
from policies.cel.interpreter.stack import METER
from policies.cel.kinds import display_text, go_type, usable
from policies.cel.libraries.times import Duration, Timestamp
from policies.cel.values import Absent, Accumulation, Concatenation, Growing, Map, Optional

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.cel.cost.runtime_cost import Outcome
    from policies.cel.interpreter import plan
    from policies.cel.interpreter.stack import Code, Frame, Meter
    from policies.cel.values import Value

__all__ = [
    "LoopParts",
    "and_or",
    "constant",
    "equality",
    "fold",
    "is_unequal",
    "list_code",
    "map_code",
    "membership",
    "message_code",
    "optional_or",
    "value_or_raise",
]


_NANOSECONDS_PER_SECOND = 10**9


def list_code(elements: tuple[Code, ...], optional: frozenset[int]) -> Code:
    """Code for a list; of the elements at optional indices, those that have a value."""

    def run(frame: Frame) -> Value:
        values = []
        for index, element in enumerate(elements):
            value = element(frame)
            if index in optional and not isinstance(value, Optional):
                raise _no_optional("list element", value)
            values.append(value)
        return _present_elements(values, optional) if optional else tuple(values)

    return run


def _present_elements(values: list[Value], optional: frozenset[int]) -> tuple[Value, ...]:
    present = []
    for index, value in enumerate(values):
        if index not in optional:
            present.append(value)
        elif isinstance(value, Optional) and not isinstance(value.value, Absent):
            present.append(usable(value.value))
    return tuple(present)


def map_code(entries: tuple[tuple[Code, Code], ...], optional: frozenset[int]) -> Code:
    """Code for a map, without optional entries whose value is absent; the last of equal keys counts."""

    def run(frame: Frame) -> Value:
        found = []
        for index, (key_code, value_code) in enumerate(entries):
            key, value = key_code(frame), value_code(frame)
            if index in optional and not isinstance(value, Optional):
                raise _no_optional(f"entry '{display_text(key)}'", value)
            found.append((Map.key(key), value))
        return _present_entries(found, optional)

    return run


def _present_entries(found: list[tuple[object, Value]], optional: frozenset[int]) -> Map:
    present: dict[object, Value] = {}
    for index, (key, value) in enumerate(found):
        if index not in optional:
            present[key] = value
        elif isinstance(value, Optional):
            if isinstance(value.value, Absent):
                present.pop(key, None)
            else:
                present[key] = usable(value.value)
    return Map(present)


def _no_optional(what: str, value: Value) -> CelRuntimeError:
    return CelRuntimeError(f"cannot initialize optional {what} from non-optional value {display_text(value)}")


def message_code(step: plan.Message, values: tuple[Code, ...]) -> Code:
    """Code for a duration or timestamp from its fields."""

    def run(frame: Frame) -> Value:
        parts = {}
        for name, value in zip(step.fields, values, strict=True):
            parts[name] = value(frame)
        return _message(step.type_name, parts)

    return run


def _message(type_name: str, parts: dict[str, Value]) -> Value:
    if type_name not in ("google.protobuf.Duration", "google.protobuf.Timestamp"):
        raise CelRuntimeError(f"unknown type '{type_name}'")
    seconds, nanoseconds = parts.get("seconds", 0), parts.get("nanos", 0)
    if not (isinstance(seconds, int) and isinstance(nanoseconds, int)):
        raise CelRuntimeError(f"field type conversion error for {type_name}")
    total = seconds * _NANOSECONDS_PER_SECOND + nanoseconds
    return Duration(total) if type_name == "google.protobuf.Duration" else Timestamp(total)


@dataclass(frozen=True, slots=True)
class LoopParts:
    """The parts of a comprehension, ready to run."""

    range: Code
    condition: Code
    step: Code
    result: Code


def entries(over: Value, *, are_pairs: bool) -> Iterator[tuple[Value, Value]]:
    """The items of a loop: elements or keys; with two variables, indices or keys with their values.

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


def final_value(value: Value) -> Value:
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
        meter: Meter | None = frame[METER]  # type: ignore[assignment]  # a frame has it there
        for frame[first], value in items:
            if meter is not None:
                meter.count_iteration()
            if are_pairs:
                frame[second] = value
            if not _goes_on(condition, frame):
                break
            try:
                frame[accumulator] = advance(frame)
            except CelRuntimeError as error:
                frame[accumulator] = error
        outcome = result(frame)
        return final_value(outcome) if outcome is frame[accumulator] else outcome

    return run


def _goes_on(condition: Code, frame: Frame) -> bool:
    """True if the loop continues; errors do not stop it."""
    try:
        return condition(frame) is not False
    except CelRuntimeError:
        return True


def value_or_raise(value: Outcome) -> Value:
    """A value; raises what is an error instead of one."""
    if isinstance(value, CelRuntimeError):
        raise value.with_traceback(None)
    return value


def constant(value: Outcome) -> Code:
    """A value, or the raising of an error."""
    if isinstance(value, CelRuntimeError):
        return lambda _: value_or_raise(value)
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
                failure = failure or CelRuntimeError(NO_OVERLOAD)
        if failure is not None:
            raise failure
        return not decider

    return run


def is_unequal(left: Value, right: Value) -> bool:
    """The result of `!=`."""
    return not equal(left, right)


def equality(left: Code, right: Code, known: Outcome, *, is_negated: bool) -> Code:
    """`==` or `!=`; `known` is the right side if it is a constant, else None."""
    if is_negated:
        return lambda frame: not equal(left(frame), right(frame))
    if not isinstance(known, str | bool):
        return lambda frame: equals(left(frame), right(frame))
    expected = known
    kind = expected.__class__

    def run(frame: Frame) -> Value:
        value = left(frame)
        return value == expected if value.__class__ is kind else equals(value, expected)

    return run


def membership(value: Code, members: frozenset[object]) -> Code:
    """`x in [constants]`."""
    return lambda frame: is_member(value(frame), members)


def optional_or(left: Code, right: Code, *, unwraps: bool) -> Code:
    """`or` and `orValue`; a left side that is not an optional is the result."""

    def run(frame: Frame) -> Value:
        value = left(frame)
        if not isinstance(value, Optional):
            return value
        if isinstance(value.value, Absent):
            return right(frame)
        return usable(value.value) if unwraps else value

    return run
