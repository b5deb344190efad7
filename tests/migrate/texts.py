"""Texts of manifests, and their migration without files."""

from __future__ import annotations

from policies.analyses.migrate import texts
from policies.analyses.migrate.objects import migrate_object
from policies.analyses.migrate.texts import TextChange, changed_text
from policies.kubernetes.objects import FieldPath
from policies.kubernetes.yaml import DEFAULT_LIMITS, scan_documents
from policies.rules.settings import DEFAULTS
from webhook.cluster.manifests import ManifestsView

__all__ = ["migrate_text", "restored_text"]


def changes(text):
    documents, errors = scan_documents(text)
    assert not errors
    for document in documents:
        listed = document.value.get("kind") == "List"
        paths = [("items", index) for index in range(len(document.value["items"]))] if listed else [()]
        for path in paths:
            before = document.value["items"][path[1]] if path else document.value
            migrated = migrate_object(before, "team", ManifestsView(), DEFAULTS, lambda _name, _spec: False)
            if migrated.after is not None:
                place = document.position(())
                about = f"the claim of {before['kind']} {before['metadata']['name']}"
                yield TextChange(
                    (place.line, place.column), FieldPath(path), before, migrated.after, migrated.templates, about
                )


def restored_text(text):
    return texts.restored_text(text, DEFAULT_LIMITS)


def migrate_text(text):
    return changed_text(text, list(changes(text)), DEFAULT_LIMITS)
