"""Drawings: SVG files of texts and rectangles that are readable on light and dark pages.

Text can be selected, and the same facts always give the same bytes. Colours follow `prefers-color-scheme`. A page may be
dark while the system is light, and the other way round, so each colour keeps a contrast of at least 3 on both.
"""

from __future__ import annotations

from textwrap import wrap
from typing import TYPE_CHECKING, NamedTuple

from markupsafe import Markup

from policies.analyses.explain.explanations import (
    as_sentence,
    left_out_sentence,
    notes_of,
)
from policies.kubernetes.names import format_count, printable
from webhook.pages.explanation import columns_of, states_in
from webhook.pages.explanation_report import TONES, answer_texts
from webhook.pages.rendering import asset, render_part

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from policies.analyses.explain import Explanation
    from webhook.pages.explanation import NodeColumn


LINE = 18
"""The height of a line of text."""
_CHARACTER = 7.0
"""The width of a character: a little more than the average, so that lines do not run out of their column."""


class DrawnShape(NamedTuple):
    """A text, or a rectangle if the text is empty."""

    left: int
    top: int
    """The baseline of a text, or the top of a rectangle."""
    kind: str
    """The classes of the shape in `picture.css`."""
    text: str = ""
    is_centred: bool = False
    width: int = 0
    height: int = 0
    title: str = ""
    """The text that a pointer over a rectangle shows."""


