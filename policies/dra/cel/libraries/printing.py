"""Values as Go's `%v` prints them into cel-go's messages."""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.dra.cel.kinds import shown
from policies.dra.cel.libraries.nested_texts import Mark, nested_text
from policies.dra.cel.steps import spend_steps

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.dra.cel.values import Map, Value

__all__ = ["printed"]


def printed(value: Value) -> str:
    """A value as messages that Go composes show it: `[1, 2]`, `{a: 1}`, bytes by their numbers."""
    return nested_text(value, _piece, _entries)


def _piece(part: Value | Mark) -> str:
    if isinstance(part, Mark):
        return part
    text = _simple(part)
    spend_steps(len(text))
    return text


def _entries(entries: Map) -> Iterator[tuple[Value | Mark, ...]]:
    return ((key, Mark(": "), value) for key, value in entries.items())


def _simple(value: Value) -> str:
    if value is None:
        return "0"
    if isinstance(value, bytes):
        spend_steps(len(value))
        return f"[{' '.join(map(str, value))}]"
    return shown(value)
