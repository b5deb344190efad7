"""Keeps a store equal to the API server: lists, watches, and starts again after every error.

A watch resumes where the last one ended. One that is silent for longer than API servers are is opened again. A new list
is read if the server no longer knows that resourceVersion (410), if an event is invalid or older than the last one, if two
watches in a row were silent, and if the server refuses the watch for the third time: etcd may have been restored to an
earlier moment. A reflector never ends; an error becomes the store's state, with a reason.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
from typing import TYPE_CHECKING, Any, NoReturn

from policies.kubernetes.objects import lookup, name_of
from webhook.cluster.answers import APIError, BadAnswer, ClusterError, Silent, status_error
from webhook.cluster.clockwork import Pace
from webhook.cluster.lists import PAGE, raw_pages
from webhook.cluster.store import Listing, is_older

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from webhook.cluster.client import APIClient
    from webhook.cluster.resources import Resource
    from webhook.cluster.store import State, Store


_MOST_REFUSALS = 3
_INTERNAL = 500
_AT_ONCE = 20
"""Listed objects that are trimmed before other tasks get their turn: 2 ms of slices with 8 GPUs each."""

_logger = logging.getLogger("gpu_admission.cluster")


class Reflector:
    """Fills a store from the API server, and keeps it up to date.

    Args:
        client: Reads from the API server.
        resource: The resource to list and watch.
        store: Keeps the objects.
        namespace: The only namespace to read; empty for all.
        query: `labelSelector`, `fieldSelector`.
        on_state: Called when the store enters a state.
        pace: Pauses and time-outs.
    """

    def __init__(
        self,
        client: APIClient,
        resource: Resource,
        store: Store,
        *,
        namespace: str = "",
        query: Mapping[str, str] | None = None,
        on_state: Callable[[], None] | None = None,
        pace: Pace | None = None,
    ) -> None:
        self.store = store
        self._client = client
        self._namespace = namespace
        self._resource = resource
        self.resource = client.served_versions.candidates(resource)[0] if resource.other_versions else resource
        """The resource in the version that is read; another one as soon as that is not served."""
        self._refused: set[str] = set()
        """The versions that were answered with 404 since a watch was accepted."""
        self._accepted = ""
        """The version of the last accepted watch; empty before the first."""
        self._query = dict(query or {})
        self._on_state = on_state
        self._pace = pace or Pace()
        self._resume = ""
        """The resourceVersion to resume from; empty if a list is needed."""
        self._failures = 0
        """Failures in a row."""
        self._refusals = 0
        """Answers 403 and 404 in a row."""
        self._opened = math.inf
        self._was_silent = False
        """True if the last watch ended because nothing came."""
        self.lists = 0
        """Lists that were started; a list of many pages counts once."""
        self._reported = (store.state, store.reason)

    @property
    def _path(self) -> str:
        return self.resource.path(self._namespace)

    async def run(self) -> NoReturn:
        """List and watch until cancelled."""
        while True:
            await self._pace.clockwork.sleep(await self.turn())

    async def turn(self) -> float:
        """List if necessary, and watch once; returns the seconds until the next turn."""
        self._opened = math.inf
        try:
            if not self._resume:
                await self._list()
            await self._watch()
        except Silent as error:
            # The next watch shows whether the API server is there. After a second silent one, a list shows what came in
            # between: a proxy may hold back what is streamed.
            _logger.info("cached %s are watched again: %s", self.resource.name, error)
            self._resume = "" if self._was_silent else self._resume
            self._was_silent = not self._was_silent
        except ClusterError as error:
            return self._handle_failure(error)
        except Exception as error:
            # One object that shows a defect in our code must not stop this kind forever.
            _logger.exception("cannot keep cached %s up to date because of a defect", self.resource.name)
            self._resume = ""
            self._enter("stale", f"a defect, {type(error).__name__}: {error}")
            return self._pause()
        if self._seconds_open() < self._pace.brief:
            return self._pause()
        self._failures = 0
        return 0.0

    async def _list(self) -> None:
        before = self.store.resource_version
        try:
            self._resume = await self._list_by(PAGE)
        except APIError as error:
            if not error.is_gone:
                raise
            # The pages took longer than the server keeps its history. A list in one page is costly, but cannot expire.
            self._resume = await self._list_by(0)
        if is_older(self._resume, before):
            _logger.warning(
                "resourceVersion of cached %s decreased from %s to %s; was etcd restored from a backup?",
                self.resource.name,
                before,
                self._resume,
            )
        self._report()

    async def _list_by(self, limit: int) -> str:
        """Read a list into the store, in pages of `limit`, or one page for 0; returns its resourceVersion."""
        self.lists += 1
        listing, version = Listing(self.store), ""
        pages = raw_pages(self._client, self.resource, self._namespace, self._query, limit=limit)
        async with contextlib.aclosing(pages):
            async for page in pages:
                for first in range(0, len(page.items), _AT_ONCE):
                    listing.add(page.items[first : first + _AT_ONCE])
                    await asyncio.sleep(0)
                version = page.resource_version
        listing.finish(version)
        return version

    async def _watch(self) -> None:
        seconds = self._pace.watch_seconds()
        query = {"resourceVersion": self._resume, "allowWatchBookmarks": "true", "timeoutSeconds": str(seconds)}
        events = self._client.watch(
            self._path, {**self._query, **query}, read_timeout=self._pace.silence, on_open=self._handle_open
        )
        async with contextlib.aclosing(events):
            async for event in events:
                self._take(event)

    def _handle_open(self) -> None:
        """Called when the server has accepted the watch."""
        self._opened = self._pace.clockwork.clock()
        self._refusals = 0
        if self._resource.other_versions:
            self._note_version()
        self._enter("synced")

    def _note_version(self) -> None:
        """Remember that the version is served; log it if another one was before."""
        before, self._accepted = self._accepted, self.resource.version
        self._refused.clear()
        self._client.served_versions.note(self.resource)
        if before not in ("", self._accepted):
            _logger.warning(
                "cached %s are read in %s: the API server no longer serves %s",
                self.resource.name,
                self.resource.api_version,
                before,
            )

    def _uses_another_version(self) -> bool:
        """Read the resource in its next version; False if each was answered with 404."""
        self._refused.add(self.resource.version)
        served = self._client.served_versions.candidates(self._resource)
        left = [each for each in served if each.version not in self._refused]
        if not left:
            self._refused.clear()
            return False
        self.resource = self.store.resource = left[0]
        self._resume = ""
        return True

    def _seconds_open(self) -> float:
        """Seconds since the watch of this turn was accepted; negative if it was not."""
        return self._pace.clockwork.clock() - self._opened

    def _take(self, event: dict[str, Any]) -> None:
        kind, item = event.get("type"), event.get("object")
        if kind == "ERROR" and isinstance(item, dict):
            raise status_error(item)
        version = lookup(item, ("metadata", "resourceVersion"))
        is_whole = (
            isinstance(item, dict) and isinstance(version, str) and version and (kind == "BOOKMARK" or name_of(item))
        )
        if kind not in ("ADDED", "MODIFIED", "DELETED", "BOOKMARK") or not is_whole:
            raise BadAnswer(f"GET {self._path}, watching: invalid event of type {str(kind)[:50]!r}")
        if is_older(version, self._resume):
            raise BadAnswer(f"GET {self._path}, watching: resourceVersion {version[:50]} after {self._resume} is older")
        self.store.apply(event)
        self._resume, self._was_silent = version, False

    def _handle_failure(self, error: ClusterError) -> float:
        """Set the store's state and where to resume; returns the seconds until the next turn."""
        code = error.code if isinstance(error, APIError) else 0
        if code == 404 and self._resource.other_versions and self._uses_another_version():
            return 0.0
        self._refusals = self._refusals + 1 if code in (403, 404) else 0
        # A resource that could be read is not dropped after one refusal: an API server that has just started may refuse
        # requests until it knows all roles and CRDs (kubernetes/kubernetes issue 121635).
        was_read = self.store.state in ("synced", "stale")
        if self._refusals and (not was_read or self._refusals > _MOST_REFUSALS):
            self._resume, self._failures = "", 0
            self._enter("forbidden" if code == 403 else "absent", str(error))
            return self._pace.pause_if_missing()
        if self._seconds_open() >= self._pace.steady:
            self._failures = 0
        pause = self._pause(error.retry_after)
        is_lost = code == 410 or isinstance(error, BadAnswer)
        if is_lost or (code >= _INTERNAL and self._failures >= _MOST_REFUSALS):
            self._resume = ""
        self._enter("stale", str(error))
        return pause

    def _pause(self, retry_after: float | None = None) -> float:
        self._failures += 1
        return self._pace.pause(self._failures, retry_after)

    def _enter(self, state: State, reason: str = "") -> None:
        self.store.mark(state, reason)
        self._report()

    def _report(self) -> None:
        """Log a new state or reason, and call `on_state` for a new state."""
        before, self._reported = self._reported, (self.store.state, self.store.reason)
        if self._reported == before:
            return
        # An absent resource is often just not installed; rules that need it report it. One that was there is missed.
        is_usual = self.store.state == "synced" or (self.store.state == "absent" and before[0] == "waiting")
        level = logging.INFO if is_usual else logging.WARNING
        because = f": {self.store.reason}" if self.store.reason else ""
        _logger.log(level, "cached %s are %s%s", self.resource.name, self.store.state, because)
        if self._on_state is not None and self.store.state != before[0]:
            self._on_state()
