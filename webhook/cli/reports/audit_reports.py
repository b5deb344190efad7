"""Audits of clusters in files, and audits as text and JSON."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from policies.admission import (
    CONFIGURATIONS,
    doubled_webhooks,
    is_static_configuration,
    outdated_policies,
    uncovered_settings,
)
from policies.analyses.audit import LOSS, MOST_FINDINGS, UNPROVEN, AuditJSON, Survey, audit, audit_json
from policies.fleet.operands import unnamed_namespaces_remark
from policies.kubernetes.names import format_count, format_list, inflect
from policies.kubernetes.objects import DEFAULT_NAMESPACE, in_namespace
from policies.kubernetes.versions import Feature
from policies.kubernetes.view import UNKNOWN
from policies.quota.demands.device_kinds import unlimited_remark
from policies.rules.decision import Severity
from policies.rules.messages import remedy_sentences
from webhook.cli.options import check_namespace_exists
from webhook.cli.progress import current_progress
from webhook.cli.settings import read_cluster_files, read_static
from webhook.cli.text_layout import output_text
from webhook.cluster.manifests import ManifestsView, unwrap_lists
from webhook.pages.report_model import Lines, More, Section, Table, Tone, numbers
from webhook.pages.text_report import render_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from policies.analyses.audit import AuditFinding, AuditReport, ConversionObstacle, ConversionReadiness
    from policies.kubernetes.objects import Object
    from policies.kubernetes.view import ClusterView
    from policies.rules.settings import GPUAdmissionPolicy
    from webhook.cli.cluster_options import ClusterOptions
    from webhook.pages.report_model import Block


_MOST_DOUBLED = 3
"""Names of webhooks in a note."""


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


def audit_files(source: ClusterOptions, static: Sequence[str] = ()) -> Audited:
    """Audit a cluster in files.

    Args:
        source: The files.
        static: Files and folders of the API servers.

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
    notes = (*files.notes, *settings_notes(stored, view, files.settings, read_static(static)))
    survey.add(current_progress().count("auditing", objects))
    current_progress().show("counting what would convert in each namespace")
    return Audited(audit(view, files.settings, survey), notes, view, files.settings)


def as_json(audited: Audited) -> str:
    """The report and the notes as one mapping."""
    return output_text(audit_json(audited.report, audited.notes), AuditJSON)


def settings_notes(
    stored: Sequence[Object], view: ClusterView, policy: GPUAdmissionPolicy, static: Sequence[Object] = ()
) -> list[str]:
    """Notes on settings: not covered by webhooks, or silent about the operator or shares of GPUs.

    Args:
        stored: The webhook configurations of the API.
        view: The cluster.
        policy: The settings in use.
        static: The objects in files of the API server; empty if they are not known.
    """
    place = unnamed_namespaces_remark(view, policy)
    unlimited = unlimited_remark(view, policy.quota) if view.known_objects("GPUQuota") else ""
    notes = [each for each in (place, unlimited) if each]
    in_files = [each for each in static if is_static_configuration(each)]
    notes += (each.text for each in uncovered_settings((*stored, *in_files), policy))
    if doubled := doubled_webhooks(in_files, stored):
        notes.append(
            f"delete the webhook configurations of the API, or the files: {format_list(doubled, _MOST_DOUBLED)} "
            f"{inflect('is', len(doubled))} in both, so each call is made twice"
        )
    if static:
        gate = Feature.ManifestBasedAdmissionControlConfig
        if gate.is_on(view) is False:
            notes.append(
                f"turn on the feature gate {gate.name} of the API servers: without it, they read no admission policies in files"
            )
        notes += outdated_policies(static, policy, (ManifestsView(), view))
    return notes


_SECTIONS = {
    Severity.DENY: ("Would be refused today", Tone.BAD),
    Severity.WARN: ("Warnings", Tone.WARN),
    Severity.AUDIT: ("Worth knowing", Tone.NOTE),
}
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
    by_severity = [
        ([each for each in report.findings if each.severity is severity and not each.waived], title, tone)
        for severity, (title, tone) in _SECTIONS.items()
    ]
    waived = [each for each in report.findings if each.waived]
    left_out = (
        f"{format_count(report.left_out, 'more finding')} not shown: a report has the {MOST_FINDINGS:,} most severe; its "
        "numbers count all"
    )
    sections = [
        *(
            Section(_findings(found), title, tone=tone)
            for found, title, tone in (*by_severity, (waived, "Waived", Tone.PLAIN))
        ),
        Section([Lines([left_out] if report.left_out else [])]),
        Section([Lines([*map(str, report.gaps)], 2)], "Not reviewed"),
        Section([Lines(audited.notes, 2)], "About this cluster"),
        Section([*_readiness(report.readiness)], "Readiness to convert"),
        Section([Lines([report.summary])]),
    ]
    return render_text(sections)


def _findings(found: Sequence[AuditFinding]) -> list[Block]:
    blocks: list[Block] = []
    for finding in found[:_MOST_SHOWN]:
        namespace = f"{finding.namespace}/" if finding.namespace else ""
        more = f" and {finding.count - 1:,} more" if finding.count > 1 else ""
        owners = f" ({format_list(finding.owners, _MOST_OWNERS)})" if finding.owners else ""
        where = f"{finding.path}: " if finding.path else ""
        waived = [f"Waived because {finding.waived}"] if finding.waived else []
        remedies = remedy_sentences("" if waived else finding.remedy, finding.administrator)
        blocks += [
            Lines([f"{finding.rule}  {finding.kind} {namespace}{finding.name}{more}{owners}"], 2),
            Lines([f"{where}{finding.message}", *waived, *remedies], 4),
        ]
    return [*blocks, More(len(found[_MOST_SHOWN:]), 2)]


def _readiness(rows: Sequence[ConversionReadiness]) -> Iterator[Block]:
    counts = {
        title: field
        for title, field in _NUMBERS.items()
        if title not in _SHOWN_IF_ANY or any(getattr(row, field) for row in rows)
    }
    cells = [
        [row.namespace, row.mode.value, _READY[row.is_ready], *(str(getattr(row, each)) for each in counts.values())]
        for row in rows
    ]
    yield Table(["NAMESPACE", "MODE", "READY", *numbers(*counts)], cells)
    for row in rows:
        obstacles = [(each, _result(each)) for each in row.obstacles]
        if row.preemption is not None:
            verbs = "convert and lose" if row.preemption.count > 1 else "converts and loses"
            obstacles.append((row.preemption, f"{verbs} preemption"))
        if obstacles:
            yield Lines([f"{row.namespace}:"])
        for obstacle, result in obstacles:
            more = f" and {obstacle.count - 1:,} more" if obstacle.count > 1 else ""
            where = f"{obstacle.path}: " if obstacle.path else ""
            yield Lines([f"{obstacle.workload}{more} {result} [{obstacle.rule}]"], 2)
            yield Lines([f"{where}{obstacle.message}", *remedy_sentences(obstacle.remedy)], 4)


def _result(obstacle: ConversionObstacle) -> str:
    several = obstacle.count > 1
    if obstacle.rule is LOSS:
        return f"{'convert and lose' if several else 'converts and loses'} something"
    if obstacle.rule is UNPROVEN:
        return f"{'convert, and what they get' if several else 'converts, and what it gets'} is unknown"
    if obstacle.severity is Severity.DENY:
        return "are refused" if several else "is refused"
    return f"{'stay' if several else 'stays'} with the device plugin"
