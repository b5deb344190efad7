"""One cell of the table of a proof."""

from __future__ import annotations

from dataclasses import dataclass

from policies.outcome import Outcome  # noqa: TC001 - pydantic reads the annotation

__all__ = ["Cell"]


@dataclass(frozen=True, slots=True)
class Cell:
    """What becomes of one property."""

    outcome: Outcome
    sentence: str
    """Why, without a full stop."""
