"""Guarded sites: accept connections for aiohttp, within the limits of connections."""

from __future__ import annotations

import asyncio
import logging
import socket
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from aiohttp import hdrs, web
from aiohttp.http import StreamWriter
from aiohttp.http_exceptions import HttpProcessingError

from webhook.server.guarded_connection import GuardedConnection, counted_address, guarded_connection
from webhook.server.logs import log_broken_call

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from aiohttp.abc import AbstractStreamWriter
    from multidict import CIMultiDict

    from webhook.server.guarded_connection import Endpoint


Handle: TypeAlias = "Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]"
"""Answers a request."""
_Request = TypeVar("_Request", bound=web.BaseRequest)

_ACCEPTED_AT_ONCE = 64
"""Connections accepted in one iteration of the event loop, so that many new ones do not delay the open ones."""
_BACKLOG = 512
_RECEIVED_BYTES = 32 * 1024
"""Bytes of a connection that wait in the system to be read, which doubles it for its own records."""
_PAUSE_SECONDS = 1.0
"""Seconds without accepting after the system had no file descriptor or memory for a connection."""

_logger = logging.getLogger("gpu_admission.connections")


class GuardedSite(web.BaseSite):
    """Listens on one port and accepts connections."""

    def __init__(self, runner: web.BaseRunner, host: str, port: int, endpoint: Endpoint) -> None:
        """Prepare; nothing listens yet.

        Args:
            runner: Serves; `setup` has been called.
            host: The address to listen on; empty for all of them.
            port: 0 for any that is free.
            endpoint: What its connections share.
        """
        super().__init__(runner)
        self._host = host
        self.port = port
        """The port; once started, the one that was chosen."""
        self._endpoint = endpoint
        self._listeners: list[socket.socket] = []

    @property
    def name(self) -> str:
        """The address, as aiohttp shows it."""
        return f"{self._host or '*'}:{self.port}"

    async def start(self) -> None:
        """Listen.

        Raises:
            OSError: The port is taken or not allowed.
            UnicodeError: The host is not a name.
        """
        await super().start()
        loop = asyncio.get_running_loop()
        # asyncio knows how to bind every address of a host. It does not accept: it would make all objects for TLS before
        # the first byte of a connection.
        bound = await loop.create_server(asyncio.Protocol, self._host or None, self.port, start_serving=False)
        self._listeners = [listener.dup() for listener in bound.sockets]
        bound.close()
        self.port = self._listeners[0].getsockname()[1]
        for listener in self._listeners:
            # Accepted sockets inherit it. The system would let each of them grow to some megabytes.
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _RECEIVED_BYTES)
            listener.listen(_BACKLOG)
            loop.add_reader(listener, self._accept, listener)

    async def stop(self) -> None:
        """Accept no more connections; those that are open stay."""
        await super().stop()
        loop = asyncio.get_running_loop()
        listeners, self._listeners = self._listeners, []
        for listener in listeners:
            loop.remove_reader(listener)
            listener.close()

    def _accept(self, listener: socket.socket) -> None:
        for _ in range(_ACCEPTED_AT_ONCE):
            try:
                accepted, peer = listener.accept()
            except (BlockingIOError, ConnectionAbortedError):
                return
            except OSError as error:
                self._pause(listener, error)
                return
            accepted.setblocking(False)
            GuardedConnection(accepted, counted_address(peer[0]), self._endpoint)

    def _pause(self, listener: socket.socket, error: OSError) -> None:
        """Accept nothing for a moment: the system lacks a resource, and trying again at once would fail too."""
        _logger.error("no connection can be accepted for %g s: %s", _PAUSE_SECONDS, error.strerror)
        loop = asyncio.get_running_loop()
        loop.remove_reader(listener)
        loop.call_later(_PAUSE_SECONDS, self._resume, listener)

    def _resume(self, listener: socket.socket) -> None:
        if listener in self._listeners:
            asyncio.get_running_loop().add_reader(listener, self._accept, listener)


KEEP_ALIVE = 180.0
"""Seconds until the server closes an idle connection. The API server closes its own after 90. The client must close
first: otherwise it sends calls on a connection that the server is closing."""

_LARGEST_HEADER = 20 * 1024
"""Bytes of one header; the longest legitimate one contains a token of 16 KiB."""
_READ_AHEAD = 8 * 1024
"""Bytes of a body that are read before it is its turn; aiohttp reads up to twice as many, and one record of TLS."""


