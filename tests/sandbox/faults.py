"""Faults on demand: an aiohttp middleware that makes the sandbox fail like API servers and networks.

Write `faults.add(too_many(retry_after=1), verb="POST", path="*/pods", count=3)` for the next three pods,
`faults.add(half_open(), verb="WATCH")` for watches to come, and `faults.stall_watches("*/pods")` for those that are open.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

import orjson
from aiohttp import web

from webhook.sandbox.server import Sandbox
from webhook.sandbox.statuses import failure

if TYPE_CHECKING:
    from aiohttp.typedefs import Middleware

    from webhook.sandbox.statuses import Refused

__all__ = [
    "Fault",
    "Faults",
    "FaultySandbox",
    "conflict",
    "dropped",
    "expired_watch",
    "failing",
    "gone",
    "half_open",
    "html",
    "latency",
    "too_many",
]

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
Effect = Callable[[web.Request, Handler], Awaitable[web.StreamResponse]]
"""What happens instead of, or before, what the server would do."""

_GLANCE = 0.05
"""Seconds between two looks at whether a stalled client has gone."""


@dataclass(eq=False)
class Fault:
    """An effect and the requests that it befalls."""

    effect: Effect
    verb: str
    """An HTTP method, or WATCH; empty for all."""
    path: str
    """A pattern with `*` for the path; empty for all."""
    count: int | None
    """How many requests it still befalls; None for no end."""
    when: Callable[[web.Request], bool]
    hits: int = 0

    def takes(self, request: web.Request) -> bool:
        """Whether it befalls a request; counts it if it does."""
        if (
            self.count == 0
            or self.verb not in ("", _verb(request))
            or not self._names(request)
            or not self.when(request)
        ):
            return False
        self.hits += 1
        self.count = self.count and self.count - 1
        return True

    def _names(self, request: web.Request) -> bool:
        return not self.path or fnmatchcase(request.path, self.path)


@dataclass(eq=False)
class _Watch:
    """A watch that is being served."""

    request: web.Request
    serving: asyncio.Future[web.StreamResponse]
    stalled: bool = False


class Faults:
    """The faults of one server; without any, its middleware changes nothing."""

    def __init__(self) -> None:
        self._faults: list[Fault] = []
        self._watches: set[_Watch] = set()
        self._ended = asyncio.Event()

    def add(
        self,
        effect: Effect,
        *,
        verb: str = "",
        path: str = "",
        count: int | None = None,
        when: Callable[[web.Request], bool] = lambda _request: True,
    ) -> Fault:
        """Let something go wrong from now on; of several faults that take a request the first one befalls it.

        Args:
            effect: One of this module's functions, or one of your own.
            verb: An HTTP method, or WATCH; a watch is not a GET here.
            path: A pattern such as `/api/v1/namespaces/*/pods`; a `*` stands for slashes too.
            count: For how many requests; for ever if it is not given.
            when: What else must hold of a request.
        """
        fault = Fault(effect, verb, path, count, when)
        self._faults.append(fault)
        return fault

    def remove(self, fault: Fault) -> None:
        """Let one fault end; a watch that it holds open stays so."""
        self._faults.remove(fault)

    def clear(self) -> None:
        """End all faults, and let go of every watch that is half open; its connection is cut."""
        self._faults.clear()
        self._ended.set()
        self._ended = asyncio.Event()

    def drop_watches(self, path: str = "*") -> int:
        """Cut the connections of the open watches whose path matches; tells how many there were."""
        found = [watch for watch in self._watches if fnmatchcase(watch.request.path, path)]
        for watch in found:
            _cut(watch.request)
        return len(found)

    def stall_watches(self, path: str = "*") -> int:
        """Send nothing any more on the open watches whose path matches, and keep their connections open."""
        found = [watch for watch in self._watches if fnmatchcase(watch.request.path, path)]
        for watch in found:
            watch.stalled = True
            watch.serving.cancel()
        return len(found)

    @property
    def middleware(self) -> Middleware:
        """What a server puts around its handlers."""

        @web.middleware
        async def serve(request: web.Request, handler: Handler) -> web.StreamResponse:
            return await self._serve(request, handler)

        return serve

    async def _serve(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        request[_ENDED] = self._ended
        serve = self._serve_watch if _verb(request) == _WATCH else _plainly
        for fault in self._faults:
            if fault.takes(request):
                return await fault.effect(request, lambda asked: serve(asked, handler))
        return await serve(request, handler)

    async def _serve_watch(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Serve a watch in a task of its own, which can be ended while the connection stays."""
        watch = _Watch(request, asyncio.ensure_future(handler(request)))
        self._watches.add(watch)
        try:
            await asyncio.wait([watch.serving])
        finally:
            self._watches.discard(watch)
            watch.serving.cancel()
        return await _silent(request) if watch.stalled else watch.serving.result()


