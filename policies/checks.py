"""Checks: rules written as functions over one kind of subject."""

from __future__ import annotations

from dataclasses import dataclass
from inspect import cleandoc
from typing import TYPE_CHECKING, Generic, TypeVar

from policies.rules import Rule, rule

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from policies.decision import Finding, Place, Severity
    from policies.kubernetes.paths import FieldPath

__all__ = ["Checks", "Problem", "problem"]

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Problem:
    """What a check found; the rule it belongs to is added by whoever runs the check."""

    path: FieldPath
    message: str
    remedy: str | None = None
    """Where the occasion knows better than the rule."""
    severity: Severity | None = None
    """Where a missing fact makes less of it than the rule's default."""
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

    def __init__(self, *, cluster_scoped: bool = False) -> None:
        """Args: whether all subjects are objects without a namespace."""
        self._cluster_scoped = cluster_scoped
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
        fixed: bool = False,
        beside: tuple[str, ...] = (),
    ) -> Callable[[Callable[[T], Iterable[Problem]]], Callable[[T], Iterable[Problem]]]:
        """Register a function as the check of a rule; its docstring is the rule's reason.

        `rows` are the ids of the misconfigurations in docs/catalogue.md that the rule catches; `fixed` says that no
        setting changes its severity, which whoever runs the checks sees to. `beside` are the rules beside whose findings
        it is found, if it is never found alone.
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
                rows=rows,
                fixed=fixed,
                beside=beside,
                cluster_scoped=self._cluster_scoped,
            )
            self._checks.append((made, check))
            self._checks.sort(key=lambda each: each[0].id)
            return check

        return register

    def run(self, subject: T) -> Iterator[Finding]:
        """Everything that the checks find in a subject."""
        for made, check in self._checks:
            for found in check(subject):
                yield made.finding(found.path, found.message, found.remedy, severity=found.severity, place=found.place)
