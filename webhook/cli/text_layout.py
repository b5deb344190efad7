"""Printed output: tables, wrapped paragraphs, the width of the terminal; JSON, YAML and diffs."""

from __future__ import annotations

import json
import re
import shutil
import sys
from dataclasses import dataclass
from difflib import unified_diff
from itertools import accumulate, zip_longest
from textwrap import wrap
from typing import TYPE_CHECKING, Any, NamedTuple

import click
import yaml

from policies.kubernetes.names import printable
from policies.kubernetes.objects import json_document
from policies.kubernetes.yaml_events import plain

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from fractions import Fraction

    from policies.kubernetes.objects import Object


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


def fitted_columns(titles: Sequence[str], rows: Sequence[Sequence[str]], right: Sequence[str] = ()) -> list[Column]:
    """Columns as wide as their texts; `right` has the titles of those that are aligned at the right."""
    return [
        column(title, (click.unstyle(row[place]) for row in rows), right=title in right)
        for place, title in enumerate(titles)
    ]


def table(columns: Sequence[Column], rows: Iterable[Sequence[Sequence[str]]]) -> Iterator[str]:
    """The lines of a table with titles; a row has its cells, and a cell is a text or its lines."""
    titles = [column.title for column in columns]
    for row in (titles, *rows):
        for texts in zip_longest(*([cell] if isinstance(cell, str) else cell for cell in row), fillvalue=""):
            cells = []
            for column, text in zip(columns, texts, strict=True):
                blanks = " " * (column.width - len(click.unstyle(text)))
                cells.append(blanks + text if column.right else text + blanks)
            yield (" " * GAP).join(cells).rstrip()


def sentence_table(
    columns: Sequence[Column],
    title: str,
    rows: Sequence[tuple[Sequence[str], str]],
    width: int,
    least: int,
    most_lines: int | None = None,
) -> Iterator[str]:
    """A table that ends with a column of wrapped sentences, in the room that is left.

    Args:
        columns: The other columns.
        title: The title of the last column.
        rows: The other cells of each row, and its sentence.
        width: The width of the table.
        least: The least width of the last column.
        most_lines: The most lines of a sentence; all if None.
    """
    room = max(width - sum(each.width + GAP for each in columns), least)
    cells = ([*others, paragraph(sentence, room)[:most_lines]] for others, sentence in rows)
    yield from table([*columns, Column(title, room)], cells)


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


_Base: Any = yaml.CSafeDumper if yaml.__with_libyaml__ else yaml.SafeDumper


class _Dumper(_Base):  # type: ignore[misc]
    def ignore_aliases(self, data: Any) -> bool:
        """Write shared parts out each time, because people compare and edit the text."""
        return True


def _text(dumper: Any, text: str) -> yaml.ScalarNode:
    """A string, quoted if Go's parser would read another type (`y`, `1e6`, `0o17`)."""
    style = "|" if "\n" in text else None if isinstance(plain(text), str) else '"'
    node: yaml.ScalarNode = dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)
    return node


_Dumper.add_representer(str, _text)


def dump(document: Object) -> str:
    """One object as YAML, with its fields in order."""
    text: str = yaml.dump(document, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=1_000_000)
    return text


def dump_all(documents: Iterable[Object]) -> str:
    """Several objects as YAML documents."""
    return "---\n".join(map(dump, documents))


def diff(before: Object, after: Object, name: str) -> list[str]:
    """The lines of a unified diff of an object; empty if nothing changed."""
    old, new = dump(before).splitlines(), dump(after).splitlines()
    return list(unified_diff(old, new, f"{name} before admission", f"{name} as admitted", lineterm=""))


def colour_line(line: str) -> str:
    """A line of a diff in the colours of git."""
    if line.startswith(("---", "+++")):
        return click.style(line, bold=True)
    colours = {"-": "red", "+": "green", "@": "cyan"}
    return click.style(line, fg=colours[line[0]]) if line[:1] in colours else line
