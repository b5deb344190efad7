"""The history of the API server: every change of pods, claims, quotas and Leases, from watches."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from testbed.waiting import until_right
from webhook.cluster.answers import APIError, ClusterError
from webhook.cluster.resources import RESOURCES

if TYPE_CHECKING:
    from collections.abc import Collection

    from tests.storm.harness.orders import Document
    from webhook.cluster.client import APIClient

__all__ = ["KINDS", "Event", "History"]

_COMPARED = ("Pod", "ResourceClaim", "GPUQuota", "GPUQuotaGroup")
KINDS = (*_COMPARED, "Lease")
_SILENCE = 120.0
_PAUSE = 0.05
_CATCH_UP_SECONDS = 60


@dataclass(frozen=True, slots=True)
class Event:
    """One change, or how something was at the beginning."""

    version: int
    kind: str
    is_gone: bool
    object: Document
    known: int = 0
    """When it was known here, as nanoseconds of the monotonic clock."""

    @property
    def uid(self) -> str:
        """Of the object."""
        return str(self.object["metadata"]["uid"])


class History:
    """The events in some namespaces, and to the quotas of tenants, since the beginning."""

    def __init__(self, client: APIClient, namespaces: Collection[str]) -> None:
        """Args: a connection that nobody disturbs, and the namespaces."""
        self._client = client
        self._namespaces = frozenset(namespaces)
        self._shown: dict[str, dict[str, Event]] = {kind: {} for kind in KINDS}
        self._tasks: list[asyncio.Task[None]] = []
        self._events: list[Event] = []
        self._reached = dict.fromkeys(KINDS, 0)
        self.gaps: list[tuple[int, int]] = []
        """Where watches could not go on where they had ended: after which version, and up to which, only the outcome of
        changes is known."""

    async def begin(self) -> None:
        """Read what there is, and watch from there on."""
        for kind in KINDS:
            version = await self._read(kind)
            self._tasks.append(asyncio.create_task(self._follow(kind, version), name=f"history of {kind}"))

    @property
    def events(self) -> list[Event]:
        """Every change so far, in the order in which they were stored."""
        return sorted(self._events, key=lambda event: event.version)

    @property
    def latest(self) -> list[Event]:
        """Of everything that is there, its last change."""
        return [event for shown in self._shown.values() for event in shown.values()]

    async def end(self) -> None:
        """Stop."""
        for task in self._tasks:
            if task.done():
                task.result()
            task.cancel()
        await asyncio.wait(self._tasks)

    async def wait_for_answers(self) -> None:
        """Wait until it knows of everything that is stored now."""
        await until_right(self._missing, _CATCH_UP_SECONDS)

    async def _missing(self) -> str:
        """Of which kind the watch does not show what a list shows."""
        for kind in _COMPARED:
            items = (await self._client.get(RESOURCES[kind].path()))["items"]
            listed = {
                item["metadata"]["uid"]: int(item["metadata"]["resourceVersion"])
                for item in items
                if self._is_ours(item)
            }
            if listed != {uid: event.version for uid, event in self._shown[kind].items()}:
                return kind
        return ""

    async def _follow(self, kind: str, version: str) -> None:
        path = RESOURCES[kind].path()
        while True:
            query = {"resourceVersion": version, "allowWatchBookmarks": "true"}
            try:
                async for event in self._client.watch(path, query, read_timeout=_SILENCE):
                    if event["type"] == "ERROR":
                        version = await self._after_a_gap(kind)
                        break
                    version = event["object"]["metadata"]["resourceVersion"]
                    self._reached[kind] = int(version)
                    if event["type"] != "BOOKMARK":
                        self._note(kind, event["object"], is_gone=event["type"] == "DELETED")
            except APIError as error:
                if error.is_gone:
                    version = await self._after_a_gap(kind)
            except ClusterError:
                pass
            await asyncio.sleep(_PAUSE)

    async def _after_a_gap(self, kind: str) -> str:
        since = self._reached[kind]
        while True:
            try:
                version = await self._read(kind)
            except ClusterError:
                await asyncio.sleep(_PAUSE)
            else:
                self.gaps.append((since, int(version)))
                return version

    async def _read(self, kind: str) -> str:
        """Take over a list: what differs from what was shown has changed."""
        listed = await self._client.get(RESOURCES[kind].path(), timeout=60.0)
        version: str = listed["metadata"]["resourceVersion"]
        there = {item["metadata"]["uid"]: item for item in listed["items"]}
        for uid, before in list(self._shown[kind].items()):
            if uid not in there:
                # It ended at some moment up to the list's.
                ended = {**before.object["metadata"], "resourceVersion": version}
                self._note(kind, {**before.object, "metadata": ended}, is_gone=True)
        for uid, item in there.items():
            known = self._shown[kind].get(uid)
            if known is None or known.version != int(item["metadata"]["resourceVersion"]):
                self._note(kind, item, is_gone=False)
        self._reached[kind] = int(version)
        return version

    def _is_ours(self, document: Document) -> bool:
        """True if it is in one of the namespaces, or counts several of them."""
        return document["metadata"].get("namespace", "") in ("", *self._namespaces)

    def _note(self, kind: str, document: Document, *, is_gone: bool) -> None:
        if not self._is_ours(document):
            return
        event = Event(int(document["metadata"]["resourceVersion"]), kind, is_gone, document, time.monotonic_ns())
        self._events.append(event)
        if is_gone:
            self._shown[kind].pop(event.uid, None)
        else:
            self._shown[kind][event.uid] = event
