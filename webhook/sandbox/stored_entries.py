"""Entries: objects as the server stores them, and the history of their changes."""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING, Literal

import orjson

from policies.kubernetes.paths import lookup

if TYPE_CHECKING:
    from collections.abc import Mapping

    from policies.kubernetes.objects import Object
    from webhook.sandbox.kinds import Kind

__all__ = ["Change", "Entry", "History", "Name", "TooOldError", "make_entry"]

Name = tuple[str, str]
"""Namespace and name."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One object in one version, as JSON: it cannot change, and lists need no encoding."""

    name: Name
    uid: str
    version: int
    labels: Mapping[str, str]
    fields: Mapping[str, str]
    """The values for field selectors."""
    owners: tuple[str, ...]
    """The uids of `metadata.ownerReferences`."""
    tail: bytes
    """The JSON after `kind` and `apiVersion`, which depend on the requested version."""

    def encode(self, kind: Kind) -> bytes:
        """The JSON of the object in one version of its kind."""
        return kind.head + self.tail

    def decode(self, kind: Kind) -> Object:
        """A new document, which the caller may change."""
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
    """The value of a field as text for field selectors; empty if it is missing."""
    value = lookup(document, field.split("."))
    return value if isinstance(value, str) else "" if value is None else orjson.dumps(value).decode()


class TooOldError(Exception):
    """A version whose later changes are no longer all known."""

    def __init__(self, asked: int, oldest: int) -> None:
        super().__init__(f"too old resource version: {asked} ({oldest})")


@dataclass(frozen=True, slots=True)
class Change:
    """One write."""

    type: Literal["ADDED", "MODIFIED", "DELETED"]
    version: int
    entry: Entry
    """The new entry; for DELETED the last one, with the version of the deletion."""
    before: Entry | None
    """The old entry; None for ADDED."""


class History:
    """The latest changes of one kind, no more than a number of them."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._changes: list[Change] = []
        self._oldest = 0
        self._changed = asyncio.Event()

    def add(self, change: Change) -> None:
        """Add a change, and wake all waiting watches."""
        self._changes.append(change)
        if len(self._changes) > 2 * self._limit:
            self.forget(keep=self._limit)
        self._changed.set()
        self._changed = asyncio.Event()

    def forget(self, keep: int = 0) -> None:
        """Forget all changes but the latest, as the API server does with time."""
        forgotten = len(self._changes) - keep
        if forgotten > 0:
            self._oldest = self._changes[forgotten - 1].version
            del self._changes[:forgotten]

    def after(self, version: int) -> list[Change]:
        """What changed after a version, oldest first.

        Raises:
            TooOldError: some of it is forgotten.
        """
        if version < self._oldest:
            raise TooOldError(version, self._oldest)
        return self._changes[bisect_right(self._changes, version, key=attrgetter("version")) :]

    async def wait_for_change(self) -> None:
        """Wait for the next change."""
        await self._changed.wait()
