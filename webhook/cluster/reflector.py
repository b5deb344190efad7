"""Keeping a store equal to what the API server has: list, watch, and begin again whenever something is wrong.

A watch is resumed where it ended for as long as the server knows that moment. A new list is taken where it does not
(410), where what came makes no sense or tells of the past, and where the server refuses a third time to go on: it may
have been set back to a moment before ours. Nothing gives up: what goes wrong becomes the store's state, with a reason.
"""

from __future__ import annotations

import contextlib
import logging
import math
from typing import TYPE_CHECKING, Any, NoReturn

from policies.kubernetes.objects import name_of
from policies.kubernetes.paths import lookup
from webhook.cluster.answers import status_error
from webhook.cluster.clockwork import Pace
from webhook.cluster.errors import APIError, BadAnswer, ClusterError
from webhook.cluster.lists import PAGE, raw_pages
from webhook.cluster.store import is_older

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from webhook.cluster.reader import Reader
    from webhook.cluster.resources import Resource
    from webhook.cluster.store import State, Store

__all__ = ["Reflector"]

_MOST_REFUSALS = 3
_INTERNAL = 500

_logger = logging.getLogger("gpu_admission.cluster")


class Reflector:
    """Fills a store from the API server, and keeps it so.

    Args:
        client: Whom to ask.
        resource: What to list and watch.
        store: Where to keep it.
        namespace: The one namespace to look at; empty for all.
        query: `labelSelector`, `fieldSelector`.
        on_state: Called when the store enters a state, with the reason.
        pace: How long to wait for what.
    """

    def __init__(
        self,
        client: Reader,
        resource: Resource,
        store: Store,
        *,
        namespace: str = "",
        query: Mapping[str, str] | None = None,
        on_state: Callable[[State, str], None] | None = None,
        pace: Pace | None = None,
    ) -> None:
        self.resource = resource
        self.store = store
        self._client = client
        self._namespace = namespace
        self._path = resource.path(namespace)
        self._query = dict(query or {})
        self._on_state = on_state
        self._pace = pace or Pace()
        self._resume = ""
        """The resourceVersion to go on from; empty where a list is needed."""
        self._failures = 0
        """In a row."""
        self._refusals = 0
        """Answers in a row that say that we may not, or that nothing is served."""
        self._opened = math.inf
        self._told = (store.state, store.reason)

    async def run(self) -> NoReturn:
        """List and watch until cancelled."""
        while True:
            await self._pace.clockwork.sleep(await self.turn())

    async def turn(self) -> float:
        """List if need be, watch once, and say how many seconds to wait before the next turn."""
        self._opened = math.inf
        try:
            if not self._resume:
                await self._list()
            await self._watch()
        except ClusterError as error:
            return self._failed(error)
        except Exception as error:
            # A defect that one object brings out, in what trims it, is not to stop this kind for ever.
            _logger.exception("cached %s cannot be kept up to date because of a defect", self.resource.name)
            self._resume = ""
            self._enter("stale", f"a defect, {type(error).__name__}: {error}")
            return self._pause()
        if self._watched() < self._pace.brief:
            return self._pause()
        self._failures = 0
        return 0.0

    async def _list(self) -> None:
        before = self.store.resource_version
        try:
            self._resume = await self._list_by(PAGE)
        except APIError as error:
            if not error.gone:
                raise
            # The pages took longer than the server keeps its history. All at once is dear, but cannot expire.
            self._resume = await self._list_by(0)
        if is_older(self._resume, before):
            _logger.warning(
                "cached %s went back from resourceVersion %s to %s; was etcd restored from a backup?",
                self.resource.name,
                before,
                self._resume,
            )
        self._tell()

    async def _list_by(self, limit: int) -> str:
        """Put a list into the store, in pages of `limit`, or at once for 0; its resourceVersion."""
        listing, version = self.store.listing(), ""
        pages = raw_pages(self._client, self.resource, self._namespace, self._query, limit=limit)
        async with contextlib.aclosing(pages):
            async for page in pages:
                listing.add(page.items)
                version = page.resource_version
        listing.finish(version)
        return version

    async def _watch(self) -> None:
        seconds = self._pace.watch()
        query = {"resourceVersion": self._resume, "allowWatchBookmarks": "true", "timeoutSeconds": str(seconds)}
        events = self._client.watch(
            self._path,
            {**self._query, **query},
            read_timeout=seconds + self._pace.silence,
            on_open=self._agreed,
        )
        async with contextlib.aclosing(events):
            async for event in events:
                self._take(event)

    def _agreed(self) -> None:
        """The server goes on from where we are."""
        self._opened = self._pace.clockwork.clock()
        self._refusals = 0
        self._enter("synced")

    def _watched(self) -> float:
        """For how many seconds the watch of this turn has been open; less than none where it was not."""
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
            raise BadAnswer(f"GET {self._path}, watching: an event of type {str(kind)[:50]!r} is none")
        if is_older(version, self._resume):
            raise BadAnswer(
                f"GET {self._path}, watching: after resourceVersion {self._resume} came {version[:50]}, which is older"
            )
        self.store.apply(event)
        self._resume = version

    def _failed(self, error: ClusterError) -> float:
        """Note what went wrong, decide where to go on, and say how long to wait before."""
        code = error.code if isinstance(error, APIError) else 0
        self._refusals = self._refusals + 1 if code in (403, 404) else 0
        if self._refusals and self._is_believed():
            self._resume, self._failures = "", 0
            self._enter("forbidden" if code == 403 else "absent", str(error))
            return self._pace.missing()
        if self._watched() >= self._pace.steady:
            self._failures = 0
        pause = self._pause(error.retry_after)
        is_lost = code == 410 or isinstance(error, BadAnswer)
        if is_lost or (code >= _INTERNAL and self._failures >= _MOST_REFUSALS):
            self._resume = ""
        self._enter("stale", str(error))
        return pause

    def _is_believed(self) -> bool:
        """Whether we may not, or nothing is served.

        One that could be read is not given up for one refusal: an API server that has just started refuses what it
        should not until it knows all roles and CRDs (kubernetes/kubernetes issue 121635).
        """
        return self.store.state not in ("synced", "stale") or self._refusals > _MOST_REFUSALS

    def _pause(self, retry_after: float | None = None) -> float:
        self._failures += 1
        return self._pace.pause(self._failures, retry_after)

    def _enter(self, state: State, reason: str = "") -> None:
        self.store.mark(state, reason)
        self._tell()

    def _tell(self) -> None:
        """Log a state or a reason that is new, and report a state that is."""
        before, self._told = self._told, (self.store.state, self.store.reason)
        if self._told == before:
            return
        # What is absent is often just not installed; whoever needs it says so.
        level = logging.INFO if self.store.state in ("synced", "absent") else logging.WARNING
        because = f": {self.store.reason}" if self.store.reason else ""
        _logger.log(level, "cached %s are %s%s", self.resource.name, self.store.state, because)
        if self._on_state is not None and self.store.state != before[0]:
            self._on_state(self.store.state, self.store.reason)
