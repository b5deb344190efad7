"""Explanations as pages and parts of pages, with columns of devices as plain data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from policies.analyses.explain.explanations import fit_word, left_out_sentence, replicas_text, why_sentences
from policies.kubernetes.names import format_count, format_list, format_ranges, inflect, number_key
from policies.outcome import OutcomeState
from webhook.pages.explanation_report import TONES, answer_section, remarks_section
from webhook.pages.rendering import render_page, render_part
from webhook.pages.report_model import Column, Section, Table

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from policies.analyses.explain import Explanation
    from policies.outcome import DeviceOutcome, NodeGroup


_FIT_WORDS = {
    "yes": "fits",
    "if empty": "would fit if nothing were in use",
    "no": "does not fit",
    "unknown": "may fit: unknown",
}
_FIT_BADGES = {"yes": "good", "if empty": "warn", "no": "bad", "unknown": "warn"}
"""The classes of the words for whether nodes fit."""
MOST_CELLS = 48
"""Cells of one column."""
_MOST_BLOCKERS = 50


class ShownState(NamedTuple):
    """The form of a state in a picture: never a colour alone."""

    name: str
    """The class in a style."""
    sign: str
    words: str
    """Beside a device, and in the legend."""


STATES = {
    OutcomeState.CHOSEN: ShownState("chosen", "✓", "would be allocated"),
    OutcomeState.USABLE: ShownState("usable", "○", "could be allocated"),
    OutcomeState.IN_USE: ShownState("in-use", "■", "in use"),
    OutcomeState.UNSUITABLE: ShownState("unsuitable", "✕", "unsuitable"),
}
"""The best state first: a device has the best state that one of the requests finds."""
_RANKS = {state: rank for rank, state in enumerate(STATES)}


class DeviceCell(NamedTuple):
    """One device."""

    name: str
    """Empty for a device of a device plugin."""
    state: ShownState
    why: str
    """The reason why it cannot be used, or its state."""
    short: str
    """The same without what all devices of the column that cannot be used have in common."""


class OutcomeRow(NamedTuple):
    """Devices with one outcome, in words."""

    devices: str
    request: str
    state: ShownState
    why: str


@dataclass(frozen=True, slots=True)
class NodeColumn:
    """The nodes of a group, and the devices of the first of them."""

    title: str
    """The first node, or how many nodes there are if they are not named."""
    others: str
    """The other nodes: `node-2, node-3 and 5 more`; empty if there are none."""
    fits: str
    """`yes`, `if empty`, `no` or `unknown`."""
    cells: tuple[DeviceCell, ...]
    cells_left_out: int
    rows: tuple[OutcomeRow, ...]
    why: tuple[str, ...]
    """The reasons why the nodes do not fit, in sentences, or the devices that the first one would give."""

    def table(self, label: str) -> Table:
        """The rows as a table; `label` is that of the explanation."""
        rows = [(row.devices, row.request, row.state.words, row.why) for row in self.rows]
        about = f"The devices of {self.title} for {label}, as a table"
        return Table(["Devices", "Request", "State", Column("Why", wraps=True)], rows, label=about)

    @property
    def fit_words(self) -> str:
        """The answer for the nodes, without a question beside it."""
        return _FIT_WORDS[self.fits]

    @property
    def badge(self) -> str:
        """The class of `fit_words`."""
        return _FIT_BADGES[self.fits]

    @property
    def counts(self) -> str:
        """The numbers of the shown devices by state: `2 would be allocated, 6 in use`."""
        counts = {state: sum(cell.state is state for cell in self.cells) for state in STATES.values()}
        return ", ".join(f"{count} {state.words}" for state, count in counts.items() if count)


def columns_of(explanation: Explanation) -> list[NodeColumn]:
    """A column for each group of nodes."""
    return [_column(group) for group in explanation.groups]


def states_in(columns: Sequence[NodeColumn]) -> list[ShownState]:
    """The states that the cells of columns have, for a legend."""
    found = {cell.state for column in columns for cell in column.cells}
    return [state for state in STATES.values() if state in found]


def _blockers(explanation: Explanation, columns: Sequence[NodeColumn]) -> Table:
    """The holders of devices on the first nodes of groups that do not fit."""
    found: dict[tuple[str, str], dict[str, str]] = {}
    for column, group in zip(columns, explanation.groups, strict=True):
        for outcome in () if group.fits else group.outcomes:
            for holder in outcome.holders:
                found.setdefault((holder, column.title), {})[_devices_text(outcome)] = ""
    return Table(
        ["Held by", "Devices", "Node"],
        [(holder, ", ".join(devices), node) for (holder, node), devices in found.items()],
        _MOST_BLOCKERS,
        label=f"What holds devices that {explanation.label} could use",
        caption="On the first node of each group that does not fit; other pods and claims may hold the devices of the other "
        "nodes.",
    )


def _column(group: NodeGroup) -> NodeColumn:
    first, *others = group.nodes or (format_count(group.count, "node"),)
    more = group.count - max(1, len(group.nodes)) if group.nodes else 0
    names = [*others, *([f"{more:,} more"] if more else [])]
    cells = [*_cells(group.outcomes)]
    several = len({(outcome.claim, outcome.request) for outcome in group.outcomes}) > 1
    return NodeColumn(
        title=first,
        others=format_list(names, len(names)) if names else "",
        fits=fit_word(group),
        cells=tuple(cells[:MOST_CELLS]),
        cells_left_out=_device_count(group.outcomes) - len(cells[:MOST_CELLS]),
        rows=tuple(
            OutcomeRow(_devices_text(each), _request(each), STATES[each.state], _why(each, several=several))
            for each in group.outcomes
        ),
        why=why_sentences(group),
    )


def _cells(outcomes: Sequence[DeviceOutcome]) -> Iterator[DeviceCell]:
    """One cell for each device that is named, with its best state, and for each device of a device plugin."""
    best: dict[str, DeviceOutcome] = {}
    for outcome in outcomes:
        for name in outcome.devices:
            if name not in best or _RANKS[outcome.state] < _RANKS[best[name].state]:
                best[name] = outcome
    reasons = {outcome.sentence for outcome in best.values() if outcome.state is OutcomeState.UNSUITABLE}
    for name in sorted(best, key=number_key):
        yield _cell(name, best[name], is_common=len(reasons) == 1)
    for outcome in outcomes:
        for _ in range(0 if outcome.claim else min(outcome.count, MOST_CELLS)):
            yield _cell("", outcome, is_common=False)


def _cell(name: str, outcome: DeviceOutcome, *, is_common: bool) -> DeviceCell:
    state = STATES[outcome.state]
    why = outcome.sentence.removeprefix("is ") or state.words
    return DeviceCell(name, state, why, state.words if is_common and outcome.state is OutcomeState.UNSUITABLE else why)


def _device_count(outcomes: Sequence[DeviceOutcome]) -> int:
    """The number of devices: of those with names, as many as the request that finds most."""
    by_request: dict[str, int] = {}
    units = 0
    for outcome in outcomes:
        if not outcome.claim:
            units += outcome.count
            continue
        request = _request(outcome)
        by_request[request] = by_request.get(request, 0) + outcome.count
    named = len({name for outcome in outcomes for name in outcome.devices})
    return max(named, *by_request.values(), 0) + units if by_request else units


def _devices_text(outcome: DeviceOutcome) -> str:
    """The devices of an outcome: `gpu-0..gpu-3`, `gpu-0 and 60 more`, `2 nvidia.com/gpu`."""
    if not outcome.devices:
        return f"{outcome.count:,} {outcome.request}" if not outcome.claim else format_count(outcome.count, "device")
    more = outcome.count - len(outcome.devices)
    return f"{format_ranges(outcome.devices)}{f' and {more:,} more' if more else ''}"


def _request(outcome: DeviceOutcome) -> str:
    return f"{outcome.request} of claim {outcome.claim}" if outcome.claim else outcome.request


def _why(outcome: DeviceOutcome, *, several: bool) -> str:
    words = STATES[outcome.state].words
    text = inflect(outcome.sentence, outcome.count) if outcome.sentence else words
    return f"{text} (request {_request(outcome)})" if several else text


def render_explanation(explanation: Explanation) -> str:
    """One explanation as a part of a page: a section with a heading of the second level.

    The picture has nodes as columns and devices as cells, and everything in it is in tables and sentences too. The page
    around it has the style `page.css`.
    """
    return render_part("explanation", part=_part(explanation))


def render_explanations(explanations: Sequence[Explanation]) -> str:
    """A page of explanations that needs nothing but itself."""
    title = explanations[0].label if len(explanations) == 1 else format_count(len(explanations), "explanation")
    return render_page("explanations", title=f"Where it fits: {title}", parts=[*map(_part, explanations)])


def _part(explanation: Explanation) -> dict[str, Any]:
    """The values that the template shows for one explanation."""
    columns = columns_of(explanation)
    return {
        "label": explanation.label,
        "verdict": explanation.verdict,
        "badge": TONES[explanation.verdict],
        "answer": answer_section(explanation),
        "counts": _counts(explanation),
        "columns": columns,
        "states": states_in(columns),
        "left_out": left_out_sentence(explanation),
        "end": (
            Section([_blockers(explanation, columns)], "Pods and claims that hold devices"),
            remarks_section(explanation),
        ),
    }


def _counts(explanation: Explanation) -> list[tuple[str, str]]:
    if explanation.nodes is None:
        return []
    return [
        ("nodes", f"{explanation.nodes:,}"),
        ("fit now", f"{explanation.fit_now:,}"),
        ("fit if nothing were in use", f"{explanation.fit_if_empty:,}"),
        *([("unknown", f"{explanation.unknown_nodes:,}")] if explanation.unknown_nodes else []),
        ("replicas fit now", replicas_text(explanation)),
    ]
