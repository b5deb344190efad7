"""The way back: files with the marks of a migration become what they were."""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.decision import TEMPLATE
from policies.kubernetes.objects import name_of
from policies.kubernetes.yaml import scan_documents
from policies.migration.restoration import gpu_templates, identity_of, names_template, with_specs
from policies.migration.text_edits import UneditableError
from policies.migration.texts import restored_text
from webhook.cli.manifest_reader import LIMITS
from webhook.cli.migrations.outcomes import FileOutcome, Line, label_of
from webhook.cluster.manifests import unwrap_lists

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from policies.kubernetes.objects import Object
    from webhook.cli.manifest_reader import Manifest
    from webhook.cli.migrations.files import SourceFile
    from webhook.cli.migrations.outcomes import Migration
    from webhook.cli.migrations.to_claims import Migrator

__all__ = ["restore_file"]

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
        restored = _objects(after)
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


def _objects(text: str) -> dict[tuple[str, ...], Object]:
    """The objects of a restored text; empty if it cannot be read."""
    documents, errors = scan_documents(text, limits=LIMITS, keeps_duplicates=True)
    found = () if errors else (each for document in documents for each in unwrap_lists(document.value))
    return {identity_of(each): each for each in found}


def _is_template_of(document: Object, migrated: Iterable[Manifest]) -> bool:
    """True if a migrated object refers to a template, which goes with it."""
    name = {name_of(document): ""}
    return document["kind"] == TEMPLATE and any(names_template(each.object, name) for each in migrated)


def _differs(manifest: Manifest, migrated: list[Manifest], restored: Mapping[tuple[str, ...], Object]) -> bool:
    """True for an object that restoration changes or removes, besides the templates of migrated objects."""
    document = manifest.object
    return restored.get(identity_of(document)) != document and not _is_template_of(document, migrated)


def _problems(
    restored: Mapping[tuple[str, ...], Object],
    migrated: list[Manifest],
    templates: dict[str, str],
    migrator: Migrator,
) -> dict[tuple[str, ...], str]:
    """Why objects cannot be turned back, by identity: a second migration must give the object again."""
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
