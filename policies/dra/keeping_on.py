"""Keeping on: long work asks between its steps whether its result is still wanted."""

from __future__ import annotations

from collections.abc import Callable

__all__ = ["KeepOn", "for_ever"]

KeepOn = Callable[[], None]
"""Returns for the work to go on, and raises an exception of the asker's own to stop it.

Between two calls there is one evaluation or compilation of a selector at most, or a few milliseconds of other work.
"""


def for_ever() -> None:
    """Nobody stops the work."""
