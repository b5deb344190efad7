"""Rules of placement, GA4xx: what a pod says of the GPU it wants, and what the nodes have."""

from policies.placement.rules.kept_wishes import BY_NAME, NO_EFFECT
from policies.placement.rules.nodes import NOT_ADVERTISED, ONE_SHARE, ONLY_SHARES
from policies.placement.rules.wishes import (
    CONFLICTING,
    CONTRADICTORY,
    MALFORMED,
    MISSPELT,
    NO_WISH,
    UNSATISFIED,
)

__all__ = [
    "BY_NAME",
    "CONFLICTING",
    "CONTRADICTORY",
    "IMPOSSIBLE",
    "MALFORMED",
    "MISSPELT",
    "NOT_ADVERTISED",
    "NO_EFFECT",
    "NO_WISH",
    "ONE_SHARE",
    "ONLY_SHARES",
    "UNSATISFIED",
]

IMPOSSIBLE = frozenset({CONTRADICTORY.id, CONFLICTING.id})
"""The rules on wishes that can never be met."""
