"""Reports as text: the one place that knows the width of the terminal, wraps and colours."""

from __future__ import annotations

import re
import shutil
import sys
from itertools import zip_longest
from typing import TYPE_CHECKING

import click

from policies.kubernetes.names import breakable_pieces, printable
from webhook.pages.report_model import Bar, Bullets, Column, Entry, Lines, More, Paragraph, Span, Table, Tone

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from webhook.pages.report_model import Block, Cell, Section


COLOURS = {
    Tone.GOOD: "green",
    Tone.WARN: "yellow",
    Tone.BAD: "red",
    Tone.UNKNOWN: "magenta",
    Tone.NOTE: "cyan",
    Tone.QUIET: "bright_black",
}
_GAP = 2
"""Spaces between two columns."""
_WIDTH = 100
"""The width if standard output is not a terminal."""
_NARROWEST, _WIDEST = 60, 140
_BAR, _SHORT_BAR, _WIDE = 20, 10, 90
"""The characters of a bar without its ends, in terminals of at least `_WIDE` columns and in others."""
_NAME_WIDTH = 12
"""Of an entry."""


def terminal_width() -> int:
    """The columns of the terminal, within limits; a default if standard output is not a terminal."""
    if not sys.stdout.isatty():
        return _WIDTH
    return min(max(shutil.get_terminal_size((_WIDTH, 0)).columns, _NARROWEST), _WIDEST)


def colour_text(text: str, tone: Tone = Tone.PLAIN, *, bold: bool | None = None) -> str:
    """A text in the colour of its meaning."""
    text = printable(text)
    return click.style(text, fg=COLOURS.get(tone), bold=bold) if tone or bold else text


def colour_diff_line(line: str) -> str:
    """A line of a diff in the colours of git."""
    if line.startswith(("---", "+++")):
        return click.style(line, bold=True)
    colours = {"-": "red", "+": "green", "@": "cyan"}
    return click.style(line, fg=colours[line[0]]) if line[:1] in colours else line


def render_text(sections: Iterable[Section], width: int | None = None) -> str:
    """Sections as text, with a blank line between them; `width` is that of the terminal if None."""
    width = terminal_width() if width is None else width
    return "\n\n".join("\n".join(_section(section, width)) for section in sections if not section.is_empty)


def more_line(count: int) -> str:
    """The line that counts what a text omits and JSON has."""
    return f"and {count:,} more; -o json shows all"


def _section(section: Section, width: int) -> list[str]:
    lines = [line for block in section.blocks for line in _block(block, width)]
    if not section.title:
        return lines
    title = colour_text(section.title, Tone.PLAIN if section.status else section.tone, bold=True)
    status = f"  {colour_text(section.status, section.tone, bold=True)}" if section.status else ""
    return [f"{title}{status}", *lines]


def _block(block: Block, width: int) -> Iterator[str]:
    match block:
        case Paragraph():
            yield from wrap_text(block.text, width)
        case Lines():
            yield from (f"{' ' * block.indent}{printable(text)}".rstrip() for text in block.texts)
        case Bullets():
            for text in block.texts[: block.most]:
                yield from wrap_text(f"- {text}", width)
            yield from _block(More(len(block.texts) - len(block.texts[: block.most])), width)
        case Entry():
            indent = " " * (_NAME_WIDTH + _GAP)
            lines = [line for text in block.texts for line in wrap_text(text, width - len(indent))]
            name = f"{' ' * _GAP}{printable(block.name):<{_NAME_WIDTH}}"
            yield f"{name}{lines[0]}" if lines else name.rstrip()
            yield from (f"{indent}{line}" for line in lines[1:])
        case Table():
            if block.rows:
                yield from (f"{' ' * block.indent}{line}" for line in _table(block, width))
            yield from _block(More(len(block.rows) - len(block.rows[: block.most]) + block.left_out), width)
        case More(number, indent):
            if number:
                yield f"{' ' * indent}{more_line(number)}"


