"""Checks: rules declared as functions that find problems, and the book of all rules."""

from __future__ import annotations

from collections import Counter
from dataclasses import KW_ONLY, dataclass
from difflib import get_close_matches
from inspect import cleandoc
from typing import TYPE_CHECKING, Generic, ParamSpec, TypeVar

from policies.kubernetes.workloads import WORKLOADS
from policies.rules.decision import EVERY_KIND, WORKLOAD, Rule, Severity
from policies.rules.messages import sentence

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from policies.kubernetes.objects import FieldPath
    from policies.rules.decision import Finding, Place


P = ParamSpec("P")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Problem:
    """A problem at a path of a document. `Check` makes it a finding of its rule."""

    path: FieldPath
    message: str
    """The problem and why it matters, without the path and without a full stop."""
    remedy: str | None = None
    """The remedy for the author, an imperative without a full stop; None for that of the rule, empty for none."""
    _: KW_ONLY
    administrator: str | None = None
    """The remedy for an administrator; None for that of the rule."""
    severity: Severity | None = None
    """None for the default of the rule; set if a missing fact makes the problem less severe."""
    place: Place | None = None

    @property
    def text(self) -> str:
        """The remedy, the reason and the place as one sentence, without the remedy of the rule."""
        return sentence(self.path, self.message, self.remedy or "")


@dataclass(frozen=True, slots=True, eq=False)
class Check(Generic[P]):
    """A rule, and the function that finds what breaks it."""

    rule: Rule
    function: Callable[P, Iterable[Problem]]

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Iterator[Finding]:
        """The problems that the function finds, as findings of the rule."""
        return map(self._finding, self.function(*args, **kwargs))

    def _finding(self, found: Problem) -> Finding:
        return self.rule.finding(
            found.path,
            found.message,
            found.remedy,
            administrator=found.administrator,
            severity=found.severity,
            place=found.place,
        )


class RulesOn:
    """Declares rules on objects of some kinds."""

    def __init__(self, *kinds: str, cluster_scoped: bool = False) -> None:
        """Prepare; `kinds` and `cluster_scoped` are those of the rules."""
        self.kinds = kinds
        self._cluster_scoped = cluster_scoped

    def rule(
        self,
        rule_id: str,
        title: str,
        *,
        remedy: str,
        source: str,
        administrator: str = "",
        default: Severity = Severity.DENY,
        rows: tuple[str, ...] = (),
        setting: str = "",
        fixed: bool = False,
        shared_cause: bool = False,
        runs: str = "",
    ) -> Callable[[Callable[P, Iterable[Problem]]], Check[P]]:
        """Declare a function as the check of a rule; its docstring is the rule's reason.

        The other arguments are those of `Rule`; a rule denies unless it says otherwise. The function takes what it needs to
        decide, and yields the problems. List the check in `checks` of its subject. Callers must not judge the findings of a
        rule that is `fixed`.
        """

        def declare(function: Callable[P, Iterable[Problem]]) -> Check[P]:
            declared = Rule(
                rule_id,
                title,
                default=default,
                why=cleandoc(function.__doc__ or ""),
                remedy=remedy,
                source=source,
                administrator=administrator,
                setting=setting,
                kinds=self.kinds,
                rows=rows,
                fixed=fixed,
                shared_cause=shared_cause,
                runs=runs,
                cluster_scoped=self._cluster_scoped,
            )
            return Check(declared, function)

        return declare


PODS = RulesOn("Pod", WORKLOAD)
"""Pods, also those that a workload makes."""
EVERY = RulesOn(EVERY_KIND)


class Checks(Generic[T]):
    """The checks of one kind of subject, in the order of their ids."""

    def __init__(self, *checks: Check[[T]]) -> None:
        """Prepare."""
        self.all = tuple(sorted(checks, key=lambda each: each.rule.id))

    def run(self, subject: T) -> Iterator[Finding]:
        """Everything that the checks find in a subject."""
        for check in self.all:
            yield from check(subject)


PRIVILEGES = "GA609"
"""The rule on privileges, which reports only beside findings of others."""
SUSPICIONS = ("GA607", "GA608")
"""Rules on access that are not made worse by privileges in the same pod."""
_WORKLOADS = frozenset(kind for _, kind in WORKLOADS)


@dataclass(frozen=True, slots=True)
class RuleBook:
    """All rules, sorted by id."""

    rules: tuple[Rule, ...]

    @classmethod
    def of(cls, checks: Iterable[Check[...]]) -> RuleBook:
        """The rules of checks.

        Raises:
            ValueError: Two rules have one id.
        """
        rules = [check.rule for check in checks]
        if taken := [rule_id for rule_id, count in Counter(rule.id for rule in rules).items() if count > 1]:
            raise ValueError(f"rule {taken[0]} is declared twice")
        return cls(tuple(sorted(rules, key=lambda rule: rule.id)))

    def get(self, rule_id: str) -> Rule | None:
        """The rule with an id; None if it does not exist."""
        return next((rule for rule in self.rules if rule.id == rule_id), None)

    def not_found(self, rule_id: str) -> str:
        """The sentence for an id that does not exist, with ids that are near."""
        known = [rule.id for rule in self.rules]
        # Letters that are typed for digits: GA1O2.
        written = rule_id.upper().translate(str.maketrans("OIL", "011"))
        alike = [written] if written in known else get_close_matches(written, known)
        hint = f"did you mean {' or '.join(sorted(alike))}?" if alike else "gpu-admission rules lists them all."
        return f"there is no rule {rule_id}; {hint}"

    def of_kind(self, kind: str) -> tuple[Rule, ...]:
        """The rules that review objects of a kind; for a workload, those that review its pods with it."""
        names = {kind, EVERY_KIND, *([WORKLOAD] if kind in _WORKLOADS else [])}
        return tuple(rule for rule in self.rules if not names.isdisjoint(rule.kinds))

    @property
    def kinds(self) -> tuple[str, ...]:
        """All kinds that have rules of their own, workloads included, in alphabetical order."""
        named = {kind for rule in self.rules for kind in rule.kinds}
        return tuple(sorted(named - {WORKLOAD, EVERY_KIND} | _WORKLOADS))

    def grounds_of(self, rule: Rule) -> tuple[Rule, ...]:
        """The rules of which one must have a finding for a rule to report anything; empty for most rules."""
        if rule.id != PRIVILEGES:
            return ()
        return tuple(
            each for each in self.rules if each.subject == rule.subject and each.id not in (PRIVILEGES, *SUSPICIONS)
        )
