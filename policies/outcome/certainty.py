"""How sure an answer is."""

from __future__ import annotations

from enum import StrEnum

__all__ = ["Certainty"]


class Certainty(StrEnum):
    """What an answer rests on."""

    SEEN = "seen"
    """On what the cluster shows."""
    ASSUMED = "assumed"
    """Also on assumptions about facts that are unknown, which could turn it; the remarks name them."""
    PREDICTED = "predicted"
    """Also on resources, labels or devices that nodes do not show yet."""
    UNKNOWN = "unknown"
    """There is no answer; the sentence says why."""
