"""Entries: objects as the server keeps them, as JSON with what lists select by beside it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import orjson

from policies.kubernetes.paths import lookup

if TYPE_CHECKING:
    from collections.abc import Mapping

    from policies.kubernetes.objects import Object
    from webhook.sandbox.kinds import Kind

__all__ = ["Entry", "Name", "make_entry"]

Name = tuple[str, str]
"""Namespace and name."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One object in one version. It is kept as JSON, so that nobody changes it and a list costs no encoding."""

    name: Name
    uid: str
    version: int
    labels: Mapping[str, str]
    fields: Mapping[str, str]
    """What field selectors ask for."""
    owners: tuple[str, ...]
    """The uids of `metadata.ownerReferences`."""
    tail: bytes
    """The JSON after `kind` and `apiVersion`, which differ with the version that is asked for."""

    def encode(self, kind: Kind) -> bytes:
        """The object in one version of its kind."""
        return kind.head + self.tail

    def decode(self, kind: Kind) -> Object:
        """The object as a document of the caller's own."""
        document: Object = orjson.loads(self.encode(kind))
        return document


def make_entry(kind: Kind, document: Object, version: int) -> Entry:
    """The entry of an object that is written under a version."""
    metadata = document["metadata"]
    shown = {key: value for key, value in document.items() if key not in ("kind", "apiVersion")}
    return Entry(
        name=(metadata.get("namespace", ""), metadata["name"]),
        uid=metadata["uid"],
        version=version,
        labels=metadata.get("labels") or {},
        fields={field: _field(document, field) for field in kind.fields},
        owners=tuple({str(owner["uid"]): None for owner in metadata.get("ownerReferences") or ()}),
        tail=orjson.dumps(shown)[1:],
    )


def _field(document: Object, field: str) -> str:
    """The value as field selectors compare it: as text, empty where there is none."""
    value = lookup(document, field.split("."))
    return value if isinstance(value, str) else "" if value is None else orjson.dumps(value).decode()
