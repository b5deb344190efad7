"""The picture of explanations as an SVG file: nodes as columns, devices as cells."""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.explanation.sentences import (
    as_sentence,
    left_out_sentence,
    notes_of,
    obstacle_sentence,
    suggestion_sentence,
)
from policies.phrases import format_count
from webhook.pages.drawing import LINE, Drawing, lines_of
from webhook.pages.explanation_columns import BADGES, columns_of, states_in

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from policies.explanation import Explanation
    from webhook.pages.explanation_columns import NodeColumn

__all__ = ["draw_explanations"]

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
"""Of obstacles, suggestions and notes, each."""


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
    top = drawing.write(_MARGIN, top, [str(explanation.verdict)], BADGES[explanation.verdict])
    top = drawing.write(_MARGIN, top, lines_of(as_sentence(explanation.headline), width, _MOST_LINES))
    top = _draw_texts(drawing, map(obstacle_sentence, explanation.obstacles), top)
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
    if explanation.suggestions:
        top = drawing.write(_MARGIN, top + LINE // 2, ["What would help"], "title")
        top = _draw_texts(drawing, map(suggestion_sentence, explanation.suggestions), top)
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
