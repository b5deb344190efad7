"""Values as Go's `%v` prints them into cel-go's messages."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, TypeGuard

from policies.dra.cel.kinds import shown
from policies.dra.cel.values import Concatenation, Map
from policies.dra.cel.work import spend

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from policies.dra.cel.values import List, Value

__all__ = ["printed"]


class _Text(str):
    """Brackets and commas between values."""

    __slots__ = ()


def printed(value: Value) -> str:
    """A value as messages that Go composes show it: `[1, 2]`, `{a: 1}`, bytes by their numbers."""
    pieces: list[str] = []
    pending: list[Iterator[Value | _Text]] = [iter((value,))]
    while pending:
        for part in pending[-1]:
            if isinstance(part, _Text):
                pieces.append(part)
            elif isinstance(part, Map):
                pending.append(_inside("{", _entries(part), "}"))
                break
            elif _is_list(part):
                pending.append(_inside("[", ((element,) for element in part), "]"))
                break
            else:
                pieces.append(_simple(part))
                spend(len(pieces[-1]))
        else:
            pending.pop()
    return "".join(pieces)


def _is_list(value: Value) -> TypeGuard[List]:
    return isinstance(value, tuple | Concatenation)


def _inside(opening: str, members: Iterable[tuple[Value | _Text, ...]], closing: str) -> Iterator[Value | _Text]:
    yield _Text(opening)
    for index, parts in enumerate(members):
        spend(1)
        yield from chain((_Text(", "),) if index else (), parts)
    yield _Text(closing)


def _entries(entries: Map) -> Iterator[tuple[Value | _Text, ...]]:
    return ((key, _Text(": "), value) for key, value in entries.items())


def _simple(value: Value) -> str:
    if value is None:
        return "0"
    if isinstance(value, bytes):
        spend(len(value))
        return f"[{' '.join(map(str, value))}]"
    return shown(value)
