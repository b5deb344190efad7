"""Plans of changed configuration: reads what changes, reviews it, and plans it against a cluster."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import click

from policies.admission import review
from policies.analyses.plan import (
    KINDS,
    ChangeError,
    PlanJSON,
    PlannedChange,
    changed_objects,
    default_namespace,
    key_of,
    plan_change,
    plan_json,
)
from policies.kubernetes.names import format_count, format_list, format_ranges, with_capital
from policies.kubernetes.objects import in_namespace
from policies.kubernetes.view import UNKNOWN, ChangedView
from policies.nvidia.mig_products import estimates_clause
from policies.outcome import Outcome, Situation
from policies.rules.decision import Severity
from policies.rules.request import Request
from policies.rules.settings.choices import workload_kinds
from webhook.cli.manifest_reader import ManifestReader, Problem
from webhook.cli.options import check_namespace_exists
from webhook.cli.progress import current_progress
from webhook.cli.review.review_report import Review, ReviewedObject, findings_of
from webhook.cli.settings import read_facts
from webhook.cli.subjects import Circumstances, SubjectReader, admit
from webhook.cli.text_layout import output_text
from webhook.cluster.resources import RESOURCES
from webhook.pages.report_model import Bullets, Column, Paragraph, Section, Table, notes
from webhook.pages.text_report import render_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from policies.analyses.plan import Plan, PlannedEviction
    from policies.kubernetes.objects import Object
    from policies.kubernetes.view import Key
    from policies.outcome import FitComparison
    from webhook.cli.cluster_options import ClusterOptions
    from webhook.cli.manifest_reader import Manifest
    from webhook.cli.settings import RunningFacts


class PlanInput(NamedTuple):
    """The change to plan, and the cluster."""

    paths: Sequence[str]
    """Files, folders, or `-`, with the objects as they are to be applied."""
    deletions: Sequence[str]
    """`KIND/NAME` of objects that are to be deleted."""
    source: ClusterOptions
    """The cluster; only pods and quotas of its namespace are compared."""


@dataclass(frozen=True, slots=True)
class PlanReport:
    """A plan, or the review that refuses the change."""

    plan: Plan | None
    """None if review refuses something."""
    review: Review | None
    """The review of all objects of the files, if it refuses one."""
    refusals: tuple[str, ...] = ()
    """The reasons for refusals of objects and deletions, sentences without full stops."""
    warnings: tuple[str, ...] = ()
    """The warnings of the review, sentences without full stops."""
    refused_deletions: tuple[str, ...] = ()
    """The refusals that the review of the files does not have."""


def make_plan(given: PlanInput, running: RunningFacts | None) -> PlanReport:
    """Read everything, review the changed objects, and plan them.

    Args:
        given: What to plan.
        running: A running cluster, instead of the files of one.

    Raises:
        UnreadableInputError: Files have problems, or objects cannot be planned.
        click.UsageError: Nothing would change, or the cluster has no nodes.
        NoNamespaceError: The namespace does not exist.
    """
    reader = ManifestReader()
    files = read_facts(given.source, running, reader)
    manifests = reader.manifests(given.paths, keeps_nulls=True)
    view = files.view()
    before = Situation(view, files.settings)
    by_key = _by_key(manifests, given.source.namespace, before, reader)
    deleted = list(_deleted_keys(given, before, reader))
    reader.check()
    for line in reader.others.lines:
        current_progress().print_line(line)
    if not by_key and not deleted:
        raise click.UsageError(f"nothing to plan: no objects in {', '.join(given.paths)}")
    if view.list("Node") is UNKNOWN:
        raise click.UsageError("nothing to compare with: the cluster has no Nodes, or you may not list them")
    check_namespace_exists(view, given.source.namespace)
    try:
        objects = changed_objects({key: each.object for key, each in by_key.items()}, deleted, before)
    except ChangeError as error:
        raise click.UsageError(str(error)) from error
    current_progress().show("reviewing")
    reviewed = _review(by_key, objects, before)
    refusals = tuple(_refused_deletions(deleted, before))
    if refusals or reviewed.exit_code == 1:
        found = (*_findings(reviewed, Severity.DENY), *refusals)
        return PlanReport(None, reviewed, found, refused_deletions=refusals)
    current_progress().show("planning")
    plan = plan_change(PlannedChange(before, objects, given.source.namespace))
    return PlanReport(plan, None, (), tuple(_findings(reviewed, Severity.WARN)))


def _by_key(
    manifests: Sequence[Manifest], namespace: str, before: Situation, reader: ManifestReader
) -> dict[Key, Manifest]:
    """The manifests by what they are about; others go to the reader's problems."""
    found: dict[Key, Manifest] = {}
    for manifest in manifests:
        try:
            key = key_of(manifest.object, namespace, before)
        except ChangeError as error:
            reader.problems.append(Problem(manifest.file, str(error), manifest.position()))
            continue
        if key in found:
            where = found[key].position()
            text = f"{key[0]} {key[2]} is there twice, first in {found[key].file}:{where.line}; leave one of them out"
            reader.problems.append(Problem(manifest.file, text, manifest.position()))
        found[key] = manifest
    return found


