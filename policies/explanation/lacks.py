"""What a device lacks: a selector that does not match it, in plain words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from policies.dra.allocation.constraints import attribute_of
from policies.dra.cel import CelCompileError, CelRuntimeError, Features, compile_selector
from policies.explanation.conditions import condition, parts_of
from policies.explanation.conjuncts import Conjunct, conjuncts
from policies.explanation.words import listed, short

if TYPE_CHECKING:
    from policies.dra.allocation.slices import Device
    from policies.explanation.conditions import Condition, Part

__all__ = ["Lack", "failing_conjunct", "lack", "matches", "value_of"]

_FEATURES = Features(consumable_capacity=True, list_type_attributes=False)
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
    """Why a selector does not match a device."""

    text: str
    """A predicate in the singular: `has 40Gi of memory, 80Gi asked`."""
    gist: str
    """The same without what this one device has."""


def matches(expression: str, device: Device) -> bool | None:
    """Whether an expression is true of a device; None where it cannot be told, because it fails or does not compile."""
    seen = {
        "driver": device.slice.driver,
        "attributes": device.attributes,
        "capacity": device.document.get("capacity") or {},
        "allowMultipleAllocations": device.shareable,
    }
    try:
        return compile_selector(expression, _FEATURES).matches(seen)
    except (CelCompileError, CelRuntimeError):
        return None


def failing_conjunct(selector: str, device: Device) -> Conjunct | None:
    """The first condition of a selector that is false for the device; None where none is by itself."""
    parts = conjuncts(selector)
    return parts[0] if len(parts) == 1 else next((part for part in parts if matches(part.text, device) is False), None)


def lack(selector: str, device: Device) -> Lack:
    """Say why a selector that does not match the device does not."""
    failing = failing_conjunct(selector, device)
    text = selector if failing is None else failing.text
    asked = condition(text)
    said = None if asked is None else _said(asked, device)
    return said or _quoted(text, device)


def value_of(device: Device, part: Part) -> str | None:
    """What a device has, as text; None where it has nothing there."""
    if part.kind == "driver":
        return device.slice.driver
    if part.kind == "allowMultipleAllocations":
        return "true" if device.shareable else "false"
    if part.kind == "attributes":
        attribute = attribute_of(device, f"{part.domain}/{part.name}")
        return None if attribute is None else _scalar(attribute)
    capacity = device.document.get("capacity") or {}
    found = capacity.get(f"{part.domain}/{part.name}")
    if found is None and part.domain == device.slice.driver:
        found = capacity.get(part.name)
    return str(found.get("value")) if isinstance(found, dict) else None


def _said(asked: Condition, device: Device) -> Lack | None:
    part = asked.part
    if asked.operator == "has":
        what = "capacity" if part.kind == "capacity" else "attribute"
        return Lack(f"has no {what} {part.name}", f"has no {what} {part.name}")
    has = value_of(device, part)
    if has is None:
        return None
    wanted = _wanted(asked)
    if part.kind == "driver":
        return Lack(f"is of driver {short(has)}, {wanted} asked", f"is of another driver, {wanted} asked")
    if part.kind == "allowMultipleAllocations":
        kind = "for one claim only" if has == "false" else "for several claims at once"
        return Lack(f"is {kind}, the opposite asked", f"is {kind}, the opposite asked")
    if part.kind == "capacity":
        return Lack(
            f"has {short(has)} of {part.name}, {wanted} asked", f"has another amount of {part.name}, {wanted} asked"
        )
    return Lack(f"has {part.name} {short(has)}, {wanted} asked", f"has another {part.name}, {wanted} asked")


def _wanted(asked: Condition) -> str:
    if asked.operator in ("true", "false"):
        return asked.operator
    values = [_plain(value) for value in asked.asked]
    form = _ASKED[asked.operator]
    if asked.value_kind == "semver":
        form = _ASKED_VERSION.get(asked.operator, form)
    elif not asked.value_kind:
        form = _ASKED_NUMBER.get(asked.operator, form)
    return form.format(values[0] if len(values) == 1 else f"one of {listed(values)}")


def _plain(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else short(str(value))


def _quoted(text: str, device: Device) -> Lack:
    """The condition itself, and what it reads."""
    read = [f"{part.name or part.kind} is {_shown(value_of(device, part))}" for part in parts_of(text)]
    told = f"does not satisfy {short(text)}"
    return Lack(f"{told} ({listed(read, _MOST_VALUES)})" if read else told, told)


def _shown(value: str | None) -> str:
    return "missing" if value is None else short(value)


def _scalar(attribute: Any) -> str | None:
    for value in attribute.values():
        if isinstance(value, bool):
            return "true" if value else "false"
        if isinstance(value, str | int):
            return str(value)
        if isinstance(value, list):
            return listed([str(each) for each in value])
    return None
