"""Embedded documents: YAML that is a value of a ConfigMap, with places in it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from policies.checks import Problem, problem
from policies.decision import Place
from policies.kubernetes.paths import FieldPath, lookup

if TYPE_CHECKING:
    from policies.configuration.change import Change
    from policies.decision import Severity
    from policies.kubernetes.yaml import Document

__all__ = ["Embedded"]


@dataclass(frozen=True, slots=True)
class Embedded:
    """One YAML document in the `data` of a ConfigMap."""

    change: Change
    """The ConfigMap that it is in."""
    key: str
    document: Document

    @property
    def path(self) -> FieldPath:
        """The path of the document in the ConfigMap."""
        return FieldPath(["data", self.key])

    def value(self, *steps: str | int) -> Any:
        """The value at a path of the document; None if it is missing."""
        return lookup(self.document.value, steps)

    def problem(
        self,
        steps: tuple[str | int, ...],
        message: str,
        remedy: str | None = None,
        *,
        severity: Severity | None = None,
        of_key: bool = False,
    ) -> Problem:
        """A problem at a path of the document, or of the key that ends the path."""
        position = self.document.key_position(steps) if of_key else self.document.line_position(steps)
        place = Place(self.path, position.line, position.column)
        return problem(FieldPath((*self.path, *steps)), message, remedy, severity=severity, place=place)
