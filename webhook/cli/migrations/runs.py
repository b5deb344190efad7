"""A run of `gpu-admission migrate`: reads everything, migrates it in memory, then writes."""

from __future__ import annotations

from difflib import unified_diff
from typing import TYPE_CHECKING, Literal

import click

from policies.kubernetes.objects import in_namespace
from policies.kubernetes.printable import printable
from webhook.cli.dump import colour_line
from webhook.cli.file_replacement import replace_file
from webhook.cli.folders import NamedFiles
from webhook.cli.migrations.files import MigrationReader
from webhook.cli.migrations.hints import manual_changes
from webhook.cli.migrations.outcomes import Migration
from webhook.cli.migrations.to_claims import Migrator
from webhook.cli.migrations.to_device_plugin import restore_file
from webhook.cli.settings import cluster_files
from webhook.cluster.manifests import ManifestsView

if TYPE_CHECKING:
    from collections.abc import Sequence

    from webhook.cli.migrations.outcomes import FileOutcome
    from webhook.cli.running_clusters.live_facts import RunningCluster

__all__ = ["migrate_files", "print_diffs", "print_report", "print_texts", "write_files"]

_UNKNOWN_CLUSTER = (
    "Note: the cluster is unknown, so nvidia.com/gpu counts as a whole GPU, and defaults of namespaces are not applied; give "
    "--cluster or --live if nodes share GPUs or use the MIG strategy single"
)


class UnwritableFileError(click.ClickException):
    """A file cannot be written."""

    exit_code = 2


def migrate_files(
    paths: Sequence[str],
    cluster: Sequence[str],
    settings: str | None,
    namespace: str,
    running: RunningCluster | None,
    to: Literal["dra", "device-plugin"],
) -> Migration:
    """Migrate the objects of files and folders in memory.

    Raises:
        UnreadableInputError: Some of the input cannot be read; nothing is migrated then.
        click.UsageError: The files have no objects.
    """
    reader = MigrationReader()
    files = cluster_files(cluster, settings, reader) if running is None else running.files(settings, reader)
    files.print_notes()
    named = NamedFiles([*(("--cluster", path) for path in cluster), ("--settings", settings)])
    manifests = reader.repository(paths, None, named)
    reader.problems += reader.empty
    reader.check()
    reviewed = [in_namespace(manifest.object, namespace) for manifest in manifests]
    view = ManifestsView(files.facts, reviewed) if running is None else running.view(files.settings, reviewed)
    migrator = Migrator(reader.files.values(), namespace, view, files.settings)
    outcome = Migration(skipped=tuple(reader.others.lines))
    for file in reader.files.values():
        if to == "dra":
            migrator.migrate_file(file, outcome)
        else:
            restore_file(file, migrator, outcome)
    if to == "dra":
        manual = list(manual_changes(paths, outcome.files, named))
        outcome.has_manual_changes = bool(manual)
        outcome.notes += manual
    if not manifests and not outcome.notes:
        raise click.UsageError(f"nothing to migrate: no objects in {', '.join(paths)}")
    if running is None and not cluster and any(line.kind == "migrated" for line in outcome.lines):
        outcome.notes.append(_UNKNOWN_CLUSTER)
    return outcome


def print_report(outcome: Migration) -> None:
    """Print to standard error what happened to each object, and what is to be done by hand."""
    for line in outcome.lines:
        if line.kind != "unchanged":
            click.echo(str(line), err=True)
    for note in outcome.notes:
        click.echo(note, err=True)
    for text in outcome.skipped:
        click.echo(text, err=True)
    click.echo(outcome.summary, err=True)


def print_diffs(outcome: Migration) -> None:
    """Print a unified diff of each file that changes."""
    for file in outcome.files:
        for line in _diff(file):
            click.echo(colour_line(line), nl=False)


def print_texts(outcome: Migration) -> None:
    """Print the whole new texts; those of several files are divided by `---` and a comment with the file."""
    for file in outcome.files:
        if len(outcome.files) > 1:
            click.echo(f"---\n# Source: {printable(file.file.name)}")
        click.echo(file.after, nl=len(outcome.files) > 1 and not file.after.endswith("\n"))


def write_files(outcome: Migration) -> None:
    """Write the files that change, each as a whole.

    Raises:
        UnwritableFileError: A file cannot be written; the message says which were.
    """
    changed = [file for file in outcome.files if file.is_changed]
    for number, file in enumerate(changed):
        try:
            replace_file(file.file.name, file.file.encode(file.after))
        except OSError as error:
            written = ", ".join(each.file.name for each in changed[:number]) or "no file"
            reason = (error.strerror or "cannot be written").lower()
            message = f"{file.file.name}: {reason}; written: {written}; the others are as before"
            raise UnwritableFileError(message) from error


def _diff(file: FileOutcome) -> list[str]:
    name = printable(file.file.name)
    before, after = file.file.text.split("\n"), file.after.split("\n")
    return [
        line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"
        for line in unified_diff(_with_breaks(before), _with_breaks(after), name, name)
    ]


def _with_breaks(lines: list[str]) -> list[str]:
    """The lines with their line breaks; the last one has none."""
    return [*(f"{line}\n" for line in lines[:-1]), *([lines[-1]] if lines[-1] else [])]
