"""Calls of one port: counted, answered by their route, and refused or failed with one sentence."""

from __future__ import annotations

import asyncio
import secrets
from dataclasses import dataclass
from typing import TYPE_CHECKING

from aiohttp import HttpVersion11, hdrs, web

from webhook.server.guarded_connection import guarded_connection
from webhook.server.logs import log_crash, log_refusal

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

__all__ = ["Route", "RoutedCalls", "Traffic"]


class Traffic:
    """Counts the calls in flight, so that a server can wait for the last one.

    aiohttp waits for handlers too when it shuts down, but drops the bytes that connections send meanwhile: it would
    never answer a call whose body is still arriving.
    """

    def __init__(self) -> None:
        """Begin without calls."""
        self.under_way = 0
        """The number of calls between their head and their answer."""
        self._quiet = asyncio.Event()
        self._quiet.set()
        self._draining = asyncio.Event()

    @property
    def draining(self) -> bool:
        """True if answers close their connection, so that clients open new ones elsewhere."""
        return self._draining.is_set()

    def drain(self) -> None:
        """Close connections after their answers from now on."""
        self._draining.set()

    async def wait_until_draining(self, longest: float) -> bool:
        """Wait until the server drains; False if it does not within `longest` seconds."""
        return await _is_set_within(self._draining, longest)

    def begin(self) -> None:
        """Count a call whose head has arrived."""
        self.under_way += 1
        self._quiet.clear()

    def end(self) -> None:
        """Count a call no longer: its answer is ready, or its client is gone."""
        self.under_way -= 1
        if not self.under_way:
            self._quiet.set()

    async def wait_until_idle(self, longest: float) -> bool:
        """Wait until no call is in flight; False if one still is after `longest` seconds."""
        return await _is_set_within(self._quiet, longest)


async def _is_set_within(event: asyncio.Event, seconds: float) -> bool:
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        return False
    return True


_KEPT = (hdrs.ALLOW, hdrs.RETRY_AFTER, hdrs.WWW_AUTHENTICATE)
"""Headers of refusals that say what else to do."""


@dataclass(frozen=True, slots=True)
class Route:
    """What answers the calls of a path."""

    answer: Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]
    count: Callable[[str], None]
    """Counts a call without an answer, by its verdict."""
    unavailable: str
    """The verdict of a call that is refused for the moment."""
    no_method: str
    """The sentence for other methods."""
    method: str = hdrs.METH_POST
    """The only method that the path answers."""


class RoutedCalls:
    """Answers calls of the paths of one port.

    A handler for aiohttp's low-level server: an application's router and middlewares cost as much as a review.
    """

    def __init__(self, route: Callable[[str], Route | None], no_path: str, traffic: Traffic) -> None:
        """Prepare.

        Args:
            route: Returns what answers a path; None for an unknown one.
            no_path: The sentence for unknown paths.
            traffic: Counts the calls.
        """
        self._route = route
        self._no_path = no_path
        self.traffic = traffic

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """Count a call and answer it, also after an exception; while the server drains, close the connection.

        Raises:
            web.HTTPExpectationFailed: The call expects something else than to continue.
        """
        if hdrs.EXPECT in request.headers:
            await _confirm_expectation(request)
        connection = guarded_connection(request.transport)
        if connection is not None:
            connection.request_begins()
        self.traffic.begin()
        try:
            response = await self._answer(request)
        finally:
            self.traffic.end()
        response.headers[hdrs.SERVER] = "gpu-admission"
        is_kept = connection is None or connection.request_ends()
        if self.traffic.draining or not is_kept:
            response.force_close()
        return response

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        route = self._route(request.rel_url.path_safe)
        if route is None:
            return _refusal_response(request, web.HTTPNotFound(text=self._no_path))
        if request.method != route.method:
            refusal = web.HTTPMethodNotAllowed(request.method, (route.method,), text=route.no_method)
            return _refusal_response(request, refusal)
        try:
            return await route.answer(request)
        except web.HTTPException as refusal:
            is_temporary = isinstance(refusal, web.HTTPServiceUnavailable)
            route.count(route.unavailable if is_temporary else "turned_down")
            return _refusal_response(request, refusal)
        except Exception as error:  # noqa: BLE001 - a bug must not show a traceback to the caller
            route.count("failed")
            return _crash_response(request, error)


async def _confirm_expectation(request: web.BaseRequest) -> None:
    """Tell a client that waits for it to go on with the body, as aiohttp's applications do."""
    expected = request.headers[hdrs.EXPECT]
    if not expected or request.version != HttpVersion11:
        return
    if expected.lower() != "100-continue":
        refusal = web.HTTPExpectationFailed(text=f"Unknown Expect: {expected}")
        # The request was never reported to its connection, which would not limit the next head.
        refusal.force_close()
        raise refusal
    await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
    request.writer.output_size = 0  # the answer has not begun
    await request.writer.drain()


def _refusal_response(request: web.BaseRequest, refusal: web.HTTPException) -> web.Response:
    sentence = refusal.text or refusal.reason
    log_refusal(request.path, request.remote, refusal.status, sentence)
    headers = {name: refusal.headers[name] for name in _KEPT if name in refusal.headers}
    return web.Response(status=refusal.status, text=f"{sentence}\n", headers=headers)


def _crash_response(request: web.BaseRequest, error: Exception) -> web.Response:
    # 503 rather than 500: to the API server both are a failed call, and its failure policy decides.
    identifier = secrets.token_hex(4)
    log_crash(request.path, identifier, error)
    return web.Response(status=503, text=f"The server failed; its log has the details under the id {identifier}.\n")
