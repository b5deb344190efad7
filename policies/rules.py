"""The registry of rules: what each forbids, why, and what to do instead."""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase
from textwrap import dedent
from typing import TYPE_CHECKING

from policies.decision import Finding, Severity
from policies.kubernetes.paths import FieldPath
from policies.settings.exemptions import ACCESS, CONVERSION

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from policies.decision import Place
    from policies.settings import GPUAdmissionPolicy

__all__ = ["Rule", "all_rules", "get_rule", "rule", "rules_on_demand", "told_by_field", "without_effect"]

_RULES: dict[str, Rule] = {}
_ON_DEMAND: list[Callable[[], None]] = []


@dataclass(frozen=True, slots=True)
class Rule:
    """One thing that is right or wrong, with its reasons.

    A rule is told to people three times: in a refusal (the finding's message and remedy), in the table of
    `gpu-admission rules`, and in full by `gpu-admission rules ID`. Its examples are `rule_examples/ID/wrong.yaml` and
    `right.yaml`.
    """

    id: str
    title: str
    default: Severity
    why: str
    remedy: str
    source: str
    """Where the outside knowledge comes from: an upstream file, a page of documentation, a design decision."""
    setting: str = ""
    """The setting that names this rule's severity, beside `spec.rules`."""
    rows: tuple[str, ...] = ()
    """The rows of docs/catalogue.md that the rule catches."""
    fixed: bool = False
    """Whether no setting changes its severity, and nobody is exempt from it."""
    shared_cause: bool = False
    """Whether the cause lies outside the object, so that many objects have the same finding."""
    beside: tuple[str, ...] = ()
    """The rules beside whose findings it is found; empty if it is found alone."""
    needs: tuple[str, bool] | None = None
    """A setting, and the value without which the rule finds nothing."""
    cluster_scoped: bool = False
    """True if all objects that it judges are without a namespace."""

    def finding(
        self,
        path: FieldPath,
        message: str,
        remedy: str | None = None,
        *,
        severity: Severity | None = None,
        place: Place | None = None,
    ) -> Finding:
        """A finding of this rule; `remedy` and `severity` where the occasion knows better than the rule."""
        known = self.remedy if remedy is None else remedy
        return Finding(self.id, severity or self.default, path, message, known, place)


def rule(
    rule_id: str,
    title: str,
    *,
    default: Severity,
    why: str,
    remedy: str,
    source: str,
    setting: str = "",
    rows: tuple[str, ...] = (),
    fixed: bool = False,
    shared_cause: bool = False,
    beside: tuple[str, ...] = (),
    needs: tuple[str, bool] | None = None,
    cluster_scoped: bool = False,
) -> Rule:
    """Register a rule under its id.

    Raises:
        ValueError: the id is taken.
    """
    if rule_id in _RULES:
        raise ValueError(f"rule {rule_id} is registered twice")
    made = Rule(
        rule_id,
        title,
        default,
        why=dedent(why).strip(),
        remedy=remedy,
        source=source,
        setting=setting,
        rows=rows,
        fixed=fixed,
        shared_cause=shared_cause,
        beside=beside,
        needs=needs,
        cluster_scoped=cluster_scoped,
    )
    _RULES[rule_id] = made
    return made


def rules_on_demand(load: Callable[[], None]) -> Callable[[], None]:
    """Have a function called before anybody asks which rules there are: it imports rooms that register more."""
    _ON_DEMAND.append(load)
    return load


def all_rules() -> tuple[Rule, ...]:
    """Every rule, by id."""
    for load in _ON_DEMAND:
        load()
    return tuple(_RULES[rule_id] for rule_id in sorted(_RULES))


def told_by_field(rule_id: str) -> bool:
    """Whether refusals by a rule are worded field by field, as a schema's are: of what is configured, claims, settings."""
    return rule_id.startswith(("GA1", "GA2", "GA420", "GA501", "GA7"))


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