class FaultySandbox(Sandbox):
    """A sandbox with faults; stopping it ends them all."""

    def __init__(self, **options: Any) -> None:
        self.faults = Faults()
        super().__init__(middlewares=[self.faults.middleware], **options)

    async def stop(self) -> None:
        self.faults.clear()
        await super().stop()


_WATCH = "WATCH"
_ENDED = web.RequestKey("faults_ended", asyncio.Event)


def _verb(request: web.Request) -> str:
    return _WATCH if request.method == "GET" and request.query.get("watch") in ("1", "true") else request.method


async def _plainly(request: web.Request, handler: Handler) -> web.StreamResponse:
    return await handler(request)


def _cut(request: web.Request) -> None:
    if request.transport is not None:
        request.transport.abort()


async def _silent(request: web.Request) -> web.StreamResponse:
    """Say nothing until the client has gone or faults end."""
    ended = request[_ENDED]
    while not ended.is_set() and request.transport is not None and not request.transport.is_closing():
        try:
            await asyncio.wait_for(ended.wait(), _GLANCE)
        except TimeoutError:
            continue
    _cut(request)
    return web.Response()


def latency(seconds: float) -> Effect:
    """The server takes its time, then does what it was asked."""

    async def run(request: web.Request, handler: Handler) -> web.StreamResponse:
        await asyncio.sleep(seconds)
        return await handler(request)

    return run


def conflict() -> Effect:
    """409: somebody else was faster; a storm of them if it is added for many requests."""
    why = "the object has been modified; please apply your changes to the latest version and try again"
    return _answering(failure(409, "Conflict", f"Operation cannot be fulfilled: {why}"))


def too_many(retry_after: int = 1) -> Effect:
    """429 of API Priority and Fairness, with Retry-After in seconds."""
    refused = failure(
        429, "TooManyRequests", "Too many requests, please try again later.", {"retryAfterSeconds": retry_after}
    )
    return _answering(refused, {"Retry-After": str(retry_after)})


def failing(code: int = 500, message: str = "etcdserver: leader changed") -> Effect:
    """An error of the server, 500 unless said otherwise, as a Status."""
    return _answering(failure(code, _REASONS.get(code, "InternalError"), message))


_REASONS = {503: "ServiceUnavailable", 504: "Timeout"}


def gone() -> Effect:
    """410: the resourceVersion or the continue token is too old."""
    return _answering(failure(410, "Expired", _TOO_OLD))


_TOO_OLD = "too old resource version: 1 (2)"


def html(code: int = 502) -> Effect:
    """A page of HTML, as a load balancer in front of the server sends it."""

    async def run(request: web.Request, handler: Handler) -> web.StreamResponse:
        page = f"<html><head><title>{code}</title></head><body><h1>{code} Bad Gateway</h1></body></html>"
        return web.Response(status=code, text=page, content_type="text/html")

    return run


def dropped() -> Effect:
    """The connection is cut before anything is answered."""

    async def run(request: web.Request, handler: Handler) -> web.StreamResponse:
        _cut(request)
        return web.Response()

    return run


def half_open() -> Effect:
    """The answer begins and nothing follows, until the client goes or faults are cleared."""

    async def run(request: web.Request, handler: Handler) -> web.StreamResponse:
        await _started(request)
        return await _silent(request)

    return run


def expired_watch() -> Effect:
    """A watch that is accepted and then told by an event, not by the status code, that its version is too old."""

    async def run(request: web.Request, handler: Handler) -> web.StreamResponse:
        response = await _started(request)
        event = {"type": "ERROR", "object": failure(410, "Expired", _TOO_OLD).status}
        await response.write(orjson.dumps(event) + b"\n")
        await response.write_eof()
        return response

    return run


async def _started(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Type": "application/json"})
    response.enable_chunked_encoding()
    await response.prepare(request)
    return response


def _answering(refused: Refused, headers: dict[str, str] | None = None) -> Effect:
    status: dict[str, Any] = refused.status

    async def run(request: web.Request, handler: Handler) -> web.StreamResponse:
        body = orjson.dumps(status)
        return web.Response(status=status["code"], body=body, content_type="application/json", headers=headers)

    return run
