"""What a device lacks: a selector that does not match it, in plain words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from policies.dra.cel import split_conjuncts
from policies.dra.conditions import condition, reads_of
from policies.phrases import format_list, shorten

if TYPE_CHECKING:
    from collections.abc import Callable

    from policies.dra.cel import Conjunct, Read
    from policies.dra.conditions import Condition

__all__ = ["Lack", "failing_conjunct", "lack"]

_MOST_VALUES = 4
_ASKED = {
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
_ASKED_VERSION = {"<": "one before {}", "<=": "{} or earlier", ">": "one after {}", ">=": "{} or later"}
_ASKED_NUMBER = {">=": "at least {}"}


@dataclass(frozen=True, slots=True)
class Lack:
    """Why a selector does not match a device, as predicates in the singular."""

    text: str
    """`has 40Gi of memory, 80Gi asked`."""
    gist: str
    """The same without what this one device has."""


def failing_conjunct(selector: str, is_true: Callable[[str], bool | None]) -> Conjunct | None:
    """The first condition of a selector that is false for a device; None where none is by itself.

    Args:
        selector: what does not match the device.
        is_true: whether an expression is true of the device; None where it fails.
    """
    parts = split_conjuncts(selector)
    return parts[0] if len(parts) == 1 else next((part for part in parts if is_true(part.text) is False), None)


def lack(text: str, value_of: Callable[[Read], str | None]) -> Lack:
    """Say why a condition is false for a device.

    Args:
        text: the condition, best one conjunct of a selector.
        value_of: what the device has, as text; None where it has nothing there.
    """
    asked = condition(text)
    said = None if asked is None else _said(asked, value_of(asked.read))
    return said or _quoted(text, value_of)


def _said(asked: Condition, has: str | None) -> Lack | None:
    name = asked.read.name or ""
    if asked.operator == "has":
        what = "capacity" if asked.read.part == "capacity" else "attribute"
        return Lack(f"has no {what} {name}", f"has no {what} {name}")
    if has is None:
        return None
    wanted = _wanted(asked)
    match asked.read.part:
        case "driver":
            return Lack(f"is of driver {shorten(has)}, {wanted} asked", f"is of another driver, {wanted} asked")
        case "allowMultipleAllocations":
            kind = "for one claim only" if has == "false" else "for several claims at once"
            return Lack(f"is {kind}, the opposite asked", f"is {kind}, the opposite asked")
        case "capacity":
            return Lack(
                f"has {shorten(has)} of {name}, {wanted} asked", f"has another amount of {name}, {wanted} asked"
            )
        case _:
            return Lack(f"has {name} {shorten(has)}, {wanted} asked", f"has another {name}, {wanted} asked")


def _wanted(asked: Condition) -> str:
    if asked.operator in ("true", "false"):
        return asked.operator
    values = [_plain(value) for value in asked.asked]
    form = _ASKED[asked.operator]
    if asked.value_kind == "semver":
        form = _ASKED_VERSION.get(asked.operator, form)
    elif not asked.value_kind:
        form = _ASKED_NUMBER.get(asked.operator, form)
    return form.format(values[0] if len(values) == 1 else f"one of {format_list(values)}")


def _plain(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else shorten(str(value))


def _quoted(text: str, value_of: Callable[[Read], str | None]) -> Lack:
    """The condition itself, and what it reads."""
    has = [f"{read.name or read.part} is {_shown(value_of(read))}" for read in reads_of(text)]
    told = f"does not satisfy {shorten(text)}"
    return Lack(f"{told} ({format_list(has, _MOST_VALUES)})" if has else told, told)


def _shown(value: str | None) -> str:
    return "missing" if value is None else shorten(value)
