"""Watches: existing objects, then every change, with bookmarks, until the time-out."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import orjson
from aiohttp import web

from webhook.sandbox.deletion import collect, delete
from webhook.sandbox.kinds import CREATED
from webhook.sandbox.metadata import check_shape
from webhook.sandbox.reading import (
    encode_list,
    parse_selection,
    read_list,
    read_one,
    requested_version,
    selected_entries,
    whole_number,
)
from webhook.sandbox.request_bodies import JSON, call_of, delete_options, read_body, write_options
from webhook.sandbox.statuses import Cause, gone, invalid, method_not_allowed, no_such_path, success
from webhook.sandbox.store import TooOldError
from webhook.sandbox.users import answer
from webhook.sandbox.writes import (
    JSON_PATCH,
    MERGE_PATCH,
    STRATEGIC_PATCH,
    change_of,
    check_name,
    create,
    create_subresource,
    update,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Mapping

    from policies.kubernetes.objects import Object
    from webhook.sandbox.kinds import Kind, Target
    from webhook.sandbox.reading import Pages, Selection
    from webhook.sandbox.statuses import User
    from webhook.sandbox.store import Call, Change, Cluster, Entry


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
        if change.type == "DELETED":
            return self._event(b"DELETED", change.entry)
        # It left the selection: its old state, with the version of the change.
        before = (change.before or change.entry).decode(self.kind)
        before["metadata"]["resourceVersion"] = str(change.version)
        shown = {key: value for key, value in before.items() if key not in ("kind", "apiVersion")}
        return self._event(b"DELETED", replace(change.entry, tail=orjson.dumps(shown)[1:]))

    def _event(self, event: bytes, entry: Entry) -> bytes:
        return b'{"type":"' + event + b'","object":' + entry.encode(self.kind) + b"}\n"

    def _bookmark(self, version: int, annotations: Mapping[str, str] | None = None) -> bytes:
        metadata = {"resourceVersion": str(version)}
        shown = {**metadata, **({"annotations": annotations} if annotations else {})}
        resource = self.kind.resource
        marked = {"kind": resource.kind, "apiVersion": resource.api_version, "metadata": shown}
        return b'{"type":"BOOKMARK","object":' + orjson.dumps(marked) + b"}\n"


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


@dataclass(frozen=True, slots=True)
class ServedRequest:
    """One request for a served kind."""

    http: web.Request
    target: Target
    verb: str
    user: User
    warn: Callable[[str], None]

    def call(self, options: Object) -> Call:
        """The call with these options."""
        return call_of(self.user, options, self.warn)

    def write(self, kind: str) -> Call:
        """The call with the options of the query."""
        return self.call(write_options(kind, self.http.query))


@dataclass(eq=False)
class Handlers:
    """Answers requests from a cluster."""

    cluster: Cluster
    """The cluster."""
    pages: Pages
    """The unfinished lists."""
    allows: Callable[[Object], bool]
    """Answers SubjectAccessReviews by their `spec`."""
    second: float
    """The length of a second of a watch's time-outs, in seconds."""
    _handlers: dict[str, Callable[[ServedRequest], Awaitable[web.StreamResponse]]] = field(init=False)

    def __post_init__(self) -> None:
        self._handlers = {
            "get": self._get,
            "list": self._list,
            "watch": self._watch,
            "create": self._create,
            "update": self._update,
            "patch": self._patch,
            "delete": self._delete,
            "deletecollection": self._delete_collection,
        }

    async def answer(self, request: ServedRequest) -> web.StreamResponse:
        """The answer to a request.

        Raises:
            Refused: The answer is a Status.
        """
        _check_verb(request.target, request.verb)
        try:
            return await self._handlers[request.verb](request)
        finally:
            await collect(self.cluster)

    async def _get(self, request: ServedRequest) -> web.Response:
        return _json(read_one(self.cluster, request.target))

    async def _list(self, request: ServedRequest) -> web.Response:
        return _json(read_list(self.cluster, request.target, request.http.query, self.pages))

    async def _watch(self, request: ServedRequest) -> web.StreamResponse:
        watch = parse_watch(self.cluster, request.target, request.http.query)
        response = web.StreamResponse(headers={"Content-Type": JSON})
        await response.prepare(request.http)
        async for lines in watch.lines(self.cluster, self.second):
            if request.http.transport is None or request.http.transport.is_closing():
                break
            if lines:
                await response.write(lines)
        return response

    async def _create(self, request: ServedRequest) -> web.Response:
        target = request.target
        body = await read_body(request.http)
        call = request.write("CreateOptions")
        if target.kind.review:
            return _json(orjson.dumps(answer(target.kind, body, request.user, self.allows)), 201)
        if target.name:
            return _json(orjson.dumps(await create_subresource(self.cluster, call, target, body)), 201)
        written = await create(self.cluster, call, target.kind, target.namespace, body)
        return _json(orjson.dumps(written), 201)

    async def _update(self, request: ServedRequest) -> web.Response:
        body, target = await read_body(request.http), request.target
        if target.kind.put_creates and self.cluster.store.get(target.kind, target.namespace, target.name) is None:
            check_name(target, check_shape(target.kind, body))
            made = {**body, "metadata": {**body["metadata"], "resourceVersion": "0"}}
            call = request.write("CreateOptions")
            return _json(orjson.dumps(await create(self.cluster, call, target.kind, target.namespace, made)), 201)
        return await self._change(request, "UpdateOptions", lambda _: body)

    async def _patch(self, request: ServedRequest) -> web.Response:
        # API servers do not support strategic merge patches for custom resources.
        strategic = () if request.target.kind.custom else (STRATEGIC_PATCH,)
        body = await read_body(request.http, JSON_PATCH, MERGE_PATCH, *strategic)
        return await self._change(request, "PatchOptions", change_of(request.http.content_type, body))

    async def _change(self, request: ServedRequest, options: str, change: Callable[[Object], Any]) -> web.Response:
        written = await update(self.cluster, request.write(options), request.target, change)
        return _json(orjson.dumps(written))

    async def _delete(self, request: ServedRequest) -> web.Response:
        target, call = request.target, request.call(await delete_options(request.http))
        last, gone = await delete(self.cluster, call, target.kind, (target.namespace, target.name))
        if gone and not target.kind.shown_when_deleted:
            return _json(orjson.dumps(success(target.resource, target.name, last["metadata"]["uid"])))
        return _json(orjson.dumps(last))

    async def _delete_collection(self, request: ServedRequest) -> web.Response:
        target, call = request.target, request.call(await delete_options(request.http))
        selection = parse_selection(target.kind, target.namespace, request.http.query)
        entries = selected_entries(self.cluster, target.kind, selection)
        for entry in entries:
            await delete(self.cluster, call, target.kind, entry.name, in_collection=True)
        metadata = {"resourceVersion": str(self.cluster.store.version)}
        return _json(encode_list(target.kind, entries, metadata))


def _check_verb(target: Target, verb: str) -> None:
    """Check that a path supports a verb.

    Raises:
        Refused: The path is not served, or does not support the verb.
    """
    kind, part = target.kind, target.subresource
    whole = {
        "status": {"get", "update", "patch"} if kind.status else set(),
        "ephemeralcontainers": {"get", "update", "patch"} if kind.resource.kind == "Pod" else set(),
        "finalize": {"update"} if kind.resource.kind == "Namespace" else set(),
        **{name: {"create"} if kind.resource.kind == "Pod" else set() for name in CREATED},
    }
    if part and not whole.get(part):
        raise no_such_path()
    allowed = whole[part] if part else _verbs(target)
    if verb not in allowed:
        raise method_not_allowed()


def _verbs(target: Target) -> set[str]:
    if target.kind.review:
        return {"create"} if not target.name else set()
    if target.name:
        return {"get", "update", "patch", "delete"}
    listed = {"list", "watch"}
    everywhere = target.kind.resource.namespaced and not target.namespace
    return listed if everywhere else listed | {"create", "deletecollection"}


def _json(body: bytes, status: int = 200) -> web.Response:
    return web.Response(status=status, body=body, content_type=JSON)
