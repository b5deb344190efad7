"""Rules of placement, GA4xx: what a pod says of the GPU it wants, and what the nodes have."""

from policies.placement.rules.nodes import NOT_ADVERTISED, ONE_SHARE, ONLY_SHARES
from policies.placement.rules.wishes import (
    BY_NAME,
    CONFLICTING,
    CONTRADICTORY,
    MALFORMED,
    MISSPELT,
    NO_EFFECT,
    NO_WISH,
    UNSATISFIED,
)

__all__ = [
    "BY_NAME",
    "CONFLICTING",
    "CONTRADICTORY",
    "MALFORMED",
    "MISSPELT",
    "NOT_ADVERTISED",
    "NO_EFFECT",
    "NO_WISH",
    "ONE_SHARE",
    "ONLY_SHARES",
    "UNSATISFIED",
]
