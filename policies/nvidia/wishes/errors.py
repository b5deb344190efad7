"""Errors in the text of a wish."""

from __future__ import annotations

__all__ = ["WishError"]


class WishError(ValueError):
    """A text that cannot be read as a wish; the error's text says why, as a clause without a full stop."""

    def __init__(self, problem: str, remedy: str) -> None:
        """Keep the problem, which continues the name of the annotation, and the remedy, an imperative."""
        super().__init__(problem)
        self.remedy = remedy
