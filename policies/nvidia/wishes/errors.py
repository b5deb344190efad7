"""What is wrong with the text of a wish."""

from __future__ import annotations

__all__ = ["WishError"]


class WishError(ValueError):
    """A text that is no wish; the error's own text says what is wrong, as a clause without a full stop."""

    def __init__(self, problem: str, remedy: str) -> None:
        """Args: what is wrong, to stand behind the name of the annotation; what to do, as an imperative."""
        super().__init__(problem)
        self.remedy = remedy
