"""asyncio's TLS with a smaller buffer.

docs/designs/memory-of-connections.md says why the class is private to asyncio, and what was tried instead.
It imports nothing but asyncio, so that a test can run it on each Python that is supported.
"""

from __future__ import annotations

import asyncio
import time
from asyncio.sslproto import SSLProtocol
from collections import OrderedDict
from contextlib import suppress
from dataclasses import dataclass, field
from ipaddress import IPv6Address, IPv6Network, ip_address
from typing import TYPE_CHECKING, Protocol

from webhook.server.config import FEWEST
from webhook.server.logs import log_closed_connections
from webhook.server.tls import peer_name

if TYPE_CHECKING:
    import socket
    import ssl
    from collections.abc import Callable, Container

    from aiohttp import web

    from webhook.server.config import ConnectionLimits


_MOST_ENCRYPTED = 20 * 1024
"""Bytes that TLS receives before the application reads; a record has up to 16 KiB and 261 bytes, and must fit."""


class OneRecordTLS(SSLProtocol):
    """TLS with buffers of one record; asyncio's own have 256 KiB, one of which is filled at once."""

    max_size = 16 * 1024

    def _set_read_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        super()._set_read_buffer_limits(_MOST_ENCRYPTED if high is None else high, low)  # type: ignore[misc]  # no stub


CLOSED = ("address_limit", "total_limit", "handshake_timeout", "head_timeout", "head_size")
"""The reasons for which the server closes a connection."""

_SECONDS_BETWEEN_LINES = 10.0
"""Between two lines in the log, so that many clients do not fill it."""


class LimitedConnection(Protocol):
    """An open connection that can be closed."""

    address: str
    """The result of `counted_address` for its peer."""

    def abort(self, reason: str) -> None:
        """Close it now, for one of `CLOSED`."""
        ...


@dataclass(slots=True)
class _Count:
    limit: int
    new: OrderedDict[LimitedConnection, None] = field(default_factory=OrderedDict)
    kept: int = 0

    @property
    def is_full(self) -> bool:
        return len(self.new) + self.kept >= self.limit

    @property
    def may_keep(self) -> bool:
        return self.kept < self.limit - self.limit // FEWEST


@dataclass(eq=False)
class OpenConnections:
    """The open connections of one port, counted against its limits."""

    limits: ConnectionLimits
    """The most connections that may be open."""
    count_closed: Callable[[str], None]
    """Called with one of `CLOSED` for each connection that a limit closes."""
    clock: Callable[[], float] = time.monotonic
    """Returns monotonic seconds."""
    _next_line: float = field(default=0.0, init=False)
    _unlogged: int = field(default=0, init=False)
    _all: set[LimitedConnection] = field(default_factory=set, init=False)
    _total: _Count = field(init=False)
    _addresses: dict[str, _Count] = field(default_factory=dict, init=False)
    _kept: set[LimitedConnection] = field(default_factory=set, init=False)

    def __post_init__(self) -> None:
        self._total = _Count(self.limits.total)

    def __len__(self) -> int:
        return len(self._all)

    def add(self, connection: LimitedConnection) -> None:
        """Count a new connection; beyond a limit, close the oldest new one."""
        of_address = self._addresses.setdefault(connection.address, _Count(self.limits.per_address))
        for count, reason in ((of_address, "address_limit"), (self._total, "total_limit")):
            if count.is_full:
                next(iter(count.new)).abort(reason)
        # Closing the last one of an address removed its count.
        of_address = self._addresses.setdefault(connection.address, of_address)
        self._all.add(connection)
        of_address.new[connection] = self._total.new[connection] = None

    def refresh(self, connection: LimitedConnection) -> None:
        """Treat a new connection that has sent a request as the youngest one."""
        if connection in self._total.new:
            self._total.new.move_to_end(connection)
            self._addresses[connection.address].new.move_to_end(connection)

    def keep(self, connection: LimitedConnection) -> bool:
        """Keep a connection that has had an answer; False if it must be closed after that answer."""
        if connection not in self._total.new:
            return True
        of_address = self._addresses[connection.address]
        if not (of_address.may_keep and self._total.may_keep):
            self.record_closed(connection, "total_limit" if of_address.may_keep else "address_limit")
            return False
        self._uncount(connection)
        self._kept.add(connection)
        self._total.kept += 1
        self._addresses.setdefault(connection.address, of_address).kept += 1
        return True

    def exempt(self, connection: LimitedConnection) -> None:
        """Count a connection no longer: its client is known."""
        self._uncount(connection)

    def record_closed(self, connection: LimitedConnection, reason: str) -> None:
        """Count a connection that a limit closes, and log it unless a line was written a moment ago."""
        self.count_closed(reason)
        self._unlogged += 1
        if self.clock() >= self._next_line:
            log_closed_connections(connection.address, reason, self._unlogged)
            self._next_line = self.clock() + _SECONDS_BETWEEN_LINES
            self._unlogged = 0

    def remove(self, connection: LimitedConnection) -> None:
        """Forget a connection that has ended; may be called more than once."""
        self._uncount(connection)
        self._all.discard(connection)

    def abort_all(self) -> None:
        """Close every connection, without counting why."""
        for connection in list(self._all):
            connection.abort("")

    def _uncount(self, connection: LimitedConnection) -> None:
        of_address = self._addresses.get(connection.address)
        if of_address is None:
            return
        for count in (of_address, self._total):
            count.new.pop(connection, None)
            count.kept -= connection in self._kept
        self._kept.discard(connection)
        if not of_address.new and not of_address.kept:
            del self._addresses[connection.address]


def counted_address(peer: str) -> str:
    """The address that a peer counts under: an IPv4 address, or the /64 network of an IPv6 address.

    A machine with IPv6 usually has a whole /64 at its disposal, so counting single addresses would limit nothing.
    """
    address = ip_address(peer)
    if isinstance(address, IPv6Address):
        mapped = address.ipv4_mapped
        return str(mapped) if mapped else str(IPv6Network((int(address) >> 64 << 64, 64)))
    return str(address)


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

    create_protocol: Callable[[], web.RequestHandler]
    """Makes aiohttp's protocol of a connection."""
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
        self._http = self._endpoint.create_protocol()
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
