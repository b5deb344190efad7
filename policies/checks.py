"""Checks: rules written as functions over one kind of subject."""

from __future__ import annotations

from dataclasses import dataclass
from inspect import cleandoc
from typing import TYPE_CHECKING, Generic, TypeVar

from policies.rules import rule

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from policies.decision import Finding, Place, Rule, Severity
    from policies.kubernetes.paths import FieldPath

__all__ = ["Checks", "Problem", "problem"]

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Problem:
    """What a check found; `Checks.run` adds the rule."""

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
