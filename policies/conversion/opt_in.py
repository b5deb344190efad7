"""The labels by which a namespace opts in and chooses a strategy."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

from policies.kubernetes.names import DRA_LABEL, STRATEGY_LABEL
from policies.kubernetes.objects import FieldPath, lookup
from policies.kubernetes.phrases import printable
from policies.kubernetes.view import UNKNOWN
from policies.rules.decision import Severity
from policies.rules.registry import rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.kubernetes.view import ClusterView
    from policies.rules.decision import Finding

__all__ = ["NAMESPACE", "STRATEGIES", "Mode", "mode_of", "strategy_of", "strategy_problems"]

NAMESPACE_UNKNOWN = rule(
    "GA324",
    "The namespace of a pod must be known",
    default=Severity.WARN,
    why="""
    Conversion is chosen by a label on the namespace. Offline, the namespace may be in none of the files; the pod is
    then reviewed as if it did not convert, which may not be what the cluster will do.""",
    remedy="add the Namespace to the files, or give the cluster's with --cluster",
    source="docs/conversion.md",
    shared_cause=True,
    offline=True,
)


NAMESPACE = FieldPath(["metadata", "namespace"])
"""The path in a pod of findings that its namespace causes."""

STRATEGIES = ("template", "rename", "leave", "auto")


class Mode(Enum):
    """The conversion of GPU pods in a namespace: on, preview, off or unknown."""

    ENABLED = "enabled"
    PREVIEW = "preview"
    OFF = "off"
    UNKNOWN = "unknown"


def mode_of(namespace: str, view: ClusterView) -> Mode:
    """The mode that a namespace's label sets; off for every value but `enabled` and `preview`."""
    found = view.get("Namespace", namespace)
    if found is UNKNOWN:
        return Mode.UNKNOWN
    label = lookup(found, ("metadata", "labels", DRA_LABEL))
    return Mode(label) if label in ("enabled", "preview") else Mode.OFF


def strategy_of(namespace: str, view: ClusterView) -> str:
    """The value of the strategy label, by default `template`; may name a strategy that does not exist.

    `template` also while the namespace is unknown, because it works in every cluster that has DRA.
    """
    label = lookup(view.get("Namespace", namespace), ("metadata", "labels", STRATEGY_LABEL))
    return "template" if label is None else str(label)


STRATEGY = rule(
    "GA323",
    "The conversion strategy of a namespace must exist",
    default=Severity.DENY,
    why="""
    The label gpu-admission.io/dra-strategy chooses how pods come to their GPUs by DRA: template (the default), rename,
    leave or auto. A pod is not converted by another strategy than the one that was chosen.""",
    remedy="set gpu-admission.io/dra-strategy on the namespace to one of them, or remove the label",
    source="docs/conversion.md",
)


def strategy_problems(namespace: str, view: ClusterView) -> Iterator[Finding]:
    """A finding if the strategy does not exist; no other strategy is used in its place."""
    strategy = strategy_of(namespace, view)
    if strategy not in STRATEGIES:
        known = f"{', '.join(STRATEGIES[:-1])} and {STRATEGIES[-1]}"
        text = f'namespace "{namespace}" has the label {STRATEGY_LABEL}: {printable(strategy)}; there are {known}'
        yield STRATEGY.finding(NAMESPACE, text)
