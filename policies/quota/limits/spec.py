"""What is wrong with the spec of a GPUQuota, whatever it is: types, names, amounts, globs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from policies.kubernetes.names import closest, is_dns_label
from policies.quota.limits.amounts import AmountError, quoted_value, read_hard
from policies.quota.limits.selectors import GLOBS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from policies.rules.charges import Unit

__all__ = ["MOST_GLOBS", "MOST_LIMITS", "UNITS", "spec_problems", "unknown_field"]

UNITS: tuple[Unit, ...] = ("gpus", "memory", "devices")
MOST_LIMITS = 32
MOST_GLOBS = 16

_CHOICES = {"mode": ("Enforce", "Warn"), "unknownProducts": ("WorstCase", "Deny")}
_SPEC = ("limits", *_CHOICES)
_LIMIT = ("name", "selector", *UNITS)

_Problem = tuple[tuple[str | int, ...], str]
"""The steps that lead to a place in the spec, and a sentence about it."""


def spec_problems(spec: Any) -> Iterator[_Problem]:
    """Where in a spec of any shape something is wrong, and what; nothing where it can be read."""
    if not isinstance(spec, dict):
        yield (
            (),
            "is missing; write limits under it" if spec is None else f"is {quoted_value(spec)}; it must be a mapping",
        )
        return
    yield from _unknown(spec, _SPEC, "a GPUQuota's spec")
    yield from _limits_problems(spec)
    for field, choices in _CHOICES.items():
        if field in spec and spec[field] not in choices:
            yield (field,), f"is {quoted_value(spec[field])}; write {' or '.join(choices)}"


def unknown_field(key: Any, known: Iterable[str], where: str) -> str:
    """The message for an unknown field."""
    known = tuple(known)
    meant = closest(key, known)
    listed = f"{', '.join(known[:-1])} and {known[-1]}"
    return f"is an unknown field of {where}; " + (f"write {meant}" if meant else f"known fields: {listed}")


def _unknown(document: dict[Any, Any], known: tuple[str, ...], where: str) -> Iterator[_Problem]:
    for key in document:
        if key not in known:
            yield (str(key),), unknown_field(key, known, where)


def _limits_problems(spec: dict[Any, Any]) -> Iterator[_Problem]:
    limits = spec.get("limits")
    if not isinstance(limits, list):
        found = "is missing" if "limits" not in spec else f"is {quoted_value(limits)}"
        yield ("limits",), f"{found}; write a list of limits"
        return
    if not limits:
        yield ("limits",), "is empty; write a limit, or delete the GPUQuota if nothing is limited"
    if len(limits) > MOST_LIMITS:
        yield ("limits",), f"has {len(limits)} limits; the most is {MOST_LIMITS}"
    first: dict[str, int] = {}
    for index, limit in enumerate(limits[:MOST_LIMITS]):
        for steps, said in _limit_problems(limit, first):
            yield ("limits", index, *steps), said
        name = limit.get("name") if isinstance(limit, dict) else None
        if isinstance(name, str):
            first.setdefault(name, index)


def _limit_problems(limit: Any, names: dict[str, int]) -> Iterator[_Problem]:
    if not isinstance(limit, dict):
        yield (), f"is {quoted_value(limit)}; it must be a mapping with name and one of {_one_of_units()}"
        return
    yield from _unknown(limit, _LIMIT, "a limit")
    yield from _name_problems(limit, names)
    units = [unit for unit in UNITS if unit in limit]
    if not units:
        yield (), f"limits nothing; write one of {_one_of_units()}"
    elif len(units) > 1:
        yield (), f"has {' and '.join(units)}; write a limit for each of them"
    for unit in units:
        try:
            read_hard(unit, limit[unit])
        except AmountError as error:
            yield (unit,), str(error)
    if "selector" in limit:
        for steps, said in _selector_problems(limit["selector"]):
            yield ("selector", *steps), said


def _one_of_units() -> str:
    return f"{', '.join(UNITS[:-1])} and {UNITS[-1]}"


def _name_problems(limit: dict[Any, Any], names: dict[str, int]) -> Iterator[_Problem]:
    if "name" not in limit:
        yield ("name",), "is missing; refusals, the status and metrics call the limit by it"
    elif not is_dns_label(limit["name"]):
        said = 'write at most 63 lower-case letters, digits and dashes, such as "h100"'
        yield ("name",), f"is {quoted_value(limit['name'])}; {said}"
    elif limit["name"] in names:
        earlier = names[limit["name"]]
        yield (
            ("name",),
            f"is {quoted_value(limit['name'])}, as that of limits[{earlier}] is; give each limit its own name",
        )


def _selector_problems(selector: Any) -> Iterator[_Problem]:
    if not isinstance(selector, dict):
        yield (), f"is {quoted_value(selector)}; it must be a mapping, or be left out to count everything"
        return
    yield from _unknown(selector, tuple(GLOBS), "a selector")
    for field, globs in GLOBS.items():
        if field not in selector:
            continue
        listed = selector[field]
        if not isinstance(listed, list):
            yield (field,), f'is {quoted_value(listed)}; write a list, such as ["{globs.example}"]'
            continue
        if not listed:
            yield (field,), "is empty; leave it out to count them all"
        if len(listed) > MOST_GLOBS:
            yield (field,), f"has {len(listed)} names; the most is {MOST_GLOBS}"
        for index, value in enumerate(listed[:MOST_GLOBS]):
            if said := globs.problem(value):
                yield (field, index), said
