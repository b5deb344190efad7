"""Plans of changed configuration: reads what changes, reviews it, and plans it against a cluster."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import click

from policies.admission import review
from policies.decision import Severity
from policies.kubernetes.objects import DEFAULT_NAMESPACE, in_namespace
from policies.outcome import Situation
from policies.plan import KINDS, ChangeError, PlannedChange, changed_objects, key_of, plan_change
from policies.request import Request
from policies.settings.workload_kinds import workload_kinds
from policies.view import UNKNOWN, ChangedView
from webhook.cli.admit import admit
from webhook.cli.manifest_reader import ManifestReader
from webhook.cli.options import check_namespace_exists
from webhook.cli.problems import Problem
from webhook.cli.review_report import Review, ReviewedObject, findings_of
from webhook.cli.settings import cluster_files
from webhook.cli.subjects import Circumstances, SubjectReader
from webhook.cluster.manifests import ManifestsView
from webhook.cluster.resources import RESOURCES

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from policies.kubernetes.objects import Object
    from policies.plan import Plan
    from policies.view import ClusterView, Key
    from webhook.cli.manifest_reader import Manifest
    from webhook.cli.progress import Progress
    from webhook.cli.running_clusters.live_facts import RunningCluster

__all__ = ["PlanInput", "PlanReport", "make_plan"]


class PlanInput(NamedTuple):
    """What to plan."""

    paths: Sequence[str]
    """Files, folders, or `-`, with the objects as they are to be applied."""
    deletions: Sequence[str]
    """`KIND/NAME` of objects that are to be deleted."""
    cluster: Sequence[str]
    """Files and folders with the objects of the cluster; empty for a running cluster."""
    namespace: str
    """The only namespace whose pods and quotas are compared; empty for all."""
    settings: str | None
    """The file with the administrator's settings; None for those of the cluster."""


@dataclass(frozen=True, slots=True)
class PlanReport:
    """A plan, or the review that refuses the change."""

    plan: Plan | None
    """None if review refuses something."""
    review: Review | None
    """The review of all objects of the files, if it refuses one."""
    refusals: tuple[str, ...] = ()
    """Why objects and deletions are refused, sentences without full stops."""
    warnings: tuple[str, ...] = ()
    """What review warns about, sentences without full stops."""
    refused_deletions: tuple[str, ...] = ()
    """The refusals that the review of the files does not have."""


def make_plan(given: PlanInput, running: RunningCluster | None, progress: Progress) -> PlanReport:
    """Read everything, review the changed objects, and plan them.

    Args:
        given: What to plan.
        running: A running cluster, instead of the files of one.
        progress: Shows what is done.

    Raises:
        UnreadableInputError: Files have problems, or objects cannot be planned.
        click.UsageError: Nothing would change, or the cluster has no nodes.
        NoNamespaceError: The namespace does not exist.
    """
    reader = ManifestReader()
    files = (
        cluster_files(given.cluster, given.settings, reader)
        if running is None
        else running.files(given.settings, reader)
    )
    files.print_notes()
    manifests = reader.manifests(given.paths)
    view: ClusterView = ManifestsView(files.facts) if running is None else running.view(files.settings, ())
    before = Situation(view, files.settings)
    by_key = _by_key(manifests, given.namespace, before, reader)
    deleted = list(_deleted_keys(given, before, reader))
    reader.check()
    for line in reader.others.lines:
        click.echo(line, err=True)
    if not by_key and not deleted:
        raise click.UsageError(f"nothing to plan: no objects in {', '.join(given.paths)}")
    if view.list("Node") is UNKNOWN:
        raise click.UsageError("nothing to compare with: the cluster has no Nodes, or you may not list them")
    check_namespace_exists(view, given.namespace)
    try:
        objects = changed_objects({key: each.object for key, each in by_key.items()}, deleted, before)
    except ChangeError as error:
        raise click.UsageError(str(error)) from error
    progress.show("reviewing")
    reviewed = _review(by_key, objects, before)
    refusals = tuple(_refused_deletions(deleted, before))
    if refusals or reviewed.exit_code == 1:
        found = (*_findings(reviewed, Severity.DENY), *refusals)
        return PlanReport(None, reviewed, found, refused_deletions=refusals)
    progress.show("planning")
    plan = plan_change(PlannedChange(before, objects, given.namespace))
    return PlanReport(plan, None, (), tuple(_findings(reviewed, Severity.WARN)))


def _by_key(
    manifests: Sequence[Manifest], namespace: str, before: Situation, reader: ManifestReader
) -> dict[Key, Manifest]:
    """The manifests by what they are about; others go to the reader's problems."""
    operator = before.settings.configuration.operator_namespaces[0]
    found: dict[Key, Manifest] = {}
    for manifest in manifests:
        try:
            key = key_of(manifest.object, namespace, operator)
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
        kind = _kind_named(word)
        if kind is None or not name or "/" in name:
            text = f"not KIND/NAME of configuration, such as deviceclass/gpu.nvidia.com; kinds: {', '.join(KINDS)}"
            reader.problems.append(Problem(f"--delete {argument}", text))
            continue
        default = before.settings.configuration.operator_namespaces[0] if kind == "ConfigMap" else DEFAULT_NAMESPACE
        yield kind, (given.namespace or default) if KINDS[kind][1] else "", name


def _kind_named(word: str) -> str | None:
    """The kind of a plan with this name or plural, as kubectl takes them; None if there is none."""
    return next((kind for kind in KINDS if word.lower() in (kind.lower(), RESOURCES[kind].plural)), None)


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
    return Review(found, (), (), fails_on_warnings=False)


def _refused_deletions(deleted: Sequence[Key], before: Situation) -> Iterator[str]:
    for kind, namespace, name in deleted:
        stored = before.view.get(kind, name, namespace)
        if not isinstance(stored, dict):
            continue
        request = Request(
            None, operation="DELETE", group=KINDS[kind][0], kind=kind, namespace=namespace, name=name, old_object=stored
        )
        for finding in review(request, before.view, before.settings).denials:
            yield f"{kind} {name}: {finding.message}; {finding.remedy} [{finding.rule.id}]"


def _findings(reviewed: Review, severity: Severity) -> Iterator[str]:
    """The findings of a severity, sentences without full stops."""
    for each in reviewed.objects:
        subject = each.result.subject
        for finding in each.result.findings:
            if finding.severity is severity and not finding.waived:
                remedy = f"; {finding.remedy}" if finding.remedy else ""
                yield f"{finding.rule.id} {subject.label} {finding.path}: {finding.message}{remedy}"
