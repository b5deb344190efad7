"""Migration of files to claims."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from policies.decision import TEMPLATE, Severity
from policies.dra.templates import without_nulls
from policies.kubernetes.objects import DEFAULT_NAMESPACE, Object, name_of, namespace_of
from policies.kubernetes.paths import lookup
from policies.migration.objects import MigratedObject, migrate_object
from policies.migration.text_edits import UneditableError
from policies.migration.texts import TextChange, changed_text
from webhook.cli.manifest_reader import LIMITS
from webhook.cli.migrations.outcomes import FileOutcome, Line, label_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from policies.settings import GPUAdmissionPolicy
    from policies.view import ClusterView
    from webhook.cli.manifest_reader import Manifest
    from webhook.cli.migrations.files import SourceFile
    from webhook.cli.migrations.outcomes import Migration

__all__ = ["Migrator"]


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
        """What an object becomes; the names of its templates are taken then."""
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
            document = _value_at(manifest)
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


def _value_at(manifest: Manifest) -> Object:
    """The object as it stands in its document; an item of a typed list may have no kind."""
    found: Object = lookup(manifest.document.value, manifest.path) if manifest.path else manifest.document.value
    return found


def _unwritable(manifest: Manifest, migrated: MigratedObject) -> str:
    """Why the text of an object that would be migrated is not rewritten; empty if it is."""
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