def _table(table: Table, width: int) -> Iterator[str]:
    """The titles and the rows; columns that wrap get their share, or the room that the others leave."""
    columns = table.all_columns
    bar_width = (_BAR if width >= _WIDE else _SHORT_BAR) + 2
    rows = [[_cell(cell, bar_width) for cell in row] for row in table.rows[: table.most]]
    widths = [
        max((len(column.title), *(len(click.unstyle(line)) for row in rows for line in row[place])))
        for place, column in enumerate(columns)
    ]
    room = width - _GAP * (len(columns) - 1)
    for place, column in enumerate(columns):
        if column.share:
            _wrap_column(rows, place, column, max(width // column.share, len(column.title)), widths)
        elif column.shrinks:
            widths[place] = min(max(room - sum(widths) + widths[place], _SHORT_BAR + 2), _BAR + 2)
            for row, given in zip(rows, table.rows, strict=False):
                row[place] = _cell(given[place], widths[place])
    for place, column in enumerate(columns):
        if column.wraps and not column.share:
            left, least = room - sum(widths) + widths[place], width // 3
            if column.whole_words:
                # With the number before it: `3 Tesla-T4`.
                least = max((len(word) for row in rows for line in row[place] for word in line.split()), default=0) + 3
            _wrap_column(rows, place, column, max(left, least), widths)
    titles: list[Sequence[str]] = [[column.title] for column in columns]
    for row in (titles, *rows):
        for texts in zip_longest(*row, fillvalue=""):
            shown = []
            for column, text, size in zip(columns, texts, widths, strict=True):
                blanks = " " * (size - len(click.unstyle(text)))
                shown.append(blanks + text if column.right else text + blanks)
            yield (" " * _GAP).join(shown).rstrip()


def _wrap_column(rows: list[list[Sequence[str]]], place: int, column: Column, size: int, widths: list[int]) -> None:
    """Wrap the texts of a column, which is then as wide as its longest line."""
    for row in rows:
        row[place] = [part for line in row[place] for part in wrap_text(line, size)][: column.most_lines]
    widths[place] = max((len(column.title), *(len(line) for row in rows for line in row[place])))


def _cell(cell: Cell, width: int) -> Sequence[str]:
    """The lines of a cell before they are wrapped; a bar has the width."""
    match cell:
        case str():
            return [printable(cell)]
        case Span(text, tone):
            return [colour_text(text, tone)]
        case Bar():
            return [_bar(cell, width - 2)]
    return [*map(printable, cell)]


def _bar(bar: Bar, size: int) -> str:
    """A part gets no character only if it is zero, and all of them only if it is the whole or more."""
    if bar.whole is None:
        return f"[{'?' * size}]"
    runs, taken, end = "", bar.whole * 0, 0
    scale = max(bar.whole, sum((part.amount for part in bar.parts), taken))
    for part in bar.parts:
        begin, taken = end, taken + part.amount
        if taken:
            end = size if taken >= scale else min(max(round(size * taken / scale), 1), size - 1)
        if end > begin:
            runs += click.style(part.character * (end - begin), fg=COLOURS[part.tone])
    return f"[{runs}{'.' * (size - end)}{'>' if taken > bar.whole else ']'}"


def wrap_text(text: str, width: int) -> list[str]:
    """The lines of a text; a text after a dash is indented below its words.

    A name or an expression that is longer than a line is broken after `/`, `-`, `.`, a comma or an operator.
    """
    return _wrap(printable(text).lstrip(), width, "  " if text.startswith("- ") else "")


def _wrap(text: str, width: int, indent: str) -> list[str]:
    """The parts of a text of at most `width` characters; parts after the first are indented.

    The codes of colours have no width.
    """
    room = width - len(indent)
    lines, line = [], ""
    for blanks, word in re.findall(r"( *)(\S+)", text):
        gap = blanks
        for piece in [word] if _width(word) <= room else _pieces(word, room):
            if line.strip() and _width(line) + len(gap) + _width(piece) > width:
                lines.append(line)
                line, gap = indent, ""
            line += gap + piece
            gap = ""
    return [*lines, line] if line else lines


def _width(text: str) -> int:
    return len(click.unstyle(text)) if "\x1b" in text else len(text)


def _pieces(word: str, room: int) -> Iterator[str]:
    """The pieces of a long word; pieces that are longer than a line are cut, except in colour."""
    for piece in breakable_pieces(word, room):
        if "\x1b" in piece:
            yield piece
        else:
            yield from (piece[start : start + room] for start in range(0, len(piece), room))


def fit_to_terminal(lines: Iterable[str]) -> Iterator[str]:
    """Lines that a report did not lay out, wrapped if standard output is a terminal."""
    if not sys.stdout.isatty():
        yield from lines
        return
    width = terminal_width()
    for line in lines:
        for part in line.split("\n"):
            start = len(part) - len(part.lstrip())
            yield from [part] if _width(part) <= width else _wrap(part, width, " " * (start + _GAP))
