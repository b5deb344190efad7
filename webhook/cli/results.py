"""Results of a review: reads what is under review, asks about it, and prints the answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from policies.kubernetes.printable import printable
from policies.settings.workload_kinds import workload_kinds
from webhook.cli.admit import admit
from webhook.cli.folders import exclusion_of
from webhook.cli.problems import show_problems
from webhook.cli.report import as_json, as_patch, as_yaml
from webhook.cli.repository import RepositoryReader
from webhook.cli.settings import read_settings, settings_of_facts
from webhook.cli.subjects import in_namespace, subjects_of
from webhook.cli.text import kubectl_lines, text
from webhook.cluster.manifests import ManifestsView

if TYPE_CHECKING:
    from collections.abc import Sequence

    from webhook.cli.admit import Result
    from webhook.cli.folders import Folders
    from webhook.cli.problems import Problem
    from webhook.cli.subjects import Circumstances

__all__ = ["Review", "print_review", "review_of"]

_REFUSED = 1
_UNREADABLE = 2
_GPUS_MISSED = 4


@dataclass(frozen=True, slots=True)
class Review:
    """The results of what could be read, and what else there is."""

    results: tuple[Result, ...]
    problems: tuple[Problem, ...]
    """What could not be read, and is not among the results."""
    skipped: tuple[str, ...]
    """How many files and documents of folders are no manifests; a line for each reason."""

    @property
    def exit_code(self) -> int:
        """2 if something cannot be read, 1 if something is refused, 4 if GPUs are mentioned where nothing was reviewed."""
        if self.problems:
            return _UNREADABLE
        if any(result.is_refused for result in self.results):
            return _REFUSED
        return _GPUS_MISSED if any(result.misses_gpus for result in self.results) else 0


def review_of(
    paths: Sequence[str],
    cluster: Sequence[str],
    old: str | None,
    settings: str | None,
    circumstances: Circumstances,
    folders: Folders,
) -> Review:
    """Read everything, then review what could be read.

    Raises:
        UnreadableInputError: with the problems of all files, if nothing can be reviewed, or nothing can be relied on
            because the settings, the cluster or the old objects cannot be read.
        click.UsageError: there are no objects to review.
    """
    reader = RepositoryReader()
    policy = read_settings(settings, reader)
    facts = reader.cluster(cluster)
    if settings is None:
        policy = settings_of_facts(facts)
    before = reader.manifests([old] if old is not None else [])
    is_reliable = not reader.problems
    exclusion = exclusion_of(folders)
    manifests = reader.repository(paths, exclusion, strict=folders.strict)
    reviewed = [in_namespace(manifest.object, circumstances.namespace) for manifest in manifests]
    view = ManifestsView(facts, reviewed)
    subjects = subjects_of(manifests, before, circumstances, reader, workload_kinds(policy), view)
    if reader.problems and not (is_reliable and subjects):
        reader.fail()
    if not subjects:
        skipped = "".join(f"; {line}" for line in reader.others.lines)
        raise click.UsageError(f"nothing to review: no objects in {', '.join(paths)}{skipped}")
    results = tuple(admit(subject, view, policy) for subject in subjects)
    problems = tuple(dict.fromkeys([*reader.problems, *reader.empty]))
    return Review(results, problems, tuple(reader.others.lines))


def print_review(review: Review, output: str) -> None:
    """Print the results, what was skipped, and the problems.

    Raises:
        click.UsageError: a patch is asked for, and there is not one result.
    """
    _print_results(review.results, output)
    for line in review.skipped:
        click.echo(line, err=output != "text")
    if review.problems:
        show_problems(review.problems, "everything else was reviewed")


def _print_results(results: Sequence[Result], output: str) -> None:
    """Print results as `output` says: `text`, `json`, `yaml` or `patch`.

    Raises:
        click.UsageError: a patch is asked for, and there is not one result.
    """
    match output:
        case "json":
            click.echo(as_json(results), nl=False)
        case "yaml":
            _print_messages(results)
            click.echo(as_yaml(results), nl=False)
        case "patch":
            if len(results) != 1:
                raise click.UsageError(f"-o patch prints the patch of one object, and there are {len(results)}")
            _print_messages(results)
            if not results[0].is_refused:
                click.echo(as_patch(results[0]), nl=False)
        case _:
            click.echo(text(results))


def _print_messages(results: Sequence[Result]) -> None:
    """What kubectl would say, on standard error: standard output is for the documents."""
    for result in results:
        for line in kubectl_lines(result):
            click.echo(line, err=True)
        if result.is_refused:
            subject = result.subject
            where = f"{subject.manifest.file}:{subject.position().line}"
            click.echo(f"{where}: {printable(subject.label)} is left out, because it is refused", err=True)
