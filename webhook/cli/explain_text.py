"""Explanations for people: the answer, tables of counts and of nodes, and what to change."""

from __future__ import annotations

import shutil
import sys
from collections import Counter
from itertools import chain
from textwrap import wrap
from typing import TYPE_CHECKING

import click

from policies.explanation import Verdict
from policies.kubernetes.printable import printable
from webhook.cli.columns import GAP, Column, table

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from policies.explanation import Explanation, NodeGroup, Obstacle, Suggestion

__all__ = ["terminal_width", "text"]

_WIDTH = 100
"""Columns of what is no terminal."""
_NARROWEST, _WIDEST = 60, 140
_COLOURS = {
    Verdict.FITS: "green",
    Verdict.FULL: "yellow",
    Verdict.IMPOSSIBLE: "red",
    Verdict.BLOCKED: "red",
    Verdict.UNKNOWN: "yellow",
    Verdict.SCHEDULED: "green",
}


def text(explanations: Sequence[Explanation], width: int | None = None) -> str:
    """All explanations; of several, how many there are of each kind at the end.

    Args:
        explanations: The answers.
        width: Columns to stay within; None for those of the terminal.
    """
    width = terminal_width() if width is None else width
    parts = ["\n".join(_lines(explanation, width)) for explanation in explanations]
    return "\n\n".join([*parts, *([_summary(explanations)] if len(explanations) > 1 else [])])


def terminal_width() -> int:
    """Columns of the terminal, within reason; those of a page where there is none."""
    if not sys.stdout.isatty():
        return _WIDTH
    return min(max(shutil.get_terminal_size((_WIDTH, 0)).columns, _NARROWEST), _WIDEST)


def _summary(explanations: Sequence[Explanation]) -> str:
    counts = Counter(explanation.verdict for explanation in explanations)
    told = ", ".join(f"{counts[verdict]} {verdict}" for verdict in Verdict if counts[verdict])
    return f"{len(explanations)} answers: {told}"


def _lines(explanation: Explanation, width: int) -> Iterator[str]:
    verdict = click.style(str(explanation.verdict), fg=_COLOURS[explanation.verdict], bold=True)
    yield f"{click.style(printable(explanation.label), bold=True)}  {verdict}"
    yield from _paragraph(_sentence(explanation.headline), width)
    for obstacle in explanation.obstacles:
        yield from _item(_obstacle(obstacle), width)
    for warning in explanation.warnings:
        yield from _paragraph(f"Warning: {warning}", width)
    if explanation.nodes is not None:
        yield ""
        yield from _counts(explanation)
    if explanation.groups:
        yield ""
        yield from _groups(explanation, width)
    if explanation.suggestions:
        yield ""
        yield click.style("What would help:", bold=True)
        for suggestion in explanation.suggestions:
            yield from _item(_suggestion(suggestion), width)
    if notes := _notes(explanation):
        yield ""
        for note in notes:
            yield from _paragraph(f"Note: {_ended(note)}", width)


def _counts(explanation: Explanation) -> Iterator[str]:
    replicas = "unknown" if explanation.replicas is None else str(explanation.replicas)
    counts = {
        "NODES": str(explanation.nodes),
        "FIT NOW": str(explanation.fit_now),
        "FIT IF EMPTY": str(explanation.fit_if_empty),
        **({"UNKNOWN": str(explanation.unknown_nodes)} if explanation.unknown_nodes else {}),
        "REPLICAS NOW": f"{replicas} or more" if explanation.replicas_at_least else replicas,
    }
    columns = [Column(title, _widest(title, [value])) for title, value in counts.items()]
    yield from table(columns, [[[value] for value in counts.values()]])


def _groups(explanation: Explanation, width: int) -> Iterator[str]:
    groups = explanation.groups
    names = [_names(group) for group in groups]
    fits = ["yes" if group.fits else "if empty" if group.fits_if_empty else "no" for group in groups]
    counts = [str(group.count) for group in groups]
    columns = [
        Column("NODES", _widest("NODES", counts), right=True),
        Column("FITS", _widest("FITS", fits)),
        Column("NAMES", min(_widest("NAMES", chain(*names)), width // 3)),
    ]
    room = width - sum(column.width + GAP for column in columns)
    rows = [
        [[count], [fit], _wrapped_names(name, columns[2].width), list(_why(group, room))]
        for group, count, fit, name in zip(groups, counts, fits, names, strict=True)
    ]
    yield from table([*columns, Column("WHY", room)], rows)
    if explanation.groups_left_out:
        left_out = _counted(explanation.groups_left_out, "more group")
        yield f"and {left_out} with {_counted(explanation.nodes_left_out, 'node')}"


def _widest(title: str, texts: Iterable[str]) -> int:
    return max(len(title), *map(len, texts))


def _names(group: NodeGroup) -> list[str]:
    more = group.count - len(group.nodes)
    return [*map(printable, group.nodes), *([f"and {more} more"] if more > 0 else [])]


def _wrapped_names(names: Iterable[str], width: int) -> list[str]:
    return [line for name in names for line in wrap(name, width, break_on_hyphens=False)]


def _why(group: NodeGroup, width: int) -> Iterator[str]:
    if group.reason is None:
        yield from _paragraph(f"It would get {', '.join(group.devices)}." if group.devices else "", width)
        return
    yield from _paragraph(_sentence(group.reason.sentence), width)
    for detail in group.reason.details:
        yield from _item(_ended(detail), width)


def _obstacle(obstacle: Obstacle) -> str:
    rule = f" [{obstacle.rule}]" if obstacle.rule else ""
    remedy = f"; {obstacle.remedy}" if obstacle.remedy else ""
    return f"{obstacle.sentence}{remedy}{rule}"


def _suggestion(suggestion: Suggestion) -> str:
    then = "then it would fit" if suggestion.only_if_empty else "then it fits"
    where = f"on {'at least ' if suggestion.at_least else ''}{_counted(suggestion.nodes, 'node')}"
    return f"{_capitalised(suggestion.sentence)}; {then} {where}{' if nothing were in use' if suggestion.only_if_empty else ''}"


def _notes(explanation: Explanation) -> list[str]:
    converted = explanation.converted_to
    made = (
        [f"conversion makes ResourceClaimTemplate {converted} of the GPUs that the pod asks for"] if converted else []
    )
    return [*made, *explanation.remarks]


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}{'s' * (count != 1)}"


def _sentence(text: str) -> str:
    """A text with a capital and a full stop; what it begins with keeps its spelling if it may be a name."""
    return _ended(_capitalised(text))


def _ended(text: str) -> str:
    """A text with a full stop, but for one that was cut."""
    return text if text.endswith("...") else f"{text}."


def _capitalised(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}" if text.partition(" ")[0].isalpha() else text


def _paragraph(text: str, width: int) -> list[str]:
    """Names with hyphens stay whole, because people copy them."""
    return wrap(printable(text), width, break_on_hyphens=False)


def _item(text: str, width: int) -> list[str]:
    return wrap(printable(text), width, initial_indent="- ", subsequent_indent="  ", break_on_hyphens=False)