def _deleted_keys(given: PlanInput, before: Situation, reader: ManifestReader) -> Iterator[Key]:
    for argument in given.deletions:
        word, _, name = argument.partition("/")
        kind = next((kind for kind in KINDS if word.lower() in (kind.lower(), RESOURCES[kind].plural)), None)
        if kind is None or not name or "/" in name:
            text = f"not KIND/NAME of configuration, such as deviceclass/gpu.nvidia.com; kinds: {', '.join(KINDS)}"
            reader.problems.append(Problem(f"--delete {argument}", text))
            continue
        yield kind, default_namespace(kind, name, given.source.namespace, before), name


def _review(by_key: Mapping[Key, Manifest], objects: Mapping[Key, Object | None], before: Situation) -> Review:
    """The review of the objects as they would be stored, new ones as created and others as updated."""
    view = ChangedView(before.view, objects)
    new, updated, old = [], [], []
    for key, manifest in by_key.items():
        kind, namespace, name = key
        stored, after = before.view.get(kind, name, namespace), objects[key]
        whole = replace(manifest, object=after or {})
        if isinstance(stored, dict):
            updated.append(whole)
            old.append(replace(manifest, object=in_namespace(stored, namespace)))
        else:
            new.append(whole)
    kinds = workload_kinds(before.settings)
    subjects = [
        *SubjectReader(Circumstances("CREATE"), [], kinds, view).subjects(new),
        *SubjectReader(Circumstances("UPDATE"), [], kinds, view).subjects(updated, old),
    ]
    results = [admit(subject, view, before.settings) for subject in subjects]
    found = tuple(ReviewedObject(result, tuple(findings_of(result))) for result in results)
    return Review(found, (), ())


def _refused_deletions(deleted: Sequence[Key], before: Situation) -> Iterator[str]:
    for kind, namespace, name in deleted:
        stored = before.view.get(kind, name, namespace)
        if not isinstance(stored, dict):
            continue
        request = Request(
            None, operation="DELETE", group=KINDS[kind][0], kind=kind, namespace=namespace, name=name, old_object=stored
        )
        for finding in review(request, before.view, before.settings).denials:
            yield f"{kind} {name}: {finding}"


def _findings(reviewed: Review, severity: Severity) -> Iterator[str]:
    """The findings of a severity, sentences without full stops."""
    for each in reviewed.objects:
        subject = each.result.subject
        for finding in each.result.findings:
            if finding.severity is severity and not finding.waived:
                yield f"{subject.label}: {finding}"


_MOST_SHOWN = 20
"""Rows of a section; JSON has all of them."""


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
    plan = report.plan
    if plan is None:
        return render_text([Section([Bullets([f"refused: {each}" for each in report.refused_deletions])])], width)
    warnings = [Paragraph(f"Warning: {each}") for each in report.warnings]
    nodes = [
        (each.node, each.before, each.after, "; ".join(filter(None, (*each.reasons, estimates_clause(each.estimates)))))
        for each in plan.nodes
        if each.before != each.after or each.interrupts
    ]
    sections = [
        Section([Paragraph(_summary(plan))]),
        Section([Table(["NODE", "OFFERS NOW", "PREDICTED", Column("BECAUSE", wraps=True)], nodes, _MOST_SHOWN)]),
        *(Section([Bullets(texts, _MOST_SHOWN)], title) for title, texts in _lists(plan).items()),
        Section(warnings),
        Section(notes(plan.remarks)),
        Section([Paragraph(_unaffected_text(plan))]),
    ]
    return render_text(sections, width)


