"""Conjuncts: the conditions of a selector that must all be true, each as a text of its own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from policies.caches import remember
from policies.dra.cel.parser.tokens import tokens_of
from policies.work import count_work

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from policies.dra.cel.parser.tokens import Token

__all__ = ["Conjunct", "split_conjuncts", "without_conjunct"]

_CLOSING = {"(": ")", "[": "]", "{": "}"}
_LOOSER = frozenset({"||", "?"})
"""Operators that bind less than `&&` does."""
_MOST_BYTES = 4 << 20
"""Of all selectors that are kept, taken apart."""


@dataclass(frozen=True, slots=True)
class Conjunct:
    """One condition of a selector, by its place in the text."""

    text: str
    start: int
    end: int


def _weight(selector: str, found: tuple[Conjunct, ...]) -> int:
    return 2 * len(selector) + 200 * len(found)


@remember(_MOST_BYTES, _weight)
def split_conjuncts(selector: str) -> tuple[Conjunct, ...]:
    """The conditions that `&&` joins at the top of a selector, or inside of parentheses there.

    Returns the whole selector as one conjunct if `||` or `?:` is at the top, or if it is not an expression.
    """
    count_work(len(selector))
    read = tokens_of(selector)
    tokens = read.tokens[:-1]
    closings = _closings(tokens)
    if read.unrecognized or closings is None:
        return (_conjunct(selector, 0, len(selector)),)
    spans: list[tuple[int, int]] = []
    pending = [(0, len(tokens))]
    while pending:
        first, end = pending.pop()
        parts = _parts(tokens, closings, *_inside(tokens, closings, first, end))
        if len(parts) > 1:
            pending += reversed(parts)
        else:
            spans.append((first, end))
    if any(first == end for first, end in spans):
        return (_conjunct(selector, 0, len(selector)),)
    return tuple(
        _conjunct(selector, tokens[first].offset, tokens[end - 1].offset + len(tokens[end - 1].text))
        for first, end in spans
    )


def without_conjunct(selector: str, conjunct: Conjunct) -> str:
    """The selector without one of its conjuncts; empty where it is the only one."""
    return " && ".join(part.text for part in split_conjuncts(selector) if part != conjunct)


def _conjunct(selector: str, start: int, end: int) -> Conjunct:
    text = selector[start:end].strip()
    begins = start + selector[start:end].find(text)
    return Conjunct(text, begins, begins + len(text))


def _closings(tokens: Sequence[Token]) -> dict[int, int] | None:
    """The token that closes each bracket, by the token that opens it; None if brackets do not match."""
    found: dict[int, int] = {}
    opened: list[int] = []
    for position, token in enumerate(tokens):
        if token.kind in _CLOSING:
            opened.append(position)
        elif token.kind in _CLOSING.values():
            if not opened or _CLOSING[tokens[opened[-1]].kind] != token.kind:
                return None
            found[opened.pop()] = position
    return None if opened else found


def _inside(tokens: Sequence[Token], closings: dict[int, int], first: int, end: int) -> tuple[int, int]:
    """The span without the parentheses that are around the whole of it."""
    while first < end and tokens[first].kind == "(" and closings[first] == end - 1:
        first, end = first + 1, end - 1
    return first, end


def _parts(tokens: Sequence[Token], closings: dict[int, int], first: int, end: int) -> list[tuple[int, int]]:
    """The spans between the `&&` of a span; itself where something binds less."""
    begins, found = first, list[tuple[int, int]]()
    for position in _top(closings, first, end):
        kind = tokens[position].kind
        if kind in _LOOSER and not _is_optional(tokens, position):
            return [(first, end)]
        if kind == "&&":
            found.append((begins, position))
            begins = position + 1
    return [*found, (begins, end)]


def _top(closings: dict[int, int], first: int, end: int) -> Iterator[int]:
    """The positions of a span that are in no brackets inside of it."""
    position = first
    while position < end:
        yield position
        position = closings.get(position, position) + 1


def _is_optional(tokens: Sequence[Token], position: int) -> bool:
    """True if a `?` is that of an optional look-up, which stands behind a dot."""
    return tokens[position].kind == "?" and position > 0 and tokens[position - 1].kind == "."
