"""Tables: columns of text, with cells of several lines."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import zip_longest
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

__all__ = ["GAP", "Column", "table"]

GAP = 2
"""Blanks between two columns."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table."""

    title: str
    width: int
    """Characters; longer lines of cells stick out."""
    right: bool = False
    """Whether lines end where the column ends, as numbers do."""


def table(columns: Sequence[Column], rows: Sequence[Sequence[Sequence[str]]]) -> Iterator[str]:
    """The lines of a table, its titles first.

    Args:
        columns: From left to right.
        rows: Of each row its cells, of each cell its lines.
    """
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
