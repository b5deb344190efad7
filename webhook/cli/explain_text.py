"""Explanations for people: the headline, tables of counts and of nodes, and suggestions."""

from __future__ import annotations

from collections import Counter
from itertools import chain
from textwrap import wrap
from typing import TYPE_CHECKING

import click

from policies.explanation import Feasibility
from policies.kubernetes.printable import printable
from policies.phrases import format_count
from webhook.cli.text_layout import GAP, Column, column, item, paragraph, table, terminal_width

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from policies.explanation import Explanation, NodeGroup, Obstacle, Suggestion

__all__ = ["text"]

_COLOURS = {
    Feasibility.FITS: "green",
    Feasibility.FULL: "yellow",
    Feasibility.IMPOSSIBLE: "red",
    Feasibility.BLOCKED: "red",
    Feasibility.UNKNOWN: "yellow",
    Feasibility.SCHEDULED: "green",
}


def text(explanations: Sequence[Explanation], width: int | None = None) -> str:
    """All explanations, with a summary if there are several; `width` is that of the terminal if None."""
    width = terminal_width() if width is None else width
    parts = ["\n".join(_lines(explanation, width)) for explanation in explanations]
    return "\n\n".join([*parts, *([_summary(explanations)] if len(explanations) > 1 else [])])


def _summary(explanations: Sequence[Explanation]) -> str:
    counts = Counter(explanation.verdict for explanation in explanations)
    verdicts = ", ".join(f"{counts[verdict]} {verdict}" for verdict in Feasibility if counts[verdict])
    return f"{len(explanations)} explanations: {verdicts}"


def _lines(explanation: Explanation, width: int) -> Iterator[str]:
    verdict = click.style(str(explanation.verdict), fg=_COLOURS[explanation.verdict], bold=True)
    yield f"{click.style(printable(explanation.label), bold=True)}  {verdict}"
    yield from paragraph(_sentence(explanation.headline), width)
    for obstacle in explanation.obstacles:
        yield from item(_obstacle(obstacle), width)
    for warning in explanation.warnings:
        yield from paragraph(f"Warning: {warning}", width)
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
            yield from item(_suggestion(suggestion), width)
    if notes := _notes(explanation):
        yield ""
        for note in notes:
            yield from paragraph(f"Note: {_with_full_stop(note)}", width)


def _counts(explanation: Explanation) -> Iterator[str]:
    replicas = "unknown" if explanation.replicas is None else str(explanation.replicas)
    counts = {
        "NODES": str(explanation.nodes),
        "FIT NOW": str(explanation.fit_now),
        "FIT IF EMPTY": str(explanation.fit_if_empty),
        **({"UNKNOWN": str(explanation.unknown_nodes)} if explanation.unknown_nodes else {}),
        "REPLICAS NOW": f"{replicas} or more" if explanation.replicas_at_least else replicas,
    }
    columns = [column(title, [value]) for title, value in counts.items()]
    yield from table(columns, [[[value] for value in counts.values()]])


def _groups(explanation: Explanation, width: int) -> Iterator[str]:
    groups = explanation.groups
    names = [_names(group) for group in groups]
    fits = ["yes" if group.fits else "if empty" if group.fits_if_empty else "no" for group in groups]
    counts = [str(group.count) for group in groups]
    columns = [
        column("NODES", counts, right=True),
        column("FITS", fits),
        Column("NAMES", min(column("NAMES", chain(*names)).width, width // 3)),
    ]
    room = width - sum(each.width + GAP for each in columns)
    rows = [
        [[count], [fit], _wrapped_names(name, columns[2].width), list(_why(group, room))]
        for group, count, fit, name in zip(groups, counts, fits, names, strict=True)
    ]
    yield from table([*columns, Column("WHY", room)], rows)
    if explanation.groups_left_out:
        left_out = format_count(explanation.groups_left_out, "more group")
        yield f"and {left_out} with {format_count(explanation.nodes_left_out, 'node')}"


def _names(group: NodeGroup) -> list[str]:
    more = group.count - len(group.nodes)
    return [*map(printable, group.nodes), *([f"and {more} more"] if more > 0 else [])]


def _wrapped_names(names: Iterable[str], width: int) -> list[str]:
    return [line for name in names for line in wrap(name, width, break_on_hyphens=False)]


def _why(group: NodeGroup, width: int) -> Iterator[str]:
    if group.reason is None:
        yield from paragraph(f"It would get {', '.join(group.devices)}." if group.devices else "", width)
        return
    yield from paragraph(_sentence(group.reason.sentence), width)
    for detail in group.reason.details:
        yield from item(_with_full_stop(detail), width)


def _obstacle(obstacle: Obstacle) -> str:
    rule = f" [{obstacle.rule}]" if obstacle.rule else ""
    remedy = f"; {obstacle.remedy}" if obstacle.remedy else ""
    return f"{obstacle.sentence}{remedy}{rule}"


def _suggestion(suggestion: Suggestion) -> str:
    then = "then it would fit" if suggestion.only_if_empty else "then it fits"
    where = f"on {'at least ' if suggestion.at_least else ''}{format_count(suggestion.nodes, 'node')}"
    return f"{_with_capital(suggestion.sentence)}; {then} {where}{' if nothing were in use' if suggestion.only_if_empty else ''}"


def _notes(explanation: Explanation) -> list[str]:
    converted = explanation.converted_to
    template = [f"conversion creates ResourceClaimTemplate {converted} for the GPUs of the pod"] if converted else []
    return [*template, *explanation.remarks]


def _sentence(text: str) -> str:
    """A text with a capital and a full stop."""
    return _with_full_stop(_with_capital(text))


def _with_full_stop(text: str) -> str:
    """A text with a full stop, unless it was cut."""
    return text if text.endswith("...") else f"{text}."


def _with_capital(text: str) -> str:
    """A text with a capital, unless its first word looks like a name."""
    return f"{text[0].upper()}{text[1:]}" if text.partition(" ")[0].isalpha() else text
