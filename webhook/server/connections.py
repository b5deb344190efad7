"""HTTP connections: how long they stay open, and how broken HTTP is logged."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError

from webhook.server.guarded_connection import GuardedConnection
from webhook.server.logs import log_broken_call

if TYPE_CHECKING:
    from aiohttp.typedefs import Handler

__all__ = ["KEEP_ALIVE", "create_runner"]

KEEP_ALIVE = 180.0
"""Seconds until the server closes an idle connection. The API server closes its own after 90. The client must close
first: otherwise it sends calls on a connection that the server is closing."""

_LARGEST_HEADER = 20 * 1024
"""Bytes of one header; the longest legitimate one contains a token of 16 KiB."""

_logger = logging.getLogger("gpu_admission.connections")


def create_runner(app: web.Application) -> web.AppRunner:
    """Create the runner of an application.

    It writes no access log: that costs a fifth of the throughput, and decisions are logged separately. It decompresses
    no body: the API server compresses none, and the application refuses compressed ones.
    """
    app.middlewares.insert(0, _report_request)
    return web.AppRunner(
        app,
        access_log=None,
        auto_decompress=False,
        keepalive_timeout=KEEP_ALIVE,
        logger=_logger,
        max_field_size=_LARGEST_HEADER,
        shutdown_timeout=1.0,
    )


@web.middleware
async def _report_request(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Report to the connection when a request begins and when its answer is ready."""
    protocol = request.transport.get_protocol() if request.transport is not None else None
    if not isinstance(protocol, GuardedConnection):
        return await handler(request)
    protocol.request_begins()
    try:
        response = await handler(request)
    except web.HTTPException as refusal:
        if not protocol.request_ends():
            refusal.force_close()
        raise
    if not protocol.request_ends():
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
