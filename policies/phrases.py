"""Phrases of messages: lists and ranges of names, counts and amounts, and verbs that agree with them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from policies.kubernetes.printable import printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from fractions import Fraction

__all__ = [
    "format_amount",
    "format_count",
    "format_list",
    "format_ranges",
    "inflect",
    "number_key",
    "shorten",
    "with_capital",
    "with_full_stop",
]

_NUMBERED = re.compile(r"(.*?)(0|[1-9][0-9]{0,8})")
_MOST = 5
_LONGEST = 120
_PLURALS = {
    "is": "are",
    "has": "have",
    "does": "do",
    "fails": "fail",
    "holds": "hold",
    "lacks": "lack",
    "loses": "lose",
    "needs": "need",
    "runs": "run",
    "shares": "share",
}


def format_count(count: int, thing: str) -> str:
    """`1 node`, `2 nodes`, `5,000 nodes`."""
    return f"{count:,} {thing}{'' if count == 1 else 's' if not thing.endswith('s') else 'es'}"


def format_amount(amount: Fraction | int | None) -> str:
    """An amount of devices, parts of a device as a fraction: `2 1/4`; `?` if it is unknown."""
    if amount is None:
        return "?"
    whole, part = divmod(amount, 1)
    return f"{whole:,}" if not part else f"{whole:,} {part}" if whole else str(part)


def format_list(items: Sequence[str], most: int = _MOST) -> str:
    """`a`, `a and b`, `a, b and c`; beyond `most` items, the first ones and how many more there are."""
    if len(items) > most:
        return f"{', '.join(items[:most])} and {len(items) - most:,} more"
    return items[0] if len(items) == 1 else f"{', '.join(items[:-1])} and {items[-1]}" if items else "none"


def format_ranges(names: Iterable[str]) -> str:
    """Names with runs of numbers as ranges, `gpu-0..gpu-3 and gpu-6`; at most five."""
    runs = _runs(names)
    parts = [name for run in runs for name in _range(run)]
    if len(parts) <= _MOST:
        return format_list(parts)
    kept: list[str] = []
    for number, run in enumerate(runs):
        if len(kept) + len(_range(run)) >= _MOST:
            rest = sum(map(len, runs[number:]))
            return f"{', '.join(kept)} and {rest:,} more" if kept else f"{printable(run[0])} and {rest - 1:,} more"
        kept += _range(run)
    return format_list(kept)


def number_key(name: str) -> tuple[str, int, str]:
    """A sort key that puts `gpu-2` before `gpu-10`.

    It has the stem of a name and the number at its end, or -1 if there is none. Leading zeros, and digits before the last
    nine, belong to the stem.
    """
    match = _NUMBERED.fullmatch(name)
    return (match[1], int(match[2]), "") if match else (name, -1, name)


def inflect(text: str, count: int) -> str:
    """A predicate in the singular, `has no memory`, for `count` subjects: `have no memory`.

    Predicates may follow each other after colons: `fails: has no memory`.
    """
    if count == 1:
        return text
    return ": ".join(_plural(part) for part in text.split(": "))


def shorten(text: str, longest: int = _LONGEST) -> str:
    """A text on one line, at most `longest` characters, by default 120."""
    line = printable(" ".join(text.split()))
    return line if len(line) <= longest else f"{line[: longest - 3]}..."


def with_capital(text: str) -> str:
    """A text with a capital, unless its first word looks like a name."""
    return f"{text[0].upper()}{text[1:]}" if text.partition(" ")[0].isalpha() else text


def with_full_stop(text: str) -> str:
    """A text with a full stop, unless it was cut or is a question."""
    return text if text.endswith(("...", "?")) else f"{text}."


def _plural(text: str) -> str:
    verb, space, rest = text.partition(" ")
    return f"{_PLURALS.get(verb, verb)}{space}{rest}"


def _runs(names: Iterable[str]) -> list[list[str]]:
    """Names in the order of their numbers, in runs of consecutive numbers."""
    runs: list[list[str]] = []
    following: tuple[str, int] | None = None
    for (stem, number, _), name in sorted((number_key(name), name) for name in names):
        if following == (stem, number):
            runs[-1].append(name)
        else:
            runs.append([name])
        following = (stem, number + 1) if number >= 0 else None
    return runs


def _range(run: list[str]) -> list[str]:
    """Three names or more in a row are written as a range."""
    shown = [printable(name) for name in run]
    return [f"{shown[0]}..{shown[-1]}"] if len(run) > 2 else shown
