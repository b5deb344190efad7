"""Reviews of files: reads the objects, reviews them and prints the results."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from policies.kubernetes.objects import name_of
from policies.kubernetes.printable import printable
from policies.request import UserInfo
from policies.settings.workload_kinds import workload_kinds
from webhook.cli.admit import admit
from webhook.cli.dump import dump_all
from webhook.cli.folders import exclusion_of
from webhook.cli.problems import show_problems
from webhook.cli.repository import RepositoryReader
from webhook.cli.review_text import kubectl_lines, text
from webhook.cli.settings import cluster_files
from webhook.cli.subjects import Circumstances, SubjectReader, in_namespace
from webhook.cli.text_layout import json_text
from webhook.cluster.manifests import ManifestsView

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from webhook.cli.admit import Result
    from webhook.cli.folders import Exclusion
    from webhook.cli.live_facts import RunningCluster
    from webhook.cli.problems import Problem

__all__ = [
    "Circumstances",
    "Review",
    "UserInfo",
    "as_json",
    "as_yaml",
    "exclusion_of",
    "print_review",
    "review_files",
]

_REFUSED = 1
_UNREADABLE = 2
_GPUS_MISSED = 4


@dataclass(frozen=True, slots=True)
class Review:
    """The results of a review, and what could not be reviewed."""

    results: tuple[Result, ...]
    problems: tuple[Problem, ...]
    """What cannot be read."""
    skipped: tuple[str, ...]
    """The numbers of files and documents in folders that are not manifests; a line for each reason."""

    def exit_code(self, *, fails_on_warnings: bool) -> int:
        """2 if input cannot be read, 1 if an object is refused, 4 if one that mentions GPUs was not reviewed.

        Args:
            fails_on_warnings: True if a warning counts like a refusal.
        """
        if self.problems:
            return _UNREADABLE
        if any(result.is_refused or (fails_on_warnings and result.warnings) for result in self.results):
            return _REFUSED
        return _GPUS_MISSED if any(result.misses_gpus for result in self.results) else 0


def review_files(
    paths: Sequence[str],
    cluster: Sequence[str],
    old: str | None,
    settings: str | None,
    circumstances: Circumstances,
    exclusion: Exclusion | None = None,
    running: RunningCluster | None = None,
    *,
    strict: bool = False,
) -> Review:
    """Read everything, then review what can be read.

    Args:
        paths: Files and folders, or `-`.
        cluster: Files and folders with the objects of the cluster.
        old: The file with the objects before an update.
        settings: The file with the administrator's settings; None for those of the cluster.
        circumstances: The parts of requests that manifests lack.
        exclusion: The files of folders to skip.
        running: A running cluster, instead of files.
        strict: True if other files of folders than manifests are problems; otherwise they are skipped.

    Raises:
        UnreadableInputError: No object can be read, or the settings, the cluster or the old objects have problems.
        click.UsageError: The files have no objects.
    """
    reader = RepositoryReader()
    files = cluster_files(cluster, settings, reader) if running is None else running.files(settings, reader)
    files.print_notes()
    before = reader.manifests([old] if old is not None else [])
    is_reliable = not reader.problems
    manifests = reader.repository(paths, exclusion, strict=strict)
    reviewed = [in_namespace(manifest.object, circumstances.namespace) for manifest in manifests]
    view = ManifestsView(files.facts, reviewed) if running is None else running.view(files.settings, reviewed)
    subject_reader = SubjectReader(circumstances, reader.problems, workload_kinds(files.settings), view)
    subjects = subject_reader.subjects(manifests, before)
    if not (is_reliable and subjects):
        reader.check()
    if not subjects:
        skipped = "".join(f"; {line}" for line in reader.others.lines)
        raise click.UsageError(f"nothing to review: no objects in {', '.join(paths)}{skipped}")
    results = tuple(admit(subject, view, files.settings) for subject in subjects)
    problems = tuple(dict.fromkeys([*reader.problems, *reader.empty]))
    return Review(results, problems, tuple(reader.others.lines))


def print_review(review: Review, output: str, *, is_quiet: bool = False, with_diffs: bool = True) -> None:
    """Print the results, what was skipped, and the problems.

    Args:
        review: The review.
        output: The form.
        is_quiet: True to leave out objects without a problem; in text only.
        with_diffs: True to show how objects are changed; in text only.

    Raises:
        click.UsageError: The output is `patch`, and the review has not exactly one result.
    """
    results = review.results
    match output:
        case "json":
            click.echo(as_json(results))
        case "yaml":
            _print_messages(results)
            click.echo(as_yaml(results), nl=False)
        case "patch":
            if len(results) != 1:
                raise click.UsageError(f"-o patch prints the patch of one object, and there are {len(results)}")
            _print_messages(results)
            if not results[0].is_refused:
                click.echo(json_text(list(results[0].patch)))
        case _:
            click.echo(text(results, is_quiet=is_quiet, with_diffs=with_diffs))
    for line in review.skipped:
        click.echo(line, err=output != "text")
    if review.problems:
        show_problems(review.problems, "everything else was reviewed")


def _print_messages(results: Sequence[Result]) -> None:
    """Print what kubectl would print to standard error, because standard output is for the documents."""
    for result in results:
        for line in kubectl_lines(result):
            click.echo(line, err=True)
        if result.is_refused:
            subject = result.subject
            where = f"{subject.manifest.file}:{subject.position().line}"
            click.echo(f"{where}: {printable(subject.label)} is left out, because it is refused", err=True)


def as_json(results: Iterable[Result]) -> str:
    """A list with one mapping for each result."""
    return json_text([_result(result) for result in results])


def as_yaml(results: Iterable[Result]) -> str:
    """The admitted objects, each followed by its new templates, unless a template is itself under review."""
    results = list(results)
    documents = []
    written = {
        (result.subject.request.namespace, result.subject.name)
        for result in results
        if result.subject.request.kind == "ResourceClaimTemplate"
    }
    for result in results:
        if not result.is_refused and result.after is not None:
            documents.append(result.after)
            for template in result.templates:
                if (template.namespace, template.name) not in written:
                    documents.append(template.manifest())
                    written.add((template.namespace, template.name))
    return dump_all(documents)


def _result(result: Result) -> dict[str, Any]:
    subject = result.subject
    findings = []
    for finding in result.findings:
        place = subject.position_of(finding)
        findings.append(
            {
                "rule": finding.rule.id,
                "severity": str(finding.severity),
                "path": str(finding.path),
                "message": finding.message,
                "remedy": finding.remedy,
                "line": place.line,
                "column": place.column,
            }
        )
    return {
        "object": {
            "apiVersion": subject.api_version,
            "kind": subject.request.kind,
            "namespace": subject.request.namespace,
            "name": subject.request.name or name_of(subject.document),
        },
        "source": {"file": subject.manifest.file, "line": subject.position().line},
        "verdict": result.verdict,
        "notReviewed": result.not_reviewed,
        "findings": findings,
        "findingsLeftOut": result.left_out,
        "warnings": list(result.warnings),
        "patch": list(result.patch),
        "templates": [template.manifest() for template in result.templates],
    }
