"""Watches: existing objects, then every change, with bookmarks, until the time-out."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import orjson

from webhook.sandbox.reading import parse_selection, requested_version, selected_entries, whole_number
from webhook.sandbox.statuses import Cause, gone, invalid
from webhook.sandbox.store import TooOldError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from webhook.sandbox.cluster import Cluster
    from webhook.sandbox.kinds import Kind
    from webhook.sandbox.reading import Selection
    from webhook.sandbox.routing import Target
    from webhook.sandbox.store import Change, Entry

__all__ = ["parse_watch"]

_BOOKMARK_SECONDS = 60.0
_DEFAULT_SECONDS = 1800.0
_INITIAL_END = {"k8s.io/initial-events-end": "true"}


@dataclass(frozen=True, slots=True)
class Watch:
    """The parameters of a watch."""

    kind: Kind
    selection: Selection
    version: int
    """The watch sends changes after this version."""
    initial: bool
    """True if existing objects are sent first."""
    initial_end: bool
    """True if a bookmark marks their end."""
    bookmarks: bool
    seconds: float

    async def lines(self, cluster: Cluster, second: float) -> AsyncIterator[bytes]:
        """The events, one or several lines of JSON at a time.

        Args:
            cluster: The cluster.
            second: How long a second of the watch's times lasts, in seconds.
        """
        loop = asyncio.get_running_loop()
        end = loop.time() + self.seconds * second
        bookmark = loop.time() + _BOOKMARK_SECONDS * second
        history = cluster.store.collection(self.kind).history
        version = self.version
        if self.initial:
            version = cluster.store.version
            yield b"".join(
                self._event(b"ADDED", entry) for entry in selected_entries(cluster, self.kind, self.selection)
            )
            if self.initial_end:
                yield self._bookmark(version, _INITIAL_END)
        while True:
            try:
                changes = history.after(version)
            except TooOldError as error:
                yield b'{"type":"ERROR","object":' + orjson.dumps(gone(str(error)).status) + b"}\n"
                return
            version = max(version, cluster.store.version)
            if lines := b"".join(self._event_of(change) for change in changes):
                yield lines
                # Writing took time, in which more may have changed.
                continue
            if loop.time() >= end:
                break
            if loop.time() >= bookmark:
                bookmark = loop.time() + _BOOKMARK_SECONDS * second
                # An empty chunk lets the caller check whether the client is still connected.
                yield self._bookmark(version) if self.bookmarks else b""
                continue
            with suppress(TimeoutError):
                async with asyncio.timeout_at(min(end, bookmark)):
                    await history.wait_for_change()
        if self.bookmarks:
            yield self._bookmark(version)

    def _event_of(self, change: Change) -> bytes:
        """The event for a change: an object that enters the selection is ADDED, one that leaves is DELETED."""
        was = change.before is not None and self.selection.covers(change.before)
        remains = change.type != "DELETED" and self.selection.covers(change.entry)
        if was and remains:
            return self._event(b"MODIFIED", change.entry)
        if remains:
            return self._event(b"ADDED", change.entry)
        if not was:
            return b""
        return self._event(b"DELETED", change.entry if change.type == "DELETED" else _left(change, self.kind))

    def _event(self, event: bytes, entry: Entry) -> bytes:
        return b'{"type":"' + event + b'","object":' + entry.encode(self.kind) + b"}\n"

    def _bookmark(self, version: int, annotations: Mapping[str, str] | None = None) -> bytes:
        metadata = {"resourceVersion": str(version)}
        shown = {**metadata, **({"annotations": annotations} if annotations else {})}
        resource = self.kind.resource
        marked = {"kind": resource.kind, "apiVersion": resource.api_version, "metadata": shown}
        return b'{"type":"BOOKMARK","object":' + orjson.dumps(marked) + b"}\n"


def _left(change: Change, kind: Kind) -> Entry:
    """The entry that left a selection: its old state, with the version of the change."""
    before = (change.before or change.entry).decode(kind)
    before["metadata"]["resourceVersion"] = str(change.version)
    shown = {key: value for key, value in before.items() if key not in ("kind", "apiVersion")}
    return replace(change.entry, tail=orjson.dumps(shown)[1:])


def parse_watch(cluster: Cluster, target: Target, query: Mapping[str, str]) -> Watch:
    """The watch of a query.

    Raises:
        Refused: The query is invalid.
    """
    selection = parse_selection(target.kind, target.namespace, query)
    version = requested_version(cluster, query)
    listed = query.get("sendInitialEvents") == "true"
    if "sendInitialEvents" in query and query.get("resourceVersionMatch") != "NotOlderThan":
        cause = Cause(
            "resourceVersionMatch",
            "Forbidden",
            "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan",
        )
        raise invalid("ListOptions", "meta.k8s.io", "", [cause])
    return Watch(
        target.kind,
        selection,
        # A watch without a version and without initial events starts now.
        version or cluster.store.version,
        initial=listed or (version == 0 and query.get("sendInitialEvents") != "false"),
        initial_end=listed and query.get("allowWatchBookmarks") == "true",
        bookmarks=query.get("allowWatchBookmarks") == "true",
        seconds=whole_number(query, "timeoutSeconds") or _DEFAULT_SECONDS,
    )
