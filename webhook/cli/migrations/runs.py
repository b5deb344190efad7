"""Migration of files to claims."""

from __future__ import annotations

import os
from difflib import unified_diff
from typing import TYPE_CHECKING, Any, Literal

import click

from policies.analyses.migrate.objects import MigratedObject, migrate_object
from policies.analyses.migrate.text_edits import UneditableError
from policies.analyses.migrate.texts import (
    TextChange,
    changed_text,
    gpu_templates,
    identity_of,
    names_template,
    restored_text,
    with_specs,
)
from policies.conversion.templates import without_nulls
from policies.kubernetes.names import printable
from policies.kubernetes.objects import DEFAULT_NAMESPACE, Object, in_namespace, lookup, name_of, namespace_of
from policies.kubernetes.yaml import scan_documents
from policies.rules.decision import TEMPLATE, Severity
from webhook.cli.folders import NamedFiles
from webhook.cli.manifest_reader import LIMITS
from webhook.cli.migrations.files import FileOutcome, Line, Migration, MigrationReader, label_of, manual_changes
from webhook.cli.progress import current_progress
from webhook.cli.settings import read_facts
from webhook.cli.text_layout import escaped_text
from webhook.cli.user_files import reason_of, replace_file
from webhook.cluster.manifests import unwrap_lists
from webhook.pages.text_report import colour_diff_line, print_lines

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from policies.kubernetes.view import ClusterView
    from policies.rules.settings import GPUAdmissionPolicy
    from webhook.cli.cluster_options import ClusterOptions
    from webhook.cli.manifest_reader import Manifest
    from webhook.cli.migrations.files import SourceFile
    from webhook.cli.settings import RunningFacts


class Migrator:
    """Migrates the objects of files to claims."""

    def __init__(
        self, files: Iterable[SourceFile], namespace: str, view: ClusterView, settings: GPUAdmissionPolicy
    ) -> None:
        """`namespace` is that of objects without one; empty for `default`."""
        self._namespace = namespace or DEFAULT_NAMESPACE
        self._view = view
        self._settings = settings
        self._taken = {
            (self.namespace_of(manifest.object), name_of(manifest.object))
            for file in files
            for manifest in file.manifests
            if manifest.object["kind"] == TEMPLATE
        }

    def namespace_of(self, document: Object) -> str:
        """The namespace of an object."""
        return namespace_of(document) or self._namespace

    def migrate(self, document: Object) -> MigratedObject:
        """The migrated object; the names of its templates are taken then."""
        namespace = self.namespace_of(document)

        def is_taken(name: str, spec: Any) -> bool:
            if (namespace, name) in self._taken:
                return True
            found = self._view.get(TEMPLATE, name, namespace)
            return isinstance(found, dict) and without_nulls(found.get("spec")) != spec

        migrated = migrate_object(document, namespace, self._view, self._settings, is_taken)
        self._taken |= {(namespace, name_of(template)) for template in migrated.templates}
        return migrated

    def migrate_file(self, file: SourceFile, outcome: Migration) -> None:
        """Add the outcome of a file; an object that cannot be edited is left, and the others are migrated."""
        changes: list[tuple[Manifest, TextChange]] = []
        for manifest in file.manifests:
            found: Object = lookup(manifest.document.value, manifest.path) if manifest.path else manifest.document.value
            document = found
            migrated = self.migrate(manifest.object)
            reason = _unwritable(manifest, migrated)
            if migrated.after is None or reason:
                outcome.lines += self._left_lines(manifest, migrated, reason)
                continue
            place = manifest.document.position(())
            about = f"the claim of {manifest.object['kind']} {name_of(document)}".rstrip()
            after = {key: value for key, value in migrated.after.items() if key in document}
            change = TextChange((place.line, place.column), manifest.path, document, after, migrated.templates, about)
            changes.append((manifest, change))
            outcome.lines += self._migrated_lines(manifest, migrated)
        outcome.files.append(FileOutcome(file, self._write(file, changes, outcome)))

    def _write(self, file: SourceFile, changes: list[tuple[Manifest, TextChange]], outcome: Migration) -> str:
        result, written = file.text, list[TextChange]()
        # Halves are tried first, so that one object that cannot be edited costs few readings of a long text.
        waiting = [changes] if changes else []
        while waiting:
            tried = waiting.pop()
            try:
                result = changed_text(file.text, [*written, *(change for _, change in tried)], LIMITS)
                written += [change for _, change in tried]
            except UneditableError as error:
                if len(tried) == 1:
                    self._leave(tried[0][0], str(error), outcome)
                else:
                    half = len(tried) // 2
                    waiting += [tried[half:], tried[:half]]
        return result

    def _leave(self, manifest: Manifest, reason: str, outcome: Migration) -> None:
        """Replace the lines about an object, which turns out to have no editable text."""
        label, place = self._label(manifest), manifest.position()
        outcome.lines[:] = [
            line for line in outcome.lines if (line.file, line.position, line.label) != (manifest.file, place, label)
        ]
        outcome.lines.append(Line("left", manifest.file, place, label, reason))

    def _label(self, manifest: Manifest) -> str:
        return label_of(manifest.object, self.namespace_of(manifest.object))

    def _migrated_lines(self, manifest: Manifest, migrated: MigratedObject) -> list[Line]:
        place, label = manifest.position(), self._label(manifest)
        names = ", ".join(map(name_of, migrated.templates))
        text = f"to ResourceClaimTemplate {names}" if names else "its requests of 0 GPUs are removed"
        texts = (*map(str, migrated.findings), *migrated.notices)
        warnings = [Line("warning", manifest.file, place, label, each) for each in texts]
        return [Line("migrated", manifest.file, place, label, text), *warnings]

    def _left_lines(self, manifest: Manifest, migrated: MigratedObject, reason: str) -> list[Line]:
        label = self._label(manifest)
        if not migrated.is_left and not reason:
            return [Line("unchanged", manifest.file, manifest.position(), label)]
        refusals = [each for each in migrated.findings if each.severity is Severity.DENY] or migrated.findings
        lines = [
            Line("left", manifest.file, manifest.line_position(each.path), label, str(each)) for each in refusals[:1]
        ]
        texts = [reason] if reason else list(migrated.reasons[:1]) if not lines else []
        return [*(Line("left", manifest.file, manifest.position(), label, text) for text in texts), *lines][:1]


