"""Building lists, maps and messages from evaluated parts, in both evaluators.

Source: cel-go interpreter/interpretable.go, evalList, evalMap and evalObj.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.dra.cel.cost.size_estimates import LIST_COST, MAP_COST, STRUCT_COST
from policies.dra.cel.errors import CelRuntimeError
from policies.dra.cel.interpreter import plan
from policies.dra.cel.interpreter.machine import is_failure, outcome_of
from policies.dra.cel.kinds import shown, usable
from policies.dra.cel.libraries.times import Duration, Timestamp
from policies.dra.cel.values import Absent, Map, Optional

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from policies.dra.cel.interpreter.machine import Instruction, Machine
    from policies.dra.cel.values import Value

__all__ = [
    "build",
    "build_list",
    "build_map",
    "build_message",
    "charge_construction",
    "check_key",
    "check_optional",
    "raised",
]

_NANOSECONDS_PER_SECOND = 10**9


def raised(value: Value | CelRuntimeError) -> Value:
    """A value; raises what is an error instead of one."""
    if isinstance(value, CelRuntimeError):
        raise value.with_traceback(None)
    return value


def build_list(elements: Sequence[Value | CelRuntimeError], optional: frozenset[int]) -> tuple[Value, ...]:
    """A list; of the elements at optional indices, those that have a value.

    Raises:
        CelRuntimeError: the first element that is an error, or an optional one that is no optional value.
    """
    if not optional:
        return tuple([raised(element) for element in elements])
    built = []
    for index, element in enumerate(elements):
        value = raised(element)
        if index in optional:
            if not isinstance(value, Optional):
                message = f"cannot initialize optional list element from non-optional value {shown(value)}"
                raise CelRuntimeError(message)
            if isinstance(value.value, Absent):
                continue
            value = usable(value.value)
        built.append(value)
    return tuple(built)


def build_map(
    entries: Iterable[tuple[Value | CelRuntimeError, Value | CelRuntimeError]], optional: frozenset[int]
) -> Map:
    """A map; of entries at optional indices, those whose value is there. The last of equal keys counts.

    Raises:
        CelRuntimeError: the first key or value that is an error, or an optional one that is no optional value.
        EvaluationAborted: a key of a kind that cel-go cannot take.
    """
    built: dict[object, Value] = {}
    for index, (key_or_error, value_or_error) in enumerate(entries):
        key, value = raised(key_or_error), raised(value_or_error)
        if index in optional:
            if not isinstance(value, Optional):
                message = f"cannot initialize optional entry '{shown(key)}' from non-optional value {shown(value)}"
                raise CelRuntimeError(message)
            if isinstance(value.value, Absent):
                built.pop(Map.key(key), None)
                continue
            value = usable(value.value)
        built[Map.key(key)] = value
    return Map(built)


def build_message(type_name: str, fields: Iterable[tuple[str, Value]]) -> Value:
    """A duration or timestamp from its parts.

    Raises:
        CelRuntimeError: the parts are out of range, or messages of the type cannot be made.
    """
    if type_name not in ("google.protobuf.Duration", "google.protobuf.Timestamp"):
        raise CelRuntimeError(f"unknown type '{type_name}'")
    parts = dict(fields)
    seconds, nanoseconds = parts.get("seconds", 0), parts.get("nanos", 0)
    if not (isinstance(seconds, int) and isinstance(nanoseconds, int)):
        raise CelRuntimeError(f"field type conversion error for {type_name}")
    total = seconds * _NANOSECONDS_PER_SECOND + nanoseconds
    return Duration(total) if type_name == "google.protobuf.Duration" else Timestamp(total)


def check_optional(what: str) -> Instruction:
    """Refuse the last element or value if it was written with `?` and is no optional; below a value is its key."""

    def run(machine: Machine) -> None:
        value = machine.stack[-1]
        if is_failure(value) or isinstance(value, Optional):
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
        stack.append(outcome_of(lambda: _built(step, parts)))  # type: ignore[arg-type]  # values

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
