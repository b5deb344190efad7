"""How a namespace opts in, and which strategy it chooses."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

from policies.conversion.rules import STRATEGY
from policies.kubernetes.paths import FieldPath, lookup
from policies.view import UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.decision import Finding
    from policies.view import ClusterView

__all__ = ["OPT_IN", "Mode", "mode_of", "strategy_problems"]

OPT_IN = "gpu-admission.io/dra"
"""The label that opts a namespace in, and with the value `disabled` a pod out."""

_STRATEGY = "gpu-admission.io/dra-strategy"


class Mode(Enum):
    """What a namespace wants done with its GPU pods."""

    ENABLED = "enabled"
    PREVIEW = "preview"
    OFF = "off"
    UNKNOWN = "unknown"


def mode_of(namespace: str, view: ClusterView) -> Mode:
    """The mode that a namespace's label sets; off for every value but `enabled` and `preview`."""
    found = view.get("Namespace", namespace)
    if found is UNKNOWN:
        return Mode.UNKNOWN
    label = lookup(found, ("metadata", "labels", OPT_IN))
    return Mode(label) if label in ("enabled", "preview") else Mode.OFF


def strategy_problems(namespace: str, view: ClusterView) -> Iterator[Finding]:
    """A strategy that this version does not have; nothing else is done in its stead."""
    strategy = lookup(view.get("Namespace", namespace), ("metadata", "labels", _STRATEGY))
    if strategy not in (None, "template"):
        yield STRATEGY.finding(
            FieldPath(["metadata", "namespace"]),
            f'namespace "{namespace}" has the label {_STRATEGY}: {strategy}, and this version knows the strategy template',
        )
