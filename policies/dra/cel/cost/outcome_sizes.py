"""What the cost of a call goes by while an expression is evaluated: how large values turned out to be."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from policies.dra.cel.cost.size_estimates import REGEX_FACTOR, STRING_FACTOR, factored, uint64, wrapped
from policies.dra.cel.errors import CelRuntimeError
from policies.dra.cel.libraries.cidrs import CIDR
from policies.dra.cel.libraries.ips import IP
from policies.dra.cel.values import Absent, Concatenation, Map, Optional, Value

__all__ = ["Charge", "Outcome", "held_size", "matching", "outcome_size"]

Outcome = Value | CelRuntimeError
"""What an argument or a call came to."""

Charge = Callable[[Sequence[Outcome], Outcome], int]
"""The cost of a call with these arguments and this result."""


def outcome_size(outcome: Outcome) -> int:
    """What `size` tells of what has one, and of addresses in bytes; 1 for everything else, failures included."""
    if isinstance(outcome, str | bytes | tuple | Map):
        return len(outcome)
    if isinstance(outcome, Concatenation):
        return outcome.size
    if isinstance(outcome, IP):
        return outcome.bits // 8
    if isinstance(outcome, CIDR):
        return -(-outcome.length // 8)
    return 1


def held_size(outcome: Outcome) -> int:
    """As `outcome_size`, but an optional counts for what it holds."""
    while isinstance(outcome, Optional) and not isinstance(outcome.value, Absent):
        outcome = outcome.value
    return outcome_size(outcome)


def matching(subject_size: int, pattern_size: int) -> int:
    """The cost of applying a regular expression; a subject counts for one character more than it has."""
    subject_cost = uint64(math.ceil((1.0 + float(subject_size)) * STRING_FACTOR))
    return wrapped(subject_cost * factored(pattern_size, REGEX_FACTOR))