def _summary(plan: Plan) -> str:
    """The plan in one sentence."""
    lost, unknown = plan.fits_with(Outcome.LOST), len(plan.fits_with(Outcome.UNKNOWN)) + len(plan.unknown)
    limits = len(plan.broken_limits)
    refused = len(plan.new_refusals)
    stopped = sum(bool(each.refusal) for each in plan.nodes)
    parts = [
        f"the device plugin would exit on {format_count(stopped, 'node')}" if stopped else "",
        f"{format_count(len(plan.disrupted), 'pod')} would be disrupted" if plan.disrupted else "",
        f"{format_count(len(plan.evictions.ended), 'pod')} would end" if plan.evictions.ended else "",
        f"{format_count(len(lost), 'workload')} would not start again as before" if lost else "",
        *(f"{format_count(pods, 'pod')} would get {gist}" for gist, pods in plan.changed_pods.items()),
        f"{format_count(limits, 'limit')} of quotas would count or allow something else" if limits else "",
        f"quotas would refuse {format_count(refused, 'workload')}" if refused else "",
        f"{format_count(unknown, 'question')} cannot be answered" if unknown else "",
    ]
    return f"{with_capital('; '.join(filter(None, parts)) or 'nothing would break')}."


def _lists(plan: Plan) -> dict[str, list[str]]:
    """The pods, workloads and quotas with an outcome, by the title above them."""
    disrupted = [
        f"{each.name}{f' ({each.workload})' if each.workload else ''} on {each.node}: {each.why}; {each.remedy}"
        for each in plan.disrupted
    ]
    evicted = [
        f"{each.name}{f' ({each.workload})' if each.workload else ''} on {each.node} ends {each.when}: {_devices_text(each)} "
        f"the taint {each.taint}; {each.afterwards}"
        for each in plan.evictions.ended
    ]
    freed = [f"{each.label}: {each.sentence}" for each in plan.evictions.freed]
    lost, changed, unknown = (
        [(each, f"{_subject(each)}: {each.sentence.removeprefix('unknown: ')}") for each in plan.fits_with(outcome)]
        for outcome in (Outcome.LOST, Outcome.CHANGED, Outcome.UNKNOWN)
    )
    limits = {
        outcome: [f"{each.label}: {each.sentence}" for each in plan.limits if each.outcome is outcome]
        for outcome in (Outcome.LOST, Outcome.GAINED, Outcome.UNKNOWN)
    }
    kept = [each for each in plan.limits if each.outcome is Outcome.KEPT and each.is_changed]
    again = "when a pod of it starts again"
    refused = [f"{each.subject.label}, {again}: {each.sentence}" for each in plan.new_refusals]
    admitted = [
        f"{each.subject.label}, {again}: no longer refused; before, {each.sentence}"
        for each in plan.refusals
        if not each.is_new
    ]
    return {
        "Disrupted now:": disrupted,
        "Would end because of taints of devices:": evicted,
        "Would no longer end:": list(plan.evictions.kept),
        "Could start:": [f"{each.subject} on {format_list(each.nodes, 3)}" for each in plan.found_places],
        "Would not start again:": [f"{text}; {plan.remedies[each.subject.label]}" for each, text in lost],
        "Would get other GPUs:": [f"{text}; {plan.remedies[each.subject.label]}" for each, text in changed],
        "Quotas:": [*limits[Outcome.LOST], *refused, *freed],
        "Quotas that allow more:": [*limits[Outcome.GAINED], *admitted],
        "Quotas that still suffice:": [f"{each.label}: {each.sentence}" for each in kept],
        "Unknown:": [*plan.unknown, *(text for _, text in unknown), *limits[Outcome.UNKNOWN]],
    }


def _devices_text(eviction: PlannedEviction) -> str:
    """The devices with a taint as the beginning of a sentence: `gpu-0 gets`."""
    names = [each.rpartition("/")[2] for each in eviction.devices]
    return f"{format_ranges(names)} {'gets' if len(names) == 1 else 'get'}"


def _subject(each: FitComparison) -> str:
    """The subject, and its pods if it is not one pod itself."""
    pods = each.subject.pod_names
    is_named = not pods or (len(pods) == 1 and each.subject.label == f"pod {pods[0]}")
    return each.subject.label if is_named else f"{each.subject.label} ({format_list(pods, 3)})"


def _unaffected_text(plan: Plan) -> str:
    """The counts of workloads and limits that stay as they are."""
    kept, gained = plan.fits_with(Outcome.KEPT), plan.fits_with(Outcome.GAINED)
    subjects = [*(each.subject for each in kept), *plan.unaffected]
    pods = sum(len(each.pods) for each in subjects)
    parts = [f"Not affected: {format_count(len(subjects), 'workload')} with {format_count(pods, 'pod')}."]
    if gained:
        parts.append(f"Gains a place: {format_list([each.subject.label for each in gained], 3)}.")
    limits = sum(not each.is_changed for each in plan.limits)
    if limits:
        stay = "stays as it is" if limits == 1 else "stay as they are"
        parts.append(f"{format_count(limits, 'limit')} of quotas {stay}.")
    return " ".join(parts)
