"""One cell of the table of a proof."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from policies.comparison import Outcome

__all__ = ["Cell"]


class Cell(NamedTuple):
    """What becomes of one property of a workload."""

    outcome: Outcome
    sentence: str
    """Why, without a full stop."""
