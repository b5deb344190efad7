"""Lists and maps as texts, written without recursion: they may be nested as deep as one likes."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, TypeGuard

from policies.dra.cel.steps import spend_steps
from policies.dra.cel.values import Concatenation, Map

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from policies.dra.cel.values import List, Value

__all__ = ["Mark", "is_list", "nested_text"]


class Mark(str):
    """Brackets, commas and the like between values."""

    __slots__ = ()


def is_list(value: Value) -> TypeGuard[List]:
    """Whether a value is a list."""
    return isinstance(value, tuple | Concatenation)


def nested_text(
    value: Value,
    piece: Callable[[Value | Mark], str],
    entries: Callable[[Map], Iterable[tuple[Value | Mark, ...]]],
) -> str:
    """A value with all that is inside it.

    Args:
        value: The value.
        piece: The text of a mark, or of a value that is neither list nor map; pays for its work.
        entries: The parts of each entry of a map, in order.
    """
    pieces: list[str] = []
    pending: list[Iterator[Value | Mark]] = [iter((value,))]
    while pending:
        for part in pending[-1]:
            if isinstance(part, Map):
                pending.append(_inside("{", entries(part), "}"))
                break
            if is_list(part):
                pending.append(_inside("[", ((element,) for element in part), "]"))
                break
            pieces.append(piece(part))
        else:
            pending.pop()
    return "".join(pieces)


def _inside(opening: str, members: Iterable[tuple[Value | Mark, ...]], closing: str) -> Iterator[Value | Mark]:
    yield Mark(opening)
    for index, parts in enumerate(members):
        spend_steps(1)
        yield from chain((Mark(", "),) if index else (), parts)
    yield Mark(closing)
