"""The registry of rules, and checks: rules written as functions over one kind of subject."""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import wraps
from inspect import cleandoc
from typing import TYPE_CHECKING, Generic, ParamSpec, TypeVar

from policies.kubernetes.objects import FieldPath
from policies.kubernetes.workloads import WORKLOADS
from policies.rules.decision import EVERY_KIND, WORKLOAD, Rule
from policies.rules.settings.exemptions import ACCESS, CONVERSION

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from policies.rules.decision import Finding, Place, Severity
    from policies.rules.settings import GPUAdmissionPolicy


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
    """The reason why a pattern of `from` in an exemption has no effect; empty if it has one."""
    if pattern in (CONVERSION, ACCESS):
        return ""
    named = [rule for rule in all_rules() if fnmatchcase(rule.id, pattern)]
    if any(not rule.fixed for rule in named):
        return ""
    if named:
        return f"{pattern} allows no exemptions, so this entry has no effect"
    return f"no rule matches {pattern} in this version, so this entry has no effect"


T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Problem:
    """The result of a check; `Checks.run` adds the rule."""

    path: FieldPath
    message: str
    remedy: str | None = None
    """None for that of the rule."""
    severity: Severity | None = None
    """None for the default of the rule; set if a missing fact makes the problem less severe."""
    place: Place | None = None


def problem(
    path: FieldPath,
    message: str,
    remedy: str | None = None,
    *,
    severity: Severity | None = None,
    place: Place | None = None,
) -> Problem:
    """A problem at a path; message without path and full stop, remedy an imperative."""
    return Problem(path, message, remedy, severity, place)


class Checks(Generic[T]):
    """The checks of one kind of subject, in the order of their ids, whatever the order of imports."""

    def __init__(self, *kinds: str, cluster_scoped: bool = False, circumstance: bool = False) -> None:
        """Prepare; `kinds`, `cluster_scoped` and `circumstance` are those of the rules."""
        self._kinds = kinds
        self._cluster_scoped = cluster_scoped
        self._circumstance = circumstance
        self._checks: list[tuple[Rule, Callable[[T], Iterable[Problem]]]] = []

    def rule(
        self,
        rule_id: str,
        title: str,
        *,
        default: Severity,
        remedy: str,
        source: str,
        rows: tuple[str, ...] = (),
        setting: str = "",
        kinds: tuple[str, ...] = (),
        fixed: bool = False,
        suspicion: bool = False,
        as_invalid: bool = False,
    ) -> Callable[[Callable[[T], Iterable[Problem]]], Callable[[T], Iterable[Problem]]]:
        """Register a function as the check of a rule; its docstring is the rule's reason.

        The other arguments are those of `Rule`; `kinds` is for rules of fewer or more kinds than the other checks have. Callers of `run` must not judge the findings of a rule that is `fixed`.
        """

        def register(check: Callable[[T], Iterable[Problem]]) -> Callable[[T], Iterable[Problem]]:
            made = rule(
                rule_id,
                title,
                default=default,
                why=cleandoc(check.__doc__ or ""),
                remedy=remedy,
                source=source,
                setting=setting,
                kinds=kinds or self._kinds,
                rows=rows,
                fixed=fixed,
                suspicion=suspicion,
                as_invalid=as_invalid,
                circumstance=self._circumstance,
                cluster_scoped=self._cluster_scoped,
            )
            self._checks.append((made, check))
            self._checks.sort(key=lambda each: each[0].id)
            return check

        return register

    def rule_of(self, check: Callable[[T], Iterable[Problem]]) -> Rule:
        """The rule of a check, for findings that are made after all checks have run."""
        return next(made for made, known in self._checks if known is check)

    def run(self, subject: T) -> Iterator[Finding]:
        """Everything that the checks find in a subject."""
        for made, check in self._checks:
            for found in check(subject):
                yield made.finding(found.path, found.message, found.remedy, severity=found.severity, place=found.place)
