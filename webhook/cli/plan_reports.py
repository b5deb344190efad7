"""Plans as text and JSON."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

import click

from policies.fleet.offers import estimates_clause
from policies.kubernetes.printable import printable
from policies.outcome import Outcome
from policies.phrases import format_count, format_list
from policies.plan import PlanJSON, plan_json
from webhook.cli.text_layout import GAP, Column, column, item, output_text, paragraph, table, terminal_width, truncation

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from policies.outcome import FitComparison
    from policies.plan import NodeChange, Plan
    from policies.plan.disruptions import Disruption
    from webhook.cli.plans import PlanReport

__all__ = ["PlanReportJSON", "as_json", "text"]

_MOST_SHOWN = 20
"""Rows of a section; JSON has all of them."""
_NARROWEST_REASON = 30


@dataclass(frozen=True, slots=True)
class PlanReportJSON:
    """The output of `gpu-admission plan -o json`; `plan` is null if something is refused."""

    plan: PlanJSON | None
    refusals: tuple[str, ...]
    warnings: tuple[str, ...]


def as_json(report: PlanReport) -> str:
    """The plan and the warnings of the review as one mapping; `plan` is null if something is refused."""
    plan = None if report.plan is None else plan_json(report.plan)
    return output_text(PlanReportJSON(plan, report.refusals, report.warnings), PlanReportJSON)


def text(report: PlanReport, width: int | None = None) -> str:
    """The plan as sections; `width` is that of the terminal if None."""
    width = terminal_width() if width is None else width
    plan = report.plan
    if plan is None:
        return "\n".join(line for each in report.refused_deletions for line in item(f"refused: {each}", width))
    sections = [
        paragraph(_summary(plan), width),
        [*_nodes(plan.nodes, width)],
        [*_section("Disrupted now:", map(_disruption, plan.disrupted), len(plan.disrupted), width)],
        [*_lost(plan, width)],
        [*_changed_fits(plan, width)],
        [*_quotas(plan, width)],
        [*_unknown(plan, width)],
        [line for each in report.warnings for line in paragraph(f"Warning: {each}", width)],
        [line for each in plan.remarks for line in paragraph(f"Note: {each}.", width)],
        paragraph(_unaffected_text(plan), width),
    ]
    return "\n\n".join("\n".join(lines) for lines in sections if lines)


def _summary(plan: Plan) -> str:
    """The plan in one sentence."""
    lost, unknown = plan.fits_with(Outcome.LOST), plan.fits_with(Outcome.UNKNOWN)
    limits = len(plan.broken_limits)
    refused = len(plan.refusals)
    stopped = sum(bool(each.refusal) for each in plan.nodes)
    parts = [
        f"the device plugin would exit on {format_count(stopped, 'node')}" if stopped else "",
        f"{format_count(len(plan.disrupted), 'pod')} would be disrupted" if plan.disrupted else "",
        f"{format_count(len(lost), 'workload')} would not start again as before" if lost else "",
        *(f"{format_count(pods, 'pod')} would get {gist}" for gist, pods in plan.changed_pods.items()),
        f"{format_count(limits, 'limit')} of quotas would count or allow something else" if limits else "",
        f"quotas would refuse {format_count(refused, 'workload')}" if refused else "",
        f"{format_count(len(unknown) + len(plan.unknown), 'question')} cannot be answered"
        if unknown or plan.unknown
        else "",
    ]
    said = [each for each in parts if each]
    return f"{'; '.join(said)[:1].upper()}{'; '.join(said)[1:]}." if said else "Nothing would break."


def _nodes(nodes: Sequence[NodeChange], width: int) -> Iterator[str]:
    listed = [each for each in nodes if each.before != each.after or each.interrupts]
    shown = listed[:_MOST_SHOWN]
    if not shown:
        return
    columns = [
        column("NODE", (printable(each.node) for each in shown)),
        column("OFFERS NOW", (printable(each.before) for each in shown)),
        column("PREDICTED", (printable(each.after) for each in shown)),
    ]
    room = max(width - sum(each.width + GAP for each in columns), _NARROWEST_REASON)
    rows = [
        [
            [printable(each.node)],
            [printable(each.before)],
            [printable(each.after)],
            paragraph("; ".join(filter(None, (*each.reasons, estimates_clause(each.estimates)))), room),
        ]
        for each in shown
    ]
    yield from table([*columns, Column("BECAUSE", room)], rows)
    yield from truncation(len(listed), len(shown))


def _section(title: str, rows: Iterable[str], total: int, width: int) -> Iterator[str]:
    """A title and one item for each row; nothing without rows."""
    if not total:
        return
    yield click.style(title, bold=True)
    for row in islice(rows, _MOST_SHOWN):
        yield from item(row, width)
    yield from truncation(total, min(total, _MOST_SHOWN))


def _disruption(each: Disruption) -> str:
    workload = f" ({each.workload})" if each.workload else ""
    return f"{each.name}{workload} on {each.node}: {each.why}; {each.remedy}"


def _lost(plan: Plan, width: int) -> Iterator[str]:
    lost = plan.fits_with(Outcome.LOST)
    rows = (f"{_subject(each)}: {each.sentence}; {plan.remedies[each.subject.label]}" for each in lost)
    return _section("Would not start again:", rows, len(lost), width)


def _changed_fits(plan: Plan, width: int) -> Iterator[str]:
    changed = plan.fits_with(Outcome.CHANGED)
    rows = (f"{_subject(each)}: {each.sentence}; {plan.remedies[each.subject.label]}" for each in changed)
    return _section("Would get other GPUs:", rows, len(changed), width)


def _subject(each: FitComparison) -> str:
    """The subject, and its pods if it is not one pod itself."""
    pods = each.subject.pod_names
    is_named = not pods or (len(pods) == 1 and each.subject.label == f"pod {pods[0]}")
    return each.subject.label if is_named else f"{each.subject.label} ({format_list(pods, 3)})"


def _quotas(plan: Plan, width: int) -> Iterator[str]:
    limits = [f"GPUQuota {each.namespace}/gpu, limit {each.name}: {each.sentence}" for each in plan.broken_limits]
    refused = [f"{each.subject.label}, when a pod of it starts again: {each.sentence}" for each in plan.refusals]
    rows = [*limits, *refused]
    return _section("Quotas:", rows, len(rows), width)


def _unknown(plan: Plan, width: int) -> Iterator[str]:
    rows = [
        *plan.unknown,
        *(f"{_subject(each)}: {each.sentence.removeprefix('unknown: ')}" for each in plan.fits_with(Outcome.UNKNOWN)),
        *(
            f"GPUQuota {each.namespace}/gpu, limit {each.name}: {each.sentence}"
            for each in plan.limits
            if each.outcome is Outcome.UNKNOWN
        ),
    ]
    return _section("Unknown:", rows, len(rows), width)


def _unaffected_text(plan: Plan) -> str:
    """What stays as it is, as counts."""
    kept, gained = plan.fits_with(Outcome.KEPT), plan.fits_with(Outcome.GAINED)
    subjects = [*(each.subject for each in kept), *plan.unaffected]
    pods = sum(len(each.pods) for each in subjects)
    parts = [f"Not affected: {format_count(len(subjects), 'workload')} with {format_count(pods, 'pod')}."]
    if gained:
        parts.append(f"Gains a place: {format_list([each.subject.label for each in gained], 3)}.")
    limits = sum(each.outcome is Outcome.KEPT for each in plan.limits)
    if limits:
        parts.append(
            f"{format_count(limits, 'limit')} of quotas {'stays' if limits == 1 else 'stay'} as {'it is' if limits == 1 else 'they are'}."
        )
    return " ".join(parts)
