"""Audits for people: what is broken first, then what was not reviewed, then how ready namespaces are."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from policies.audit import MOST_FINDINGS
from policies.decision import Severity
from policies.kubernetes.printable import printable
from webhook.cli.columns import Column, table

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from policies.audit import AuditFinding, AuditReport, ConversionObstacle, Readiness
    from webhook.cli.audits import Audited

__all__ = ["text"]

_SECTIONS = (
    (Severity.DENY, "Would be refused today", "red"),
    (Severity.WARN, "Warnings", "yellow"),
    (Severity.AUDIT, "Worth knowing", "cyan"),
)
_MOST_SHOWN = 50
"""Findings of a section; all of them are in JSON."""
_OWNERS_SHOWN = 3
_NUMBERS = (("WORKLOADS", "workloads"), ("CONVERT", "converts"), ("REFUSED", "refused"), ("LEFT", "left"))


def text(audited: Audited) -> str:
    """The report, its sections apart from each other."""
    report = audited.report
    sections = [
        *(_findings(report, *section) for section in _SECTIONS),
        _left_out(report),
        _sentences("Not reviewed", [str(gap) for gap in report.gaps]),
        _sentences("About this cluster", audited.notes),
        _readiness(report.readiness),
        [report.summary],
    ]
    return "\n\n".join("\n".join(lines) for lines in sections if lines)


def _findings(report: AuditReport, severity: Severity, title: str, colour: str) -> list[str]:
    found = [finding for finding in report.findings if finding.severity is severity]
    if not found:
        return []
    lines = [click.style(title, fg=colour, bold=True)]
    for finding in found[:_MOST_SHOWN]:
        lines += _finding(finding)
    left_out = len(found) - _MOST_SHOWN
    if left_out > 0:
        lines.append(f"  and {left_out} more; -o json tells them")
    return lines


def _left_out(report: AuditReport) -> list[str]:
    count = report.left_out
    told = f"{count} further finding{'s are' if count != 1 else ' is'} left out"
    return [f"{told}: a report has the {MOST_FINDINGS} gravest, and its numbers count all"] if count else []


def _finding(finding: AuditFinding) -> Iterator[str]:
    namespace = f"{finding.namespace}/" if finding.namespace else ""
    more = f" and {finding.count - 1} more" if finding.count > 1 else ""
    of = f" ({_owners(finding.owners)})" if finding.owners else ""
    yield f"  {finding.rule}  {printable(f'{finding.kind} {namespace}{finding.name}{more}{of}')}"
    where = f"{finding.path}: " if finding.path else ""
    yield printable(f"    {where}{finding.message}")
    if finding.remedy:
        yield printable(f"    What to do: {finding.remedy}")


def _owners(owners: Sequence[str]) -> str:
    more = f" and {len(owners) - _OWNERS_SHOWN} more" if len(owners) > _OWNERS_SHOWN else ""
    return f"{', '.join(owners[:_OWNERS_SHOWN])}{more}"


def _sentences(title: str, sentences: Sequence[str]) -> list[str]:
    return [click.style(title, bold=True), *(printable(f"  {each}") for each in sentences)] if sentences else []


def _readiness(rows: Sequence[Readiness]) -> list[str]:
    if not rows:
        return []
    lines = [click.style("Readiness to convert", bold=True), *table(_columns(rows), [_cells(row) for row in rows])]
    for row in rows:
        told = [line for each in row.obstacles for line in _obstacle(each, _fate(each))]
        if row.preemption is not None:
            told += _obstacle(row.preemption, _loss(row.preemption))
        if told:
            lines += [f"{printable(row.namespace)}:", *map(printable, told)]
    return lines


def _columns(rows: Sequence[Readiness]) -> list[Column]:
    width = max(len("NAMESPACE"), *(len(printable(row.namespace)) for row in rows))
    numbers = [Column(title, len(title), right=True) for title, _ in _NUMBERS]
    return [Column("NAMESPACE", width), Column("MODE", len("enabled")), Column("READY", len("READY")), *numbers]


def _cells(row: Readiness) -> list[list[str]]:
    numbers = [[str(getattr(row, name))] for _, name in _NUMBERS]
    return [[printable(row.namespace)], [row.mode.value], ["yes" if row.ready else "no"], *numbers]


def _fate(obstacle: ConversionObstacle) -> str:
    several = obstacle.count > 1
    if obstacle.severity is Severity.DENY:
        return "are refused" if several else "is refused"
    return f"{'stay' if several else 'stays'} with the device plugin"


def _loss(obstacle: ConversionObstacle) -> str:
    return f"{'convert and lose' if obstacle.count > 1 else 'converts and loses'} preemption"


def _obstacle(obstacle: ConversionObstacle, fate: str) -> Iterator[str]:
    more = f" and {obstacle.count - 1} more" if obstacle.count > 1 else ""
    yield f"  {obstacle.workload}{more} {fate} [{obstacle.rule}]"
    yield f"    {obstacle.path}: {obstacle.message}"
    if obstacle.remedy:
        yield f"    What to do: {obstacle.remedy}"
