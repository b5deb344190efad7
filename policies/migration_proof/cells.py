"""One cell of the table of a proof."""

from __future__ import annotations

from dataclasses import dataclass

from policies.outcome import Certainty, Outcome

__all__ = ["Cell"]


@dataclass(frozen=True, slots=True)
class Cell:
    """What becomes of one property."""

    outcome: Outcome
    sentence: str
    """Why, without a full stop."""
    certainty: Certainty = Certainty.SEEN
    """Predicted if nodes have other devices after the migration, which no ResourceSlice shows yet."""
