"""Results of a review: reads what is under review, asks about it, and prints the answers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from policies.kubernetes.printable import printable
from webhook.cli.admit import admit
from webhook.cli.documents import Reader
from webhook.cli.report import as_json, as_patch, as_yaml
from webhook.cli.settings import read_settings
from webhook.cli.subjects import in_namespace, subjects_of
from webhook.cli.text import kubectl_lines, text
from webhook.cluster.manifests import ManifestsView

if TYPE_CHECKING:
    from collections.abc import Sequence

    from webhook.cli.admit import Result
    from webhook.cli.subjects import Circumstances

__all__ = ["print_results", "results_of"]


def results_of(
    paths: Sequence[str], cluster: Sequence[str], old: str | None, settings: str | None, circumstances: Circumstances
) -> list[Result]:
    """Read everything, then review everything.

    Raises:
        UnreadableInputError: with the problems of all files.
    """
    reader = Reader()
    policy = read_settings(settings, reader)
    facts = reader.cluster(cluster)
    before = reader.manifests([old] if old is not None else [])
    manifests = reader.manifests(paths)
    subjects = subjects_of(manifests, before, circumstances, reader)
    if reader.problems:
        reader.fail()
    if not subjects:
        raise click.UsageError(f"nothing to review: no objects in {', '.join(paths)}")
    reviewed = [in_namespace(manifest.object, circumstances.namespace) for manifest in manifests]
    view = ManifestsView(facts, reviewed)
    return [admit(subject, view, policy) for subject in subjects]


def print_results(results: Sequence[Result], output: str) -> None:
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
            if results[0].allowed:
                click.echo(as_patch(results[0]), nl=False)
        case _:
            click.echo(text(results))


def _print_messages(results: Sequence[Result]) -> None:
    """What kubectl would say, on standard error: standard output is for the documents."""
    for result in results:
        for line in kubectl_lines(result):
            click.echo(line, err=True)
        if not result.allowed:
            subject = result.subject
            where = f"{subject.manifest.file}:{subject.position().line}"
            click.echo(f"{where}: {printable(subject.label)} is left out, because it is refused", err=True)