def _unwritable(manifest: Manifest, migrated: MigratedObject) -> str:
    """The reason to leave the text of an object that would be migrated; empty if it is rewritten."""
    if migrated.after is None:
        return ""
    if manifest.document.duplicates:
        return "its document has duplicate keys, of which only the last counts; remove the others"
    steps = range(0, len(manifest.path), 2)
    kinds = [lookup(manifest.document.value, (*manifest.path[:step], "kind")) for step in steps]
    other = next((kind for kind in kinds if kind != "List"), None)
    if other is not None and migrated.templates:
        return f"a {other} cannot hold its template; write a List"
    return ""


_NO_MARKS = "its claim has no marks of a migration; write its GPUs into resources.limits by hand"
_EDITED = (
    "its claim differs from the one that the marked lines give: it was edited, or migrated with other facts of the cluster; "
    "give the same --cluster, or edit it by hand"
)


def restore_file(file: SourceFile, migrator: Migrator, outcome: Migration) -> None:
    """Add the outcome of a file. It is restored as a whole, or left as a whole."""
    text = file.text
    templates = gpu_templates(manifest.object for manifest in file.manifests)
    migrated = [each for each in file.manifests if names_template(each.object, templates)]
    try:
        after = restored_text(text, LIMITS)
        documents, errors = scan_documents(after, limits=LIMITS, keeps_duplicates=True)
        found = () if errors else (each for document in documents for each in unwrap_lists(document.value))
        restored = {identity_of(each): each for each in found}
        migrated = [each for each in file.manifests if each in migrated or _differs(each, migrated, restored)]
        problems = _problems(restored, migrated, templates, migrator)
    except UneditableError as error:
        after, problems = text, {identity_of(each.object): str(error) for each in migrated}
    if problems:
        after = text
    for manifest in file.manifests:
        document = manifest.object
        if manifest not in migrated and _is_template_of(document, migrated):
            continue
        place, label = manifest.position(), label_of(document, migrator.namespace_of(document))
        if manifest not in migrated:
            outcome.lines.append(Line("unchanged", manifest.file, place, label))
        elif problem := problems.get(identity_of(document)):
            outcome.lines.append(Line("left", manifest.file, place, label, problem))
        elif problems:
            text_left = "another object of its file cannot be turned back"
            outcome.lines.append(Line("left", manifest.file, place, label, text_left))
        else:
            outcome.lines.append(Line("migrated", manifest.file, place, label, "back to the device plugin"))
    outcome.files.append(FileOutcome(file, after))


def _is_template_of(document: Object, migrated: Iterable[Manifest]) -> bool:
    """True if a migrated object refers to a template, which goes with it."""
    name = {name_of(document): ""}
    return document["kind"] == TEMPLATE and any(names_template(each.object, name) for each in migrated)


