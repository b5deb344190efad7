"""Selection size: how much a pod says of the nodes that it may run on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from policies.kubernetes.nodes import REQUIRED
from policies.kubernetes.paths import lookup

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["MOST_EXPRESSIONS", "MOST_VALUES", "SelectionSize"]

MOST_EXPRESSIONS = 1_000
"""Expressions of the required node affinity, its terms, and labels of the node selector, that are judged in time."""
MOST_VALUES = 10_000
"""Values in these expressions."""


@dataclass(frozen=True, slots=True)
class SelectionSize:
    """What a decision on a pod's nodes takes as long as; the API server lets megabytes pass."""

    labels: int
    """Of the node selector."""
    terms: int
    """Of the required node affinity."""
    expressions: int
    values: int

    @classmethod
    def of(cls, spec: Mapping[str, Any]) -> SelectionSize:
        """Count, in a pod's spec."""
        terms = lookup(spec, (*REQUIRED, "nodeSelectorTerms")) or []
        expressions = [
            item for term in terms for field in ("matchExpressions", "matchFields") for item in term.get(field) or []
        ]
        values = sum(len(item.get("values") or []) for item in expressions)
        return cls(len(spec.get("nodeSelector") or {}), len(terms), len(expressions), values)
