"""The report model: sections of paragraphs, lists and tables as plain values without width or colour.

Commands and pages fill it; `text_report` writes it for terminals, and `rendering` as HTML.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Sequence
    from fractions import Fraction


class Tone(StrEnum):
    """The meaning of a text: a colour in terminals, a class in HTML."""

    PLAIN = ""
    GOOD = "good"
    WARN = "warn"
    BAD = "bad"
    UNKNOWN = "unknown"
    NOTE = "note"
    QUIET = "quiet"


class Span(NamedTuple):
    """A text with a meaning."""

    text: str
    tone: Tone


class BarPart(NamedTuple):
    """A part of a bar."""

    amount: Fraction
    character: str
    tone: Tone


class Bar(NamedTuple):
    """A bar of parts, with dots for the rest of the whole; it ends with an arrow if the parts exceed it."""

    parts: Sequence[BarPart] = ()
    whole: Fraction | None = None
    """None if an amount is unknown."""


Cell: TypeAlias = "str | Span | Bar | Sequence[str]"
"""One text, or several lines; a line that begins with a dash continues below its first word."""


class Column(NamedTuple):
    """A column of a table; columns of texts are wrapped where they do not fit beside each other."""

    title: str
    right: bool = False
    """True if the text is aligned at the right, as numbers are. It is never wrapped."""
    wraps: bool = False
    """True for sentences and lists, to which pages give the most room."""
    share: int = 0
    """The part of the width that the column has at most where not all fit: 3 for a third."""
    most_lines: int | None = None
    """The most lines of a text; all if None."""


def numbers(*titles: str) -> list[Column]:
    """Columns whose texts are aligned at the right."""
    return [Column(title, right=True) for title in titles]


class Paragraph(NamedTuple):
    """A text that is wrapped."""

    text: str
    tone: Tone = Tone.PLAIN


class Lines(NamedTuple):
    """Texts of a line each, which only terminals wrap: tools search them in files and pipes."""

    texts: Sequence[str]
    indent: int = 0
    is_copied: bool = False
    """True for commands and manifests, which people copy: they are never wrapped."""


class Bullets(NamedTuple):
    """A list of texts that are wrapped."""

    texts: Sequence[str]
    most: int | None = None
    """The most texts that are shown; the others are counted."""


class Entry(NamedTuple):
    """A name, and paragraphs beside it."""

    name: str
    texts: Sequence[str]


class Table(NamedTuple):
    """Rows below titles; nothing without rows."""

    columns: Sequence[Column | str]
    """A title alone is a column with default properties."""
    rows: Sequence[Sequence[Cell]]
    most: int | None = None
    """The most rows that are shown; the others are counted."""
    left_out: int = 0
    """Further rows, which are only counted."""
    indent: int = 0
    label: str = ""
    """The content of the table, for screen readers."""
    caption: str = ""
    """A sentence of a page above the table."""

    @property
    def all_columns(self) -> list[Column]:
        """The columns with their properties."""
        return [Column(each) if isinstance(each, str) else each for each in self.columns]


class More(NamedTuple):
    """The number of entries that text leaves out and JSON has; nothing if it is zero."""

    number: int
    indent: int = 0


Block: TypeAlias = Paragraph | Lines | Bullets | Entry | Table | More


class Section(NamedTuple):
    """Blocks below a title; left out if it is empty."""

    blocks: Sequence[Block]
    title: str = ""
    status: str = ""
    """A word beside the title, such as a verdict."""
    tone: Tone = Tone.PLAIN
    """Of the status, or of the title if there is none."""

    @property
    def is_empty(self) -> bool:
        """True if it has no status and no block with anything to show."""
        return not self.status and not any(map(_has_content, self.blocks))


def _has_content(block: Block) -> bool:
    match block:
        case Lines() | Bullets():
            return bool(block.texts)
        case Table():
            return bool(block.rows or block.left_out)
        case More():
            return bool(block.number)
    return True


def notes(texts: Sequence[str], word: str = "Note") -> list[Block]:
    """A paragraph for each remark, which has no full stop: `pods are unknown`."""
    return [Paragraph(f"{word}: {text}.", Tone.QUIET) for text in texts]