_HTTP: dict[str, Any] = {
    "access_log": None,
    "auto_decompress": False,
    "keepalive_timeout": KEEP_ALIVE,
    "logger": _logger,
    "max_field_size": _LARGEST_HEADER,
    "read_bufsize": _READ_AHEAD,
}
"""The options of aiohttp's server. It writes no access log: that costs a fifth of the throughput, and decisions are
logged separately. It decompresses no body: the API server compresses none, and compressed ones are refused."""
_SHUTDOWN_SECONDS = 1.0


def create_runner(handle: Handle) -> web.ServerRunner:
    """Create the runner of a handler of all requests, which reports them to their connections itself."""
    return web.ServerRunner(web.Server(handle), shutdown_timeout=_SHUTDOWN_SECONDS)


def create_reporting_runner(handle: Handle) -> web.ServerRunner:
    """Create the runner of a handler of all requests, which knows nothing of their connections."""
    return create_runner(partial(_report_request, handler=handle))


def create_application_runner(app: web.Application) -> web.AppRunner:
    """Create the runner of an application."""
    app.middlewares.insert(0, _report_request)
    app.on_response_prepare.append(_close_after_unknown_expectation)
    return web.AppRunner(app, shutdown_timeout=_SHUTDOWN_SECONDS)


class _Protocol(web.RequestHandler):
    """One connection, on which a broken request is answered with the status only.

    aiohttp's own answer repeats the first bytes of the head.
    """

    __slots__ = ()

    def handle_error(
        self, request: web.BaseRequest, status: int = 500, exc: BaseException | None = None, message: str | None = None
    ) -> web.StreamResponse:
        """The answer to a request that breaks HTTP, or whose handler failed."""
        del message
        return super().handle_error(request, status, exc, f"{status}: {HTTPStatus(status).phrase}\n")


def protocol_factory(runner: web.BaseRunner) -> Callable[[], web.RequestHandler]:
    """Return a function that makes the protocols of a runner's connections.

    Their answers have no Server header. The runner has been set up.
    """
    server = runner.server
    if server is None:
        raise RuntimeError("aiohttp has set up no server")
    loop, create_request = asyncio.get_running_loop(), server.request_factory

    def create_anonymous_request(
        message: Any, payload: Any, protocol: Any, _writer: AbstractStreamWriter, task: Any
    ) -> web.BaseRequest:
        return create_request(
            message, payload, protocol, StreamWriter(protocol, loop, on_headers_sent=_drop_server_header), task
        )

    server.request_factory = create_anonymous_request
    return partial(_Protocol, server, loop=loop, **_HTTP)


async def _drop_server_header(headers: CIMultiDict[str]) -> None:
    """Called before headers are written; aiohttp adds the header after every other hook."""
    headers.popall(hdrs.SERVER, None)


async def _close_after_unknown_expectation(_request: web.Request, response: web.StreamResponse) -> None:
    """Close a connection to which `_report_request` reported nothing: it would not limit the next head."""
    if isinstance(response, web.HTTPExpectationFailed):
        response.force_close()


@web.middleware
async def _report_request(
    request: _Request, handler: Callable[[_Request], Awaitable[web.StreamResponse]]
) -> web.StreamResponse:
    """Report to the connection when a request begins and when its answer is ready."""
    connection = guarded_connection(request.transport)
    if connection is None:
        return await handler(request)
    connection.request_begins()
    try:
        response = await handler(request)
    except web.HTTPException as refusal:
        if not connection.request_ends():
            refusal.force_close()
        raise
    if not connection.request_ends():
        response.force_close()
    return response


def _is_ours(record: logging.LogRecord) -> bool:
    """False for a log record of aiohttp about a client that breaks HTTP.

    aiohttp logs such a client with a traceback, so every client that reaches the port could fill the log. This filter
    logs one line of warning instead.
    """
    error = record.exc_info[1] if record.exc_info else None
    if not isinstance(error, (HttpProcessingError, web.RequestPayloadError)):
        return True
    remote = record.args[0] if isinstance(record.args, tuple) and record.args else None
    log_broken_call(str(remote) if remote else None, getattr(error, "message", "") or str(error))
    return False


_logger.addFilter(_is_ours)
