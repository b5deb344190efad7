"""Reviews of files: reads the objects, reviews them and prints the results."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from policies.request import UserInfo
from policies.settings.workload_kinds import workload_kinds
from webhook.cli.admit import admit
from webhook.cli.folders import NamedFiles, exclusion_of
from webhook.cli.lazy_modules import lazy_module
from webhook.cli.problems import show_problems
from webhook.cli.repository import RepositoryReader
from webhook.cli.review_outputs import PROBLEM_FORMATS, TextOptions
from webhook.cli.review_report import Review, ReviewedObject, findings_of
from webhook.cli.settings import cluster_files
from webhook.cli.subjects import Circumstances, SubjectReader, in_namespace
from webhook.cluster.manifests import ManifestsView

if TYPE_CHECKING:
    from collections.abc import Sequence

    from webhook.cli.folders import Exclusion
    from webhook.cli.progress import Progress
    from webhook.cli.running_clusters.live_facts import RunningCluster

__all__ = ["Circumstances", "TextOptions", "UserInfo", "exclusion_of", "print_review", "review_files"]


def review_files(
    paths: Sequence[str],
    cluster: Sequence[str],
    old: str | None,
    settings: str | None,
    circumstances: Circumstances,
    exclusion: Exclusion | None = None,
    running: RunningCluster | None = None,
    baseline: str | None = None,
    progress: Progress | None = None,
    *,
    strict: bool = False,
    fails_on_warnings: bool = False,
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
        baseline: The file with the known findings, which is not reviewed itself.
        progress: Shows how many objects were reviewed.
        strict: True if other files of folders than manifests are problems; otherwise they are skipped.
        fails_on_warnings: True if a warning counts like a refusal.

    Raises:
        UnreadableInputError: The settings, the cluster or the old objects have problems.
        click.UsageError: The files have no objects.
    """
    reader = RepositoryReader()
    files = cluster_files(cluster, settings, reader) if running is None else running.files(settings, reader)
    files.print_notes()
    before = reader.manifests([old] if old is not None else [])
    is_reliable = not reader.problems
    options = [*(("--cluster", path) for path in cluster), ("--settings", settings), ("--old", old)]
    named = NamedFiles([*options, ("--baseline", baseline)])
    manifests = reader.repository(paths, exclusion, named, strict=strict)
    reviewed = [in_namespace(manifest.object, circumstances.namespace) for manifest in manifests]
    view = ManifestsView(files.facts, reviewed) if running is None else running.view(files.settings, reviewed)
    subject_reader = SubjectReader(circumstances, reader.problems, workload_kinds(files.settings), view)
    subjects = subject_reader.subjects(manifests, before)
    if not is_reliable:
        reader.check()
    if not subjects and not reader.problems:
        skipped = "".join(f"; {line}" for line in reader.others.lines)
        raise click.UsageError(f"nothing to review: no objects in {', '.join(paths)}{skipped}")
    results = (
        admit(subject, view, files.settings)
        for subject in (progress.count("reviewing", subjects) if progress else subjects)
    )
    objects = tuple(ReviewedObject(result, tuple(findings_of(result))) for result in results)
    problems = tuple(dict.fromkeys([*reader.problems, *reader.empty]))
    return Review(objects, problems, tuple(reader.others.lines), fails_on_warnings=fails_on_warnings)


def print_review(review: Review, output: str, options: TextOptions) -> None:
    """Print the results in one format, then what was skipped, and the problems.

    If no object can be read, only formats that show problems have anything to show.

    Raises:
        click.UsageError: The output is `patch`, and the review has not exactly one result.
    """
    if review.objects or output in PROBLEM_FORMATS:
        lazy_module(f"review output {output}").show(review, options)
        for line in review.skipped:
            click.echo(line, err=output != "text")
    # GitHub would read a line as a command if the name of its file begins with colons.
    if review.problems and output != "github":
        show_problems(review.problems, "everything else was reviewed" if review.objects else "nothing was done")
