"""Charts as SVG that are readable on light and dark pages.

Text can be selected, and the same figures always give the same bytes. Colours follow `prefers-color-scheme`. A page may be dark while the system is light, and the other way round, so each
colour keeps a contrast of at least 3 on both backgrounds.
"""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

import svg

from benchmarks.figures import Verdict

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from benchmarks.figures import Figure


COLOURS = {
    "text": ("#5c636b", "#8d959e"),
    "track": ("#8b949e", "#768390"),
    "good": ("#1a7f37", "#2f9a48"),
    "fair": ("#9a6700", "#b07d1f"),
    "bad": ("#cf222e", "#e5534b"),
    "series0": ("#0969da", "#3b86e0"),
    "series1": ("#1b7c83", "#2d9299"),
    "series2": ("#bc4c00", "#d0692a"),
    "series3": ("#6e7781", "#848d97"),
}
"""Colours by class, for light and dark."""
_CLASSES = {Verdict.GOOD: "good", Verdict.FAIR: "fair", Verdict.BAD: "bad"}
_WIDTH = 860
_LABELS = 310
_TRACK = 240
_ROW = 26
_BAR = 12
_SIZE = 13
"""Of text. About 40 characters fit beside a bar."""
_LEGEND = 32


def ratio_chart(title: str, figures: Sequence[Figure]) -> str:
    """One row for each figure: the bar is its ratio, the mark its aim, the end of the frame its limit."""
    elements: list[svg.Element] = []
    for row, figure in enumerate(figures):
        top = row * _ROW + 6
        share = min(figure.ratio / figure.limit, 1.0)
        aim = _LABELS + _TRACK * min(figure.aim / figure.limit, 1.0)
        elements += [
            _text(_LABELS - 10, top, figure.label, anchor="end"),
            svg.Rect(x=_LABELS, y=top, width=_TRACK, height=_BAR, class_=["track"], fill_opacity=0.22),
            svg.Rect(x=_LABELS, y=top, width=_round(_TRACK * share), height=_BAR, class_=[_CLASSES[figure.verdict]]),
            svg.Rect(x=_round(aim) - 1, y=top - 4, width=2, height=_BAR + 8, class_=["text"]),
            _text(_LABELS + _TRACK + 10, top, _ratio_text(figure)),
        ]
    legend = (
        "Bar: the ratio, as a part of the limit. Mark: the aim. Right end: the limit. Each row has a scale of its own."
    )
    elements.append(_text(_SIZE, len(figures) * _ROW + 10, legend))
    rows = (f"{figure.label}: {_ratio_text(figure)}" for figure in figures)
    return _document(title, rows, elements, len(figures) * _ROW + _ROW + 6)


def value_chart(title: str, figures: Sequence[Figure], column: str) -> str:
    """Bars of one further number, in groups, with the controls as bars of their own."""
    groups = _groups(figures, column)
    series = list(dict.fromkeys(name for bars in groups.values() for name in bars))
    scale = _TRACK / (max(value for bars in groups.values() for value in bars.values()) or 1)
    elements = list(_legend(series))
    top: float = _LEGEND
    rows = []
    for group, bars in groups.items():
        elements.append(_text(_LABELS - 10, top + (len(bars) - 1) * _BAR / 2, group, anchor="end"))
        for name, value in bars.items():
            colour = f"series{series.index(name) % 4}"
            elements += [
                svg.Rect(
                    x=_LABELS, y=_round(top), width=_round(max(value * scale, 1)), height=_BAR - 1, class_=[colour]
                ),
                _text(_LABELS + value * scale + 6, top, number(value)),
            ]
            rows.append(f"{group}, {name}: {number(value)}")
            top += _BAR + 4
        top += _BAR
    return _document(title, rows, elements, top)


def number(value: float) -> str:
    """Three significant digits with separators between thousands."""
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def _groups(figures: Iterable[Figure], column: str) -> dict[str, dict[str, float]]:
    """Values by group and series; a control appears once, after the figures of its group."""
    groups: dict[str, dict[str, float]] = {}
    controls: dict[str, dict[str, float]] = {}
    for figure in figures:
        if column in figure.more:
            value, control = figure.more[column]
            groups.setdefault(figure.group, {})[figure.name] = value
            if control is not None:
                controls.setdefault(figure.group, {})[figure.beside] = control
    return {group: {**bars, **controls.get(group, {})} for group, bars in groups.items()}


def _legend(series: Sequence[str]) -> Iterable[svg.Element]:
    left = 8.0
    for place, name in enumerate(series):
        yield svg.Rect(x=_round(left), y=8, width=_BAR, height=_BAR, class_=[f"series{place % 4}"])
        yield _text(left + _BAR + 6, 8, name)
        left += _BAR + 30 + 7.2 * len(name)


def _ratio_text(figure: Figure) -> str:
    suffix = "" if figure.verdict is Verdict.GOOD else f" ({figure.verdict})"
    return f"{number(figure.ratio)} × {figure.beside}{suffix}"  # noqa: RUF001 - a sign for people


def _text(left: float, top: float, text: str, *, anchor: str | None = None) -> svg.Text:
    """A line beside a bar that begins at `top`."""
    style = "text-anchor:end" if anchor == "end" else None
    return svg.Text(x=_round(left), y=_round(top + _BAR - 1), class_=["text"], style=style, text=escape(text))


def _document(title: str, rows: Iterable[str], elements: list[svg.Element], height: float) -> str:
    """The whole file; title and description are for screen readers."""
    light, dark = ("".join(f".{name}{{fill:{pair[mode]}}}" for name, pair in COLOURS.items()) for mode in (0, 1))
    style = f"text{{font:{_SIZE}px system-ui,sans-serif}}{light}@media(prefers-color-scheme:dark){{{dark}}}"
    document = svg.SVG(
        viewBox=svg.ViewBoxSpec(0, 0, _WIDTH, _round(height)),
        extra={"role": "img", "aria-labelledby": "title desc"},
        elements=[
            svg.Title(id="title", text=escape(title)),
            svg.Desc(id="desc", text=escape("; ".join(rows))),
            svg.Style(text=style),
            *elements,
        ],
    )
    return str(document).replace("><", ">\n<") + "\n"


def _round(value: float) -> float:
    return round(value, 1)
