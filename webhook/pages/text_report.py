"""Reports as text: the one place that knows the width of the terminal, wraps and colours."""

from __future__ import annotations

import os
import re
import sys
from itertools import chain, zip_longest
from typing import TYPE_CHECKING, TextIO

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
"""The width if a stream is not a terminal."""
_NARROWEST, _WIDEST = 40, 140
_BAR = 22
"""The characters of a bar in terminals of at least `_WIDE` columns."""
_SHORT_BAR = 12
"""The characters of a bar in narrower terminals."""
_WIDE = 90
_NAME_WIDTH = 12
"""Of an entry."""
_WHOLE_WORD = 24
"""Words of at most this length are not broken while all columns have room for theirs."""
_PIECE = 12
"""Pieces of at most this length are never broken."""


def terminal_width(stream: TextIO | None = None) -> int | None:
    """The columns of a terminal, within limits; None if standard output, or `stream`, is none.

    Python has no standard output if the caller has closed it.
    """
    stream = sys.stdout if stream is None else stream
    if stream is None or not stream.isatty():
        return None
    if (environment := os.environ.get("COLUMNS", "")).isdecimal() and int(environment):
        return _within_limits(int(environment))
    try:
        return _within_limits(os.get_terminal_size(stream.fileno()).columns or _WIDTH)
    except (OSError, ValueError):
        return _WIDTH


def _within_limits(columns: int) -> int:
    return min(max(columns, _NARROWEST), _WIDEST)


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
    """Sections as text, with a blank line between them.

    `width` is that of the terminal if None. If standard output is not a terminal, `Lines` are not wrapped.
    """
    lines_width = width or terminal_width()
    return "\n\n".join(
        "\n".join(_section(section, lines_width or _WIDTH, lines_width)) for section in sections if not section.is_empty
    )


def more_line(count: int) -> str:
    """The line that counts what a text omits and JSON has."""
    return f"and {count:,} more; -o json shows all"


def _section(section: Section, width: int, lines_width: int | None) -> list[str]:
    lines = [line for block in section.blocks for line in _block(block, width, lines_width)]
    if not section.title:
        return lines
    tone = Tone.PLAIN if section.status else section.tone
    title = wrap_text(section.title, width)
    shown = [colour_text(line, tone, bold=True) for line in title]
    if section.status:
        status = colour_text(section.status, section.tone, bold=True)
        if len(title[-1]) + _GAP + len(section.status) <= width:
            shown[-1] += f"{' ' * _GAP}{status}"
        else:
            shown.append(status)
    return [*shown, *lines]


def _block(block: Block, width: int, lines_width: int | None) -> Iterator[str]:
    match block:
        case Paragraph():
            yield from wrap_text(block.text, width)
        case Lines():
            texts = (f"{' ' * block.indent}{printable(text)}".rstrip() for text in block.texts)
            yield from texts if block.is_copied or lines_width is None else wrap_lines(texts, lines_width)
        case Bullets():
            for text in block.texts[: block.most]:
                yield from wrap_text(f"- {text}", width)
            yield from _block(More(len(block.texts) - len(block.texts[: block.most])), width, lines_width)
        case Entry():
            indent = " " * (_NAME_WIDTH + _GAP)
            lines = [line for text in block.texts for line in wrap_text(text, width - len(indent))]
            name = f"{' ' * _GAP}{printable(block.name):<{_NAME_WIDTH}}"
            yield f"{name}{lines[0]}" if lines else name.rstrip()
            yield from (f"{indent}{line}" for line in lines[1:])
        case Table():
            if block.rows:
                yield from (f"{' ' * block.indent}{line}" for line in _table(block, width - block.indent))
            more = len(block.rows) - len(block.rows[: block.most]) + block.left_out
            yield from _block(More(more), width, lines_width)
        case More(number, indent):
            if number:
                yield f"{' ' * indent}{more_line(number)}"


def _table(table: Table, width: int) -> Iterator[str]:
    """The titles and the rows; columns are wrapped if not all have room, the widest first.

    If there is no room for whole words of all columns, words are broken between their parts. In terminals that are too
    narrow for that, each row is a list of its cells.
    """
    columns, rows = table.all_columns, table.rows[: table.most]
    texts = [[_texts(row[place]) for row in rows] for place in range(len(columns))]
    sizes = _column_sizes(columns, texts, width)
    if sizes is None:
        yield from _list_rows(columns, rows, width)
        return
    titles: Sequence[Cell] = [column.title for column in columns]
    cells = [[_wrapped_cell(*each) for each in zip(row, columns, sizes, strict=True)] for row in (titles, *rows)]
    widths = [max(_width(line) for row in cells for line in row[place] or [""]) for place in range(len(columns))]
    for row in cells:
        for lines in zip_longest(*row, fillvalue=""):
            shown = []
            for column, line, size in zip(columns, lines, widths, strict=True):
                blanks = " " * (size - _width(line))
                shown.append(blanks + line if column.right else line + blanks)
            yield (" " * _GAP).join(shown).rstrip()


