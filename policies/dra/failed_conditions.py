"""Why a selector does not match a device, in plain words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from policies.dra.cel import split_conjuncts
from policies.dra.conditions import device_reads, read_condition
from policies.phrases import format_list, shorten

if TYPE_CHECKING:
    from collections.abc import Callable

    from policies.dra.cel import Conjunct, Read
    from policies.dra.conditions import Condition

__all__ = ["FailedCondition", "describe_failure", "failing_conjunct"]

_MOST_VALUES = 4
_WANTED = {
    "==": "{}",
    "!=": "anything but {}",
    "<": "less than {}",
    "<=": "at most {}",
    ">": "more than {}",
    ">=": "{}",
    "in": "{}",
    "startsWith": 'one that starts with "{}"',
    "endsWith": 'one that ends with "{}"',
    "contains": 'one that contains "{}"',
    "matches": 'one that matches "{}"',
}
_WANTED_VERSION = {"<": "one before {}", "<=": "{} or earlier", ">": "one after {}", ">=": "{} or later"}
_WANTED_NUMBER = {">=": "at least {}"}


@dataclass(frozen=True, slots=True)
class FailedCondition:
    """Why a selector does not match a device, as predicates in the singular."""

    text: str
    """`has 40Gi of memory, 80Gi asked`."""
    gist: str
    """The same without what this one device has."""


def failing_conjunct(selector: str, is_true: Callable[[str], bool | None]) -> Conjunct | None:
    """The first condition of a selector that is false for a device; None if none is false by itself.

    Args:
        selector: what does not match the device.
        is_true: whether an expression is true of the device; None if it fails.
    """
    parts = split_conjuncts(selector)
    return parts[0] if len(parts) == 1 else next((part for part in parts if is_true(part.text) is False), None)


def describe_failure(text: str, value_of: Callable[[Read], str | None]) -> FailedCondition:
    """Describe why a condition is false for a device.

    Args:
        text: the condition, best one conjunct of a selector.
        value_of: the value of the device, as text; None if it is missing.
    """
    condition = read_condition(text)
    failure = None if condition is None else _common_failure(condition, value_of(condition.read))
    return failure or _plain_failure(text, value_of)


def _common_failure(condition: Condition, has: str | None) -> FailedCondition | None:
    name = condition.read.name or ""
    if condition.operator == "has":
        what = "capacity" if condition.read.part == "capacity" else "attribute"
        return FailedCondition(f"has no {what} {name}", f"has no {what} {name}")
    if has is None:
        return None
    wanted = _wanted_value(condition)
    match condition.read.part:
        case "driver":
            return FailedCondition(
                f"is of driver {shorten(has)}, {wanted} requested", f"is of another driver, {wanted} requested"
            )
        case "allowMultipleAllocations":
            kind = "for one claim only" if has == "false" else "for several claims at once"
            return FailedCondition(f"is {kind}, the opposite requested", f"is {kind}, the opposite requested")
        case "capacity":
            return FailedCondition(
                f"has {shorten(has)} of {name}, {wanted} requested", f"has another amount of {name}, {wanted} requested"
            )
        case _:
            return FailedCondition(
                f"has {name} {shorten(has)}, {wanted} requested", f"has another {name}, {wanted} requested"
            )


def _wanted_value(condition: Condition) -> str:
    if condition.operator in ("true", "false"):
        return condition.operator
    values = [_plain(value) for value in condition.values]
    form = _WANTED[condition.operator]
    if condition.value_kind == "semver":
        form = _WANTED_VERSION.get(condition.operator, form)
    elif not condition.value_kind:
        form = _WANTED_NUMBER.get(condition.operator, form)
    return form.format(values[0] if len(values) == 1 else f"one of {format_list(values)}")


def _plain(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else shorten(str(value))


def _plain_failure(text: str, value_of: Callable[[Read], str | None]) -> FailedCondition:
    """The condition itself, and the values that it reads."""
    has = [f"{read.name or read.part} is {_text_of(value_of(read))}" for read in device_reads(text)]
    gist = f"does not satisfy {shorten(text)}"
    return FailedCondition(f"{gist} ({format_list(has, _MOST_VALUES)})" if has else gist, gist)


def _text_of(value: str | None) -> str:
    return "missing" if value is None else shorten(value)
