"""The registry of rules: what each forbids, why, and what to do instead."""

from __future__ import annotations

from fnmatch import fnmatchcase
from functools import wraps
from typing import TYPE_CHECKING, ParamSpec

from policies.decision import Rule
from policies.kubernetes.paths import FieldPath
from policies.settings.exemptions import ACCESS, CONVERSION

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from policies.settings import GPUAdmissionPolicy

__all__ = ["all_rules", "get_rule", "rule", "rules_on_demand", "without_effect"]

P = ParamSpec("P")

_RULES: dict[str, Rule] = {}
_ON_DEMAND: list[Callable[[], None]] = []


def _registering(make: Callable[P, Rule]) -> Callable[P, Rule]:
    @wraps(make)
    def register(*args: P.args, **kwargs: P.kwargs) -> Rule:
        made = make(*args, **kwargs)
        if made.id in _RULES:
            raise ValueError(f"rule {made.id} is registered twice")
        _RULES[made.id] = made
        return made

    return register


rule = _registering(Rule)
"""Makes a rule and registers it under its id. Raises ValueError if the id is taken."""


def rules_on_demand(load: Callable[[], None]) -> Callable[[], None]:
    """Have a function called before anybody asks which rules there are: it imports rooms that register more."""
    _ON_DEMAND.append(load)
    return load


def all_rules() -> tuple[Rule, ...]:
    """Every rule, by id."""
    for load in _ON_DEMAND:
        load()
    return tuple(_RULES[rule_id] for rule_id in sorted(_RULES))


def get_rule(rule_id: str) -> Rule | None:
    """The rule of that id, or None."""
    if rule_id in _RULES:
        return _RULES[rule_id]
    return next((rule for rule in all_rules() if rule.id == rule_id), None)


def without_effect(settings: GPUAdmissionPolicy) -> Iterator[tuple[FieldPath, str]]:
    """Where settings name rules that do not exist or that settings do not change, and a sentence about it.

    It makes no settings invalid: they may have been written for another version.
    """
    for index, override in enumerate(settings.rules):
        named = get_rule(override.rule)
        path = FieldPath(["spec", "rules", index, "rule"])
        if named is None:
            yield path, f"there is no rule {override.rule} in this version, so its severity changes nothing"
        elif named.fixed:
            yield path, f"{named.id} holds whatever settings say, so its severity stays {named.default}"
    for index, exemption in enumerate(settings.exemptions):
        for number, pattern in enumerate(exemption.from_):
            if said := _spares_nobody(pattern):
                yield FieldPath(["spec", "exemptions", index, "from", number]), said


def _spares_nobody(pattern: str) -> str:
    """Why nobody is exempt from anything by what an exemption names; empty where somebody is."""
    if pattern in (CONVERSION, ACCESS):
        return ""
    named = [rule for rule in all_rules() if fnmatchcase(rule.id, pattern)]
    if any(not rule.fixed for rule in named):
        return ""
    if named:
        return f"{pattern} holds for everybody, so nobody is exempt from it"
    return f"there is no rule {pattern} in this version, so nobody is exempt from it"
