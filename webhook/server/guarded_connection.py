"""Guarded connections: enforce limits of time, size and number on each connection.

They wrap aiohttp's protocol for HTTP. Until the first byte, a connection is a bare socket, because asyncio's objects for
TLS need fifty times as much memory.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from webhook.server.one_record_tls import OneRecordTLS
from webhook.server.tls import peer_name

if TYPE_CHECKING:
    import socket
    import ssl
    from collections.abc import Container

    from aiohttp import web

    from webhook.server.open_connections import OpenConnections

__all__ = [
    "HANDSHAKE_SECONDS",
    "HEAD_SECONDS",
    "LARGEST_HEAD",
    "Endpoint",
    "GuardedConnection",
    "guarded_connection",
]

HANDSHAKE_SECONDS = 10
"""Seconds from accepting a connection to the end of its TLS handshake; over plain HTTP, to its first byte."""
HEAD_SECONDS = 10
"""Seconds from the handshake, or from the first byte of a later request, to the end of the request's head."""
LARGEST_HEAD = 64 * 1024
"""Bytes of a request's head. The longest legitimate one holds a token of 16 KiB."""
_SHUTDOWN_SECONDS = 5
"""Seconds for a client to confirm the end of TLS."""

_END_OF_HEAD = b"\r\n\r\n"


@dataclass(frozen=True, slots=True)
class Endpoint:
    """The state that all connections of one port share."""

    server: web.Server
    """Makes aiohttp's protocols."""
    connections: OpenConnections
    """Counts the connections."""
    context: ssl.SSLContext | None
    """The certificate and rules for TLS; None for plain HTTP."""
    known_names: Container[str]
    """Common names of client certificates whose connections no limit closes."""


class GuardedConnection(asyncio.Protocol):
    """One accepted connection."""

    def __init__(self, sock: socket.socket, address: str, endpoint: Endpoint) -> None:
        """Wait for the first byte.

        Args:
            sock: The accepted socket, not blocking.
            address: The address under which its peer counts.
            endpoint: The state of the port.
        """
        self.address = address
        self._endpoint = endpoint
        self._loop = asyncio.get_running_loop()
        self._socket: socket.socket | None = sock
        self._connecting: asyncio.Task[None] | None = None
        self._raw: asyncio.Transport | None = None
        self._http: web.RequestHandler | None = None
        self._has_ended = False
        self._is_in_head = True
        """True if the next bytes belong to a head; False between the end of a head and its answer."""
        self._tail = b""
        """The last bytes of a head that has not ended."""
        self._head_bytes = 0
        self._timer: asyncio.TimerHandle | None = None
        self._start_timer(HANDSHAKE_SECONDS, "handshake_timeout")
        endpoint.connections.add(self)
        self._loop.add_reader(sock, self._open)

    def abort(self, reason: str) -> None:
        """Close the connection now; counted unless the reason is empty."""
        if reason:
            self._endpoint.connections.record_closed(self, reason)
        if self._socket is not None:
            self._loop.remove_reader(self._socket)
            self._socket.close()
        if self._raw is not None:
            self._raw.abort()
        self.finish()

    def finish(self) -> None:
        """Stop counting the connection; may be called more than once."""
        self._has_ended = True
        self._stop_timer()
        self._endpoint.connections.remove(self)

    def request_begins(self) -> None:
        """The application has the head of a request."""
        self._stop_timer()
        self._is_in_head = False

    def answer_begins(self) -> bool:
        """The application begins an answer that takes long; False if there is no room for the connection."""
        return self._endpoint.connections.keep(self)

    def request_ends(self) -> bool:
        """The application has an answer; False if the connection must be closed after it."""
        self._is_in_head, self._tail, self._head_bytes = True, b"", 0
        return self._endpoint.connections.keep(self)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Start the HTTP protocol."""
        self._stop_timer()
        self._start_timer(HEAD_SECONDS, "head_timeout")
        name = peer_name(transport)
        if name is not None and name in self._endpoint.known_names:
            self._endpoint.connections.exempt(self)
        self._http = self._endpoint.server()
        self._http.connection_made(transport)

    def data_received(self, data: bytes) -> None:
        """Pass bytes on, and check the size of a request's head."""
        if self._is_in_head:
            self._watch_head(data)
        if self._http is not None and not self._has_ended:
            self._http.data_received(data)

    def eof_received(self) -> None:
        """Pass on the end of the client's bytes."""
        if self._http is not None:
            self._http.eof_received()

    def pause_writing(self) -> None:
        """Pause the HTTP protocol."""
        if self._http is not None:
            self._http.pause_writing()

    def resume_writing(self) -> None:
        """Resume the HTTP protocol."""
        if self._http is not None:
            self._http.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        """End the connection."""
        self.finish()
        if self._http is not None:
            self._http.connection_lost(exc)

    def _open(self) -> None:
        """Give the socket to asyncio: its first byte is there, or its end."""
        sock, self._socket = self._socket, None
        if sock is not None:
            self._loop.remove_reader(sock)
            self._connecting = self._loop.create_task(self._connect(sock))

    async def _connect(self, sock: socket.socket) -> None:
        context = self._endpoint.context
        if context is None:
            await self._serve(self, sock)
            return
        handshake = self._loop.create_future()
        tls = OneRecordTLS(
            self._loop,
            self,
            context,
            handshake,
            server_side=True,
            ssl_handshake_timeout=HANDSHAKE_SECONDS,
            ssl_shutdown_timeout=_SHUTDOWN_SECONDS,
        )
        await self._serve(tls, sock)
        # If the handshake fails, asyncio calls no method of the inner protocol.
        try:
            with suppress(OSError):
                await handshake
        finally:
            if self._http is None:
                self.finish()

    async def _serve(self, protocol: asyncio.BaseProtocol, sock: socket.socket) -> None:
        self._raw, _ = await self._loop.connect_accepted_socket(lambda: protocol, sock)
        if self._has_ended:
            self._raw.abort()

    def _watch_head(self, data: bytes) -> None:
        seen = self._tail + data
        if _END_OF_HEAD in seen:
            self._stop_timer()
            self._is_in_head = False
            self._endpoint.connections.refresh(self)
            return
        if self._timer is None:
            self._start_timer(HEAD_SECONDS, "head_timeout")
        self._tail = seen[1 - len(_END_OF_HEAD) :]
        self._head_bytes += len(data)
        if self._head_bytes > LARGEST_HEAD:
            self.abort("head_size")

    def _start_timer(self, seconds: float, reason: str) -> None:
        self._timer = self._loop.call_later(seconds, self.abort, reason)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def guarded_connection(transport: asyncio.Transport | None) -> GuardedConnection | None:
    """The connection of a request's transport; None if it has ended, or is accepted by something else."""
    protocol = transport.get_protocol() if transport is not None else None
    return protocol if isinstance(protocol, GuardedConnection) else None
