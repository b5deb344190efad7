"""Audits of clusters in files, and audits as text and JSON."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from policies.admission.installed import uncovered_settings
from policies.admission.webhooks import CONFIGURATIONS
from policies.analyses.audit import LOSS, MOST_FINDINGS, UNPROVEN, AuditJSON, Survey, audit, audit_json
from policies.kubernetes.names import format_count, format_list, printable
from policies.kubernetes.objects import DEFAULT_NAMESPACE, in_namespace
from policies.kubernetes.view import UNKNOWN
from policies.rules.decision import Severity
from webhook.cli.options import check_namespace_exists
from webhook.cli.progress import Progress
from webhook.cli.settings import read_cluster_files
from webhook.cli.text_layout import Column, fitted_columns, output_text, table, truncation
from webhook.cluster.manifests import ManifestsView, unwrap_lists

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from policies.analyses.audit import AuditFinding, AuditReport, ConversionObstacle, ConversionReadiness
    from policies.kubernetes.objects import Object
    from policies.kubernetes.view import ClusterView
    from policies.rules.settings import GPUAdmissionPolicy
    from webhook.cli.cluster_options import ClusterOptions


@dataclass(frozen=True, slots=True)
class Published:
    """The result of publishing the reports of an audit."""

    summary: str
    """The numbers in one line."""
    problems: tuple[str, ...]
    """The reasons why some reports are not up to date; sentences without full stops."""


@dataclass(frozen=True, slots=True)
class Audited:
    """A report, and notes on settings and on kinds that cannot be read."""

    report: AuditReport
    notes: tuple[str, ...]
    """Sentences without full stops."""
    view: ClusterView
    """The cluster that was audited."""
    settings: GPUAdmissionPolicy
    server: str = ""
    """The URL of the API server; empty for files."""
    published: Published | None = None
    """The published reports for policy tools; None if none were written."""


def audit_files(source: ClusterOptions) -> Audited:
    """Audit a cluster in files.

    Raises:
        UnreadableInputError: Files have problems.
        click.UsageError: The files have no objects.
        NoNamespaceError: The namespace does not exist.
    """
    files = read_cluster_files(source.cluster, source.settings)
    objects = [in_namespace(item, DEFAULT_NAMESPACE) for fact in files.facts for item in unwrap_lists(fact)]
    if not objects:
        raise click.UsageError(f"nothing to audit: no objects in {', '.join(source.cluster)}")
    view = ManifestsView(files.facts)
    check_namespace_exists(view, source.namespace)
    survey = Survey(view, files.settings, source.namespace)
    for _, kind in survey.kinds:
        if view.list(kind, source.namespace) is UNKNOWN:
            survey.miss(kind)
    stored = [found for kind, name in CONFIGURATIONS if isinstance(found := view.get(kind, name), dict)]
    notes = (*files.notes, *uncovered_notes(stored, files.settings))
    with Progress() as progress:
        survey.add(progress.count("auditing", objects))
        return Audited(audit(view, files.settings, survey), notes, view, files.settings)


def as_json(audited: Audited) -> str:
    """The report and the notes as one mapping."""
    return output_text(audit_json(audited.report, audited.notes), AuditJSON)


def uncovered_notes(stored: Sequence[Object], policy: GPUAdmissionPolicy) -> list[str]:
    """Notes on settings that the stored webhook configurations do not cover."""
    return [f"{path}: {sentence}" for path, sentence in uncovered_settings(stored, policy)]


_SECTIONS = (
    (Severity.DENY, "Would be refused today", "red"),
    (Severity.WARN, "Warnings", "yellow"),
    (Severity.AUDIT, "Worth knowing", "cyan"),
)
_MOST_SHOWN = 50
"""Findings of a section; JSON has all of them."""
_MOST_OWNERS = 3
_READY = {True: "yes", False: "no", None: "unknown"}
_NUMBERS = {
    "WORKLOADS": "workloads",
    "CONVERT": "converts",
    "LOSE": "loses",
    "UNKNOWN": "unknown",
    "REFUSED": "refused",
    "LEFT": "left",
}
_SHOWN_IF_ANY = ("LOSE", "UNKNOWN")
"""Columns that are left out where all numbers are 0."""


def text(audited: Audited) -> str:
    """The report in sections."""
    report = audited.report
    sections = [
        *(_findings(report, *section) for section in _SECTIONS),
        _section([each for each in report.findings if each.waived], click.style("Waived", bold=True)),
        _left_out(report),
        _sentences("Not reviewed", [str(gap) for gap in report.gaps]),
        _sentences("About this cluster", audited.notes),
        _readiness(report.readiness),
        [report.summary],
    ]
    return "\n\n".join("\n".join(lines) for lines in sections if lines)


def _findings(report: AuditReport, severity: Severity, title: str, colour: str) -> list[str]:
    found = [each for each in report.findings if each.severity is severity and not each.waived]
    return _section(found, click.style(title, fg=colour, bold=True))


def _section(found: Sequence[AuditFinding], title: str) -> list[str]:
    if not found:
        return []
    lines = [title]
    for finding in found[:_MOST_SHOWN]:
        lines += _finding_lines(finding)
    return [*lines, *(f"  {line}" for line in truncation(len(found), _MOST_SHOWN))]


def _left_out(report: AuditReport) -> list[str]:
    count = report.left_out
    more = format_count(count, "more finding")
    return [f"{more} not shown: a report has the {MOST_FINDINGS:,} most severe; its numbers count all"] if count else []


def _finding_lines(finding: AuditFinding) -> Iterator[str]:
    namespace = f"{finding.namespace}/" if finding.namespace else ""
    more = f" and {finding.count - 1:,} more" if finding.count > 1 else ""
    owners = f" ({format_list(finding.owners, _MOST_OWNERS)})" if finding.owners else ""
    yield f"  {finding.rule}  {printable(f'{finding.kind} {namespace}{finding.name}{more}{owners}')}"
    where = f"{finding.path}: " if finding.path else ""
    yield printable(f"    {where}{finding.message}")
    if finding.waived:
        yield f"    Waived because {finding.waived}"
    elif finding.remedy:
        yield printable(f"    What to do: {finding.remedy}")


def _sentences(title: str, sentences: Sequence[str]) -> list[str]:
    return [click.style(title, bold=True), *(printable(f"  {each}") for each in sentences)] if sentences else []


def _readiness(rows: Sequence[ConversionReadiness]) -> list[str]:
    if not rows:
        return []
    numbers = {
        title: field
        for title, field in _NUMBERS.items()
        if title not in _SHOWN_IF_ANY or any(getattr(row, field) for row in rows)
    }
    cells = [
        [
            printable(row.namespace),
            row.mode.value,
            _READY[row.is_ready],
            *(str(getattr(row, each)) for each in numbers.values()),
        ]
        for row in rows
    ]
    columns = fitted_columns(("NAMESPACE", "MODE", "READY"), cells)
    columns[1] = Column("MODE", len("enabled"))
    columns += [Column(title, len(title), right=True) for title in numbers]
    lines = [click.style("Readiness to convert", bold=True), *table(columns, cells)]
    for row in rows:
        obstacles = [line for each in row.obstacles for line in _obstacle(each, _result(each))]
        if row.preemption is not None:
            obstacles += _obstacle(
                row.preemption, f"{'convert and lose' if row.preemption.count > 1 else 'converts and loses'} preemption"
            )
        if obstacles:
            lines += [f"{printable(row.namespace)}:", *map(printable, obstacles)]
    return lines


def _result(obstacle: ConversionObstacle) -> str:
    several = obstacle.count > 1
    if obstacle.rule is LOSS:
        return f"{'convert and lose' if several else 'converts and loses'} something"
    if obstacle.rule is UNPROVEN:
        return f"{'convert, and what they get' if several else 'converts, and what it gets'} is unknown"
    if obstacle.severity is Severity.DENY:
        return "are refused" if several else "is refused"
    return f"{'stay' if several else 'stays'} with the device plugin"


def _obstacle(obstacle: ConversionObstacle, result: str) -> Iterator[str]:
    more = f" and {obstacle.count - 1:,} more" if obstacle.count > 1 else ""
    yield f"  {obstacle.workload}{more} {result} [{obstacle.rule}]"
    yield f"    {obstacle.path}: {obstacle.message}" if obstacle.path else f"    {obstacle.message}"
    if obstacle.remedy:
        yield f"    What to do: {obstacle.remedy}"
