"""The registry of rules."""

from __future__ import annotations

from fnmatch import fnmatchcase
from functools import wraps
from typing import TYPE_CHECKING, ParamSpec

from policies.decision import EVERY_KIND, WORKLOAD, Rule
from policies.kubernetes.paths import FieldPath
from policies.kubernetes.workloads import WORKLOADS
from policies.settings.exemptions import ACCESS, CONVERSION

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from policies.settings import GPUAdmissionPolicy

__all__ = ["all_rules", "get_rule", "ineffective_rule_names", "rule", "ruled_kinds", "rules_of_kind", "rules_on_demand"]

P = ParamSpec("P")

_WORKLOADS = frozenset(kind for _, kind in WORKLOADS)

_RULES: dict[str, Rule] = {}
_ON_DEMAND: list[Callable[[], None]] = []


def _with_registration(make: Callable[P, Rule]) -> Callable[P, Rule]:
    @wraps(make)
    def register(*args: P.args, **kwargs: P.kwargs) -> Rule:
        new = make(*args, **kwargs)
        if new.id in _RULES:
            raise ValueError(f"rule {new.id} is registered twice")
        _RULES[new.id] = new
        return new

    return register


rule = _with_registration(Rule)
"""Creates a rule and registers it by its id. Raises ValueError if the id is taken."""


def rules_on_demand(load: Callable[[], None]) -> Callable[[], None]:
    """Call a function before `all_rules` returns: it imports packages that register more rules."""
    _ON_DEMAND.append(load)
    return load


def all_rules() -> tuple[Rule, ...]:
    """All rules, sorted by id."""
    for load in _ON_DEMAND:
        load()
    return tuple(_RULES[rule_id] for rule_id in sorted(_RULES))


def get_rule(rule_id: str) -> Rule | None:
    """The rule with an id; None if it does not exist."""
    if rule_id in _RULES:
        return _RULES[rule_id]
    return next((rule for rule in all_rules() if rule.id == rule_id), None)


def rules_of_kind(kind: str) -> tuple[Rule, ...]:
    """The rules that review objects of a kind; for a workload, those that review its pods with it."""
    names = {kind, EVERY_KIND, *([WORKLOAD] if kind in _WORKLOADS else [])}
    return tuple(rule for rule in all_rules() if not names.isdisjoint(rule.kinds))


def ruled_kinds() -> tuple[str, ...]:
    """All kinds that have rules of their own, workloads included, in alphabetical order."""
    named = {kind for rule in all_rules() for kind in rule.kinds}
    return tuple(sorted(named - {WORKLOAD, EVERY_KIND} | _WORKLOADS))


def ineffective_rule_names(settings: GPUAdmissionPolicy) -> Iterator[tuple[FieldPath, str]]:
    """Paths of settings that name unknown rules or rules that settings cannot change, each with a message.

    Such settings are still valid, because they may be written for another version.
    """
    for index, override in enumerate(settings.rules):
        named = get_rule(override.rule)
        path = FieldPath(["spec", "rules", index, "rule"])
        if named is None:
            yield path, f"rule {override.rule} does not exist in this version, so its severity has no effect"
        elif named.fixed:
            yield path, f"settings cannot change {named.id}, so its severity stays {named.default}"
    for index, exemption in enumerate(settings.exemptions):
        for number, pattern in enumerate(exemption.from_):
            if message := _why_exempts_nothing(pattern):
                yield FieldPath(["spec", "exemptions", index, "from", number]), message


def _why_exempts_nothing(pattern: str) -> str:
    """Why a pattern of `from` in an exemption has no effect; empty if it has one."""
    if pattern in (CONVERSION, ACCESS):
        return ""
    named = [rule for rule in all_rules() if fnmatchcase(rule.id, pattern)]
    if any(not rule.fixed for rule in named):
        return ""
    if named:
        return f"{pattern} allows no exemptions, so this entry has no effect"
    return f"no rule matches {pattern} in this version, so this entry has no effect"
