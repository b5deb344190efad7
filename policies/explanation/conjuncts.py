"""Conjuncts: the conditions of a selector that must all be true, each as a text of its own."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Conjunct", "conjuncts", "without"]

_OPENING = "([{"
_CLOSING = ")]}"
_QUOTES = ("'''", '"""', "'", '"')


@dataclass(frozen=True, slots=True)
class Conjunct:
    """One condition of a selector, by its place in the text."""

    text: str
    start: int
    end: int


def conjuncts(selector: str) -> tuple[Conjunct, ...]:
    """The conditions that `&&` joins at the top of a selector; the selector as one where it cannot be taken apart.

    It cannot where `||` or `?:` stands at the top, where there are comments, or where brackets do not close.
    """
    whole = (_trimmed(selector, 0, len(selector)),)
    cuts: list[int] = []
    depth = position = 0
    while position < len(selector):
        character = selector[position]
        if character in "'\"":
            end = _after_text(selector, position)
            if end is None:
                return whole
            position = end
            continue
        if selector.startswith("//", position):
            return whole
        depth += (character in _OPENING) - (character in _CLOSING)
        two = selector[position : position + 2]
        if depth < 0 or (depth == 0 and (two == "||" or _is_choice(selector, position))):
            return whole
        if depth == 0 and two == "&&":
            cuts.append(position)
            position += 1
        position += 1
    if depth or not cuts:
        return whole
    starts, ends = [0, *(cut + 2 for cut in cuts)], [*cuts, len(selector)]
    parts = tuple(_trimmed(selector, start, end) for start, end in zip(starts, ends, strict=True))
    return parts if all(part.text for part in parts) else whole


def without(selector: str, conjunct: Conjunct) -> str:
    """The selector without one of its conjuncts; empty where it is the only one."""
    return " && ".join(part.text for part in conjuncts(selector) if part != conjunct)


def _trimmed(selector: str, start: int, end: int) -> Conjunct:
    part = selector[start:end]
    left = start + len(part) - len(part.lstrip())
    return Conjunct(part.strip(), left, left + len(part.strip()))


def _is_choice(selector: str, position: int) -> bool:
    """Whether a conditional begins here: optional look-ups have their `?` behind a dot or a bracket."""
    return selector[position] == "?" and not selector[:position].rstrip().endswith((".", "["))


def _after_text(selector: str, position: int) -> int | None:
    """Where a text that begins here has ended; None where it never does."""
    quote = next(quote for quote in _QUOTES if selector.startswith(quote, position))
    raw = position > 0 and selector[position - 1] in "rR"
    position += len(quote)
    while position < len(selector):
        if selector.startswith(quote, position):
            return position + len(quote)
        position += 2 if selector[position] == "\\" and not raw else 1
    return None
