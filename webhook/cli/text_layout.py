"""Layout of printed text: tables, wrapped paragraphs, the width of the terminal; JSON."""

from __future__ import annotations

import json
import re
import shutil
import sys
from dataclasses import dataclass
from itertools import accumulate, zip_longest
from textwrap import wrap
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from policies.kubernetes.names import printable
from policies.kubernetes.objects import json_document

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from fractions import Fraction

__all__ = [
    "BAR",
    "GAP",
    "BarPart",
    "Column",
    "bar",
    "column",
    "item",
    "json_text",
    "output_text",
    "paragraph",
    "table",
    "terminal_width",
    "truncation",
    "wrap_line",
]

BAR = 20
"""The usual length of a bar in characters, without its ends."""
GAP = 2
"""Spaces between two columns."""
_WIDTH = 100
"""The width if standard output is not a terminal."""
_NARROWEST, _WIDEST = 60, 140


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table."""

    title: str
    width: int
    """In characters; longer lines stick out."""
    right: bool = False
    """True if the text is aligned at the right, as numbers are."""


def column(title: str, texts: Iterable[str], *, right: bool = False) -> Column:
    """A column as wide as its longest text."""
    return Column(title, max(len(title), *map(len, texts)), right=right)


def table(columns: Sequence[Column], rows: Sequence[Sequence[Sequence[str]]]) -> Iterator[str]:
    """The lines of a table with titles; `rows` has the cells of each row, and each cell has its lines."""
    yield _line(columns, [column.title for column in columns])
    for row in rows:
        for lines in zip_longest(*row, fillvalue=""):
            yield _line(columns, lines)


def _line(columns: Sequence[Column], texts: Sequence[str]) -> str:
    padded = [
        text.rjust(column.width) if column.right else text.ljust(column.width)
        for column, text in zip(columns, texts, strict=True)
    ]
    return (" " * GAP).join(padded).rstrip()


class BarPart(NamedTuple):
    """A part of a bar."""

    amount: Fraction
    character: str
    colour: str


def bar(parts: Sequence[BarPart], whole: Fraction, size: int = BAR) -> str:
    """A bar of parts, with dots for the rest of the whole; it ends with an arrow if they exceed it.

    The parts get no character only if they are zero, and all characters only if they are the whole or more.
    """
    taken = [*accumulate(part.amount for part in parts)]
    scale = max(whole, *taken)
    ends = [_cells(amount, scale, size) for amount in taken]
    runs = (
        click.style(part.character * (end - begin), fg=part.colour) if end > begin else ""
        for part, begin, end in zip(parts, [0, *ends], ends, strict=False)
    )
    return f"[{''.join(runs)}{'.' * (size - ends[-1])}{'>' if taken[-1] > whole else ']'}"


def _cells(amount: Fraction, whole: Fraction, size: int) -> int:
    """The characters for an amount: none for zero, at least one for more, and all only for the whole."""
    if not amount:
        return 0
    return size if amount >= whole else min(max(round(size * amount / whole), 1), size - 1)


def terminal_width() -> int:
    """The columns of the terminal, within limits; a default if standard output is not a terminal."""
    if not sys.stdout.isatty():
        return _WIDTH
    return min(max(shutil.get_terminal_size((_WIDTH, 0)).columns, _NARROWEST), _WIDEST)


def paragraph(text: str, width: int) -> list[str]:
    """The lines of a wrapped text; names with hyphens stay whole, because people copy them."""
    return wrap(printable(text), width, break_on_hyphens=False)


def item(text: str, width: int) -> list[str]:
    """The lines of a wrapped text that begins with a dash."""
    return wrap(printable(text), width, initial_indent="- ", subsequent_indent="  ", break_on_hyphens=False)


def wrap_line(line: str, width: int) -> list[str]:
    """The parts of a line of at most `width` characters; parts after the first are indented.

    The codes of colours have no width.
    """
    if len(click.unstyle(line)) <= width:
        return [line]
    start = len(line) - len(line.lstrip())
    indent = " " * (start + GAP)
    parts, length = [line[:start]], start
    for gap, word in re.findall(r"( *)(\S+)", line[start:]):
        needed = len(gap) + len(click.unstyle(word))
        if length + needed > width and length > len(indent):
            parts.append(indent + word)
            length = len(indent) + needed - len(gap)
        else:
            parts[-1] += gap + word
            length += needed
    return parts


def truncation(total: int, shown: int) -> list[str]:
    """A line that counts what a text omits and JSON has; none if the text is complete."""
    return [f"and {total - shown:,} more; -o json shows all"] if total > shown else []


def json_text(value: Any) -> str:
    """A value as JSON for programs, which people can read too."""
    return json.dumps(value, indent=2, ensure_ascii=False)


def output_text(value: Any, kind: Any) -> str:
    """A value of a type as JSON for programs, with the fields of dataclasses in camel case."""
    return json_text(json_document(value, kind))
