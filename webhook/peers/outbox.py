"""Sends the messages of one connection, by one task."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Protocol

__all__ = ["Outbox"]

_MOST_BYTES = 4 * 1024 * 1024
_BYTES_OF_A_MESSAGE = 1024
"""What a message counts besides its text."""


class _Socket(Protocol):
    async def send_bytes(self, message: bytes) -> None: ...


class Outbox:
    """Messages that wait to be sent.

    Callers do not wait: all senders of a connection would wait for one future of aiohttp, and a caller whose time is up would
    cancel it for all of them.
    """

    def __init__(self, socket: _Socket) -> None:
        """Without messages; `run` sends them."""
        self._socket = socket
        self._waiting: asyncio.Queue[bytes] = asyncio.Queue()
        self._bytes = 0

    def put(self, text: bytes) -> bool:
        """Send a message soon; False if too many wait, because the other side does not read."""
        size = len(text) + _BYTES_OF_A_MESSAGE
        if self._bytes + size > _MOST_BYTES:
            return False
        self._bytes += size
        self._waiting.put_nowait(text)
        return True

    async def run(self) -> None:
        """Send messages until cancelled, or until the connection has ended."""
        with suppress(ConnectionError):
            while True:
                text = await self._waiting.get()
                await self._socket.send_bytes(text)
                self._bytes -= len(text) + _BYTES_OF_A_MESSAGE