def _differs(manifest: Manifest, migrated: list[Manifest], restored: Mapping[tuple[str, ...], Object]) -> bool:
    """True for an object that restoration changes or removes, besides the templates of migrated objects."""
    document = manifest.object
    return restored.get(identity_of(document)) != document and not _is_template_of(document, migrated)


def _problems(
    restored: Mapping[tuple[str, ...], Object], migrated: list[Manifest], templates: dict[str, str], migrator: Migrator
) -> dict[tuple[str, ...], str]:
    """The reasons not to turn objects back, by identity: a second migration must give the object again."""
    problems = {}
    for manifest in migrated:
        identity = identity_of(manifest.object)
        before = restored.get(identity)
        if before is None:
            problems[identity] = "the marked lines cannot be read; edit it by hand"
        elif before == manifest.object:
            problems[identity] = _NO_MARKS
        else:
            again = migrator.migrate(before)
            specs = {**templates, **gpu_templates(again.templates)}
            if with_specs(again.after, specs) != with_specs(manifest.object, templates):
                problems[identity] = _EDITED
    return problems


_UNKNOWN_CLUSTER = (
    "Note: the cluster is unknown, so nvidia.com/gpu counts as a whole GPU, and defaults of namespaces are not applied; give "
    "--cluster or --live if nodes share GPUs or use the MIG strategy single"
)


def migrate_files(
    paths: Sequence[str], source: ClusterOptions, running: RunningFacts | None, to: Literal["dra", "device-plugin"]
) -> Migration:
    """Migrate the objects of files and folders in memory.

    Raises:
        UnreadableInputError: Some of the input cannot be read; nothing is migrated then.
        click.UsageError: The files have no objects.
    """
    reader = MigrationReader()
    files = read_facts(source, running, reader)
    named = NamedFiles([*(("--cluster", path) for path in source.cluster), ("--settings", source.settings)])
    manifests = reader.repository(paths, None, named)
    reader.problems += reader.empty
    reader.check()
    reviewed = [in_namespace(manifest.object, source.namespace) for manifest in manifests]
    migrator = Migrator(reader.files.values(), source.namespace, files.view(reviewed), files.settings)
    outcome = Migration(skipped=tuple(reader.others.lines))
    for file in current_progress().count("migrating", list(reader.files.values())):
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
    if running is None and not source.cluster and any(line.kind == "migrated" for line in outcome.lines):
        outcome.notes.append(_UNKNOWN_CLUSTER)
    return outcome


def print_report(outcome: Migration) -> None:
    """Print to standard error what happened to each object, and what is to be done by hand."""
    done = (str(line) for line in outcome.lines if line.kind != "unchanged")
    print_lines((*done, *outcome.notes, *outcome.skipped, outcome.summary), err=True)


def print_diffs(outcome: Migration) -> None:
    """Print a unified diff of each file that changes, with escapes for what cannot be printed."""
    for file in outcome.files:
        name = printable(file.file.name)
        before, after = file.file.text.split("\n"), file.after.split("\n")
        for line in unified_diff(_with_breaks(before), _with_breaks(after), name, name):
            whole = line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"
            click.echo(colour_diff_line(escaped_text(whole)), nl=False)


def print_texts(outcome: Migration) -> None:
    """Print the whole new texts; those of several files are divided by `---` and a comment with the file."""
    for file in outcome.files:
        if len(outcome.files) > 1:
            click.echo(f"---\n# Source: {printable(file.file.name)}")
        click.echo(file.after, nl=len(outcome.files) > 1 and not file.after.endswith("\n"))


def write_files(outcome: Migration, paths: Sequence[str]) -> None:
    """Write the files that change, each as a whole.

    A file is left, and its objects are reported with the reason, if it is another than the one that was read, if it is
    outside of what `paths` name, or if it cannot be written.
    """
    roots = [os.path.realpath(path) for path in paths]
    for each in outcome.files:
        file = each.file
        if each.is_changed and file.version is not None:
            target = os.path.realpath(file.name)
            if not any(os.path.commonpath((root, target)) == root for root in roots):
                outcome.leave(file, f"name {target} to change it: the file is a link out of what is named")
                continue
            try:
                replace_file(file.name, file.encode(each.after), file.version)
            except OSError as error:
                outcome.leave(file, f"the file was not written: {reason_of(error)}")


def _with_breaks(lines: list[str]) -> list[str]:
    """The lines with their line breaks; the last one has none."""
    return [*(f"{line}\n" for line in lines[:-1]), *([lines[-1]] if lines[-1] else [])]
