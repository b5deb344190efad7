"""Guarded sites: accept connections for aiohttp, within the limits of connections."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from aiohttp import web

from webhook.server.guarded_connection import GuardedConnection
from webhook.server.open_connections import counted_address

if TYPE_CHECKING:
    import socket

    from webhook.server.guarded_connection import Endpoint

__all__ = ["GuardedSite"]

_ACCEPTED_AT_ONCE = 64
"""Connections accepted in one iteration of the event loop, so that many new ones do not delay the open ones."""
_BACKLOG = 512
_PAUSE_SECONDS = 1.0
"""Seconds without accepting after the system had no file descriptor or memory for a connection."""

_logger = logging.getLogger("gpu_admission.connections")


class GuardedSite(web.BaseSite):
    """Listens on one port and accepts connections."""

    def __init__(self, runner: web.AppRunner, host: str, port: int, endpoint: Endpoint) -> None:
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
