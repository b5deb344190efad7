"""Misspelt names: which of the known ones was meant."""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["closest", "write_closest"]

Otherwise = TypeVar("Otherwise", str, None)


def closest(text: Any, known: Iterable[str], *, likeness: float = 0.7) -> str | None:
    """The known name that was probably meant, if any is near.

    Args:
        text: what was written; YAML makes booleans of `on` and `off`.
        known: the names that there are.
        likeness: how much the names must have in common, from 0 to 1; high where nothing else tells that one is meant.
    """
    known = tuple(known)
    if not isinstance(text, str):
        return {True: "on", False: "off"}.get(text) if {"on", "off"} <= set(known) else None
    by_lower = {name.lower(): name for name in known}
    matches = get_close_matches(text.lower(), by_lower, n=1, cutoff=likeness)
    return by_lower[matches[0]] if matches else None


def write_closest(text: Any, known: Iterable[str], otherwise: Otherwise) -> str | Otherwise:
    """A remedy: to write the known name that was probably meant, or something else if none is near."""
    guess = closest(text, known)
    return f'write "{guess}"' if guess else otherwise