def _column_sizes(columns: Sequence[Column], texts: Sequence[Sequence[Sequence[str]]], width: int) -> list[int] | None:
    """The most characters of a line of each column; None if there is no room for them.

    Args:
        columns: The columns.
        texts: The texts of each column, by row; a bar has none.
        width: The width of the table.
    """
    room = width - _GAP * (len(columns) - 1)
    longest = [max(map(len, (column.title, *chain(*cells)))) for column, cells in zip(columns, texts, strict=True)]
    bars = [place for place, cells in enumerate(texts) if cells and not any(cells)]
    for place in bars:
        others = sum(longest) - longest[place]
        longest[place] = max(min(room - others, _BAR if width >= _WIDE else _SHORT_BAR), _SHORT_BAR)
    if sum(longest) <= room:
        return longest
    shares = [
        min(size, max(width // column.share, len(column.title))) if column.share else size
        for column, size in zip(columns, longest, strict=True)
    ]
    for most in (_WHOLE_WORD, _PIECE):
        least = []
        for place, (column, cells) in enumerate(zip(columns, texts, strict=True)):
            words = {len(word) for text in chain(*cells) for word in text.split()}
            size = max((_PIECE, *map(len, column.title.split()), *(word for word in words if word <= most)))
            least.append(longest[place] if column.right or place in bars else min(size, longest[place]))
        if sum(least) <= room:
            wanted = [max(share, size) for share, size in zip(shares, least, strict=True)]
            return _fitting_sizes(wanted, least, room)
    return None


def _fitting_sizes(wanted: Sequence[int], least: Sequence[int], room: int) -> list[int]:
    """The sizes of columns that have room together: the widest are cut, but not below the least."""

    def sizes(most: int) -> list[int]:
        return [min(size, max(needed, most)) for size, needed in zip(wanted, least, strict=True)]

    return next(found for most in range(room, -1, -1) if sum(found := sizes(most)) <= room)


def _list_rows(columns: Sequence[Column], rows: Sequence[Sequence[Cell]], width: int) -> Iterator[str]:
    for row in rows:
        for number, (column, cell) in enumerate(zip(columns, row, strict=True)):
            indent = " " * (_GAP if number else 0)
            title = f"{indent}{column.title}: " if column.title else indent
            for line in _wrapped_cell(cell, column, max(width - len(title), _PIECE)) or [""]:
                yield f"{title}{line}".rstrip()
                title = " " * (len(indent) + _GAP)


def _texts(cell: Cell) -> Sequence[str]:
    """The lines of a cell before they are wrapped and coloured; a bar has none."""
    match cell:
        case str() | Span():
            return [printable(cell if isinstance(cell, str) else cell.text)]
        case Bar():
            return []
    return [*map(printable, cell)]


def _wrapped_cell(cell: Cell, column: Column, size: int) -> Sequence[str]:
    """The lines of a cell, of at most `size` characters each."""
    if isinstance(cell, Bar):
        return [_bar(cell, size - 2)]
    lines = [part for line in _texts(cell) for part in ([line] if len(line) <= size else wrap_text(line, size))]
    tone = cell.tone if isinstance(cell, Span) else Tone.PLAIN
    return [colour_text(line, tone) for line in lines[: column.most_lines]]


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


def fit_to_terminal(lines: Iterable[str], stream: TextIO | None = None) -> Iterator[str]:
    """Lines that a report did not lay out, wrapped if the stream, or standard output, is a terminal."""
    width = terminal_width(stream)
    return iter(lines) if width is None else wrap_lines(lines, width)


def print_lines(lines: Iterable[str], *, err: bool = False) -> None:
    """Print lines that a report did not lay out; terminals get them wrapped."""
    for line in fit_to_terminal(lines, sys.stderr if err else None):
        click.echo(line, err=err)


def wrap_lines(lines: Iterable[str], width: int) -> Iterator[str]:
    """Lines of at most `width` characters; the parts of a longer line are indented below it."""
    for line in lines:
        for part in line.split("\n"):
            if _width(part) <= width:
                yield part
                continue
            # Lines that begin behind the middle of a narrow terminal, such as nested YAML, begin there.
            blanks = " " * min(len(part) - len(part.lstrip()), width // 2)
            yield from _wrap(f"{blanks}{part.lstrip()}", width, f"{blanks}{' ' * _GAP}")
