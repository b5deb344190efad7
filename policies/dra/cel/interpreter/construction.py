"""Code that builds lists, maps and messages.

Source: cel-go interpreter/interpretable.go, evalList, evalMap and evalObj.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.dra.cel.errors import CelRuntimeError
from policies.dra.cel.kinds import display_text, usable
from policies.dra.cel.libraries.times import Duration, Timestamp
from policies.dra.cel.values import Absent, Map, Optional

if TYPE_CHECKING:
    from policies.dra.cel.interpreter import plan
    from policies.dra.cel.interpreter.stack import Code, Frame
    from policies.dra.cel.values import Value

__all__ = ["list_code", "map_code", "message_code"]

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