class Drawing:
    """Collects shapes."""

    def __init__(self, width: int) -> None:
        """Start an empty drawing of a width in pixels."""
        self.width = width
        self.shapes: list[DrawnShape] = []

    def write(self, left: int, top: int, lines: Iterable[str], kind: str = "text") -> int:
        """Write lines below each other, beginning at `top`; returns the top of what follows."""
        for line in lines:
            if line:
                self.shapes.append(DrawnShape(left, top + 13, kind, line))
            top += LINE
        return top

    def box(self, left: int, top: int, width: int, height: int, kind: str, *, sign: str = "", title: str = "") -> None:
        """Draw a rectangle with a sign in its middle."""
        self.shapes.append(DrawnShape(left, top, kind, width=width, height=height, title=title))
        if sign:
            self.shapes.append(DrawnShape(left + width // 2, top + height // 2 + 5, "sign", sign, is_centred=True))

    def render(self, title: str, description: str, height: int) -> str:
        """The drawing as a file; title and description are for screen readers."""
        return render_part(
            "drawing",
            title=title,
            description=description,
            width=self.width,
            height=height,
            shapes=self.shapes,
            style=Markup(asset("picture.css")),  # noqa: S704 - a file of this package
        )


def lines_of(text: str, width: int, most: int) -> list[str]:
    """A text in lines that are at most so many pixels wide; the last of too many lines ends with dots."""
    return wrap(printable(text), max(10, int(width / _CHARACTER)), max_lines=most, placeholder=" ...")


_WIDTH = 900
_MARGIN = 16
_IN_A_ROW = 4
"""Columns beside each other."""
_GAP = 12
_COLUMN = (_WIDTH - 2 * _MARGIN - (_IN_A_ROW - 1) * _GAP) // _IN_A_ROW
_PADDING = 8
_CELL = 20
_CELLS_IN_A_ROW = 8
_MOST_ROWS = 6
"""Of devices, in words below the cells of a column."""
_MOST_LINES = 4
"""Of one text."""
_MOST_TEXTS = 12
"""Of the answer, and of notes."""


def draw_explanations(explanations: Sequence[Explanation]) -> str:
    """The explanations as one SVG file, one below the other."""
    drawing = Drawing(_WIDTH)
    top = _MARGIN
    columns_of_each = [columns_of(explanation) for explanation in explanations]
    for explanation, columns in zip(explanations, columns_of_each, strict=True):
        top = _draw_explanation(drawing, explanation, columns, top) + _MARGIN
    label = explanations[0].label if len(explanations) == 1 else format_count(len(explanations), "explanation")
    described = " ".join(map(_description, explanations, columns_of_each))
    return drawing.render(f"Where it fits: {label}", described, top)


def _description(explanation: Explanation, columns: Sequence[NodeColumn]) -> str:
    """The explanation in sentences, for screen readers."""
    nodes = [f"{column.title}: {column.fit_words}{f'; {column.counts}' if column.cells else ''}." for column in columns]
    return " ".join([f"{explanation.label}: {explanation.verdict}.", as_sentence(explanation.headline), *nodes])


def _draw_explanation(drawing: Drawing, explanation: Explanation, columns: Sequence[NodeColumn], top: int) -> int:
    """Draw one explanation; returns the top of what follows."""
    width = _WIDTH - 2 * _MARGIN
    top = drawing.write(_MARGIN, top, lines_of(explanation.label, width, 1), "title")
    top = drawing.write(_MARGIN, top, [str(explanation.verdict)], TONES[explanation.verdict])
    top = _draw_texts(drawing, answer_texts(explanation), top)
    top = _draw_legend(drawing, columns, top + LINE // 2)
    for start in range(0, len(columns), _IN_A_ROW):
        row = columns[start : start + _IN_A_ROW]
        ends = [
            _draw_column(drawing, column, _MARGIN + place * (_COLUMN + _GAP), top) for place, column in enumerate(row)
        ]
        for place in range(len(row)):
            drawing.box(_MARGIN + place * (_COLUMN + _GAP), top, _COLUMN, max(ends) - top, "frame")
        top = max(ends) + _GAP
    if left_out := left_out_sentence(explanation):
        top = drawing.write(_MARGIN, top, [left_out], "quiet")
    return _draw_texts(drawing, (f"Note: {note}" for note in notes_of(explanation)), top)


def _draw_texts(drawing: Drawing, texts: Iterable[str], top: int) -> int:
    for text in [*texts][:_MOST_TEXTS]:
        top = drawing.write(_MARGIN, top, lines_of(text, _WIDTH - 2 * _MARGIN, _MOST_LINES))
    return top


def _draw_legend(drawing: Drawing, columns: Sequence[NodeColumn], top: int) -> int:
    states = states_in(columns)
    for place, state in enumerate(states):
        left = _MARGIN + place * (_COLUMN + _GAP)
        drawing.box(left, top, _CELL, _CELL, f"cell {state.name}", sign=state.sign)
        drawing.write(left + _CELL + 6, top, [state.words])
    return top + _CELL + _GAP if states else top


def _draw_column(drawing: Drawing, column: NodeColumn, left: int, top: int) -> int:
    """Draw a column without its frame; returns its end."""
    left, width = left + _PADDING, _COLUMN - 2 * _PADDING
    top = drawing.write(left, top + _PADDING, lines_of(column.title, width - 20, 1), "title")
    if column.others:
        top = drawing.write(left, top, lines_of(f"and {column.others}", width, 2), "quiet")
    top = drawing.write(left, top, lines_of(column.fit_words, width, 2), column.badge)
    for sentence in column.why[:1]:
        top = drawing.write(left, top, lines_of(sentence, width, _MOST_LINES))
    top = _draw_cells(drawing, column, left, top + 4)
    for row in column.rows[:_MOST_ROWS]:
        text = f"{row.state.sign} {row.devices} {row.why}"
        top = drawing.write(left, top, lines_of(text, width, _MOST_LINES), "quiet")
    if len(column.rows) > _MOST_ROWS:
        top = drawing.write(left, top, [f"and {len(column.rows) - _MOST_ROWS} more"], "quiet")
    return top + _PADDING


def _draw_cells(drawing: Drawing, column: NodeColumn, left: int, top: int) -> int:
    for start in range(0, len(column.cells), _CELLS_IN_A_ROW):
        for place, cell in enumerate(column.cells[start : start + _CELLS_IN_A_ROW]):
            title = f"{cell.name}: {cell.why}" if cell.name else cell.why
            at = left + place * (_CELL + 4)
            drawing.box(at, top, _CELL, _CELL, f"cell {cell.state.name}", sign=cell.state.sign, title=title)
        top += _CELL + 4
    if column.cells_left_out > 0:
        top = drawing.write(left, top, [f"and {column.cells_left_out:,} more"], "quiet")
    return top + 4 if column.cells else top
