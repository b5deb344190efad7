"""A TCP relay between clients and servers that can disturb connections on demand."""

from __future__ import annotations

import asyncio
import itertools
from contextlib import closing
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from asyncio import StreamReader, StreamWriter
    from collections.abc import Sequence
    from random import Random


Address = tuple[str, int]
_CHUNK = 65536


class _Link:
    """One connection, and the one behind it."""

    def __init__(self, here: StreamWriter, there: StreamWriter, *, is_silent: bool) -> None:
        self._ends = (here, there)
        self.flows = asyncio.Event()
        self.is_hushed = False
        """True if it stays silent for as long as it lives."""
        if not is_silent:
            self.flows.set()

    def resume(self) -> None:
        """Let bytes flow again, unless it is hushed."""
        if not self.is_hushed:
            self.flows.set()

    def cut(self) -> None:
        """Abort it; bytes in transit are lost."""
        self.flows.set()
        for end in self._ends:
            end.transport.abort()

    async def carry(self, reader: StreamReader, writer: StreamWriter) -> None:
        """Relay one direction until either side ends."""
        try:
            while chunk := await reader.read(_CHUNK):
                await self.flows.wait()
                writer.write(chunk)
                await writer.drain()
        except OSError:
            self.cut()
        else:
            writer.close()


class Relay:
    """A listener whose connections can be cut, held or refused.

    With several servers it works like a Service: each connection goes to the next server, or to another one if that does
    not listen.
    """

    def __init__(self, random: Random, *servers: Address) -> None:
        """`random` chooses connections to disturb."""
        self.netloc = ""
        """Its host and port, as in a URL."""
        self.refuses = False
        """True while every connection is refused, as if the server were down."""
        self._is_silent = False
        self._random = random
        self._servers = servers
        self._next = itertools.cycle(servers)
        self._links: set[_Link] = set()
        self._serving: set[asyncio.Task[None]] = set()
        self._listener: asyncio.Server | None = None

    async def listen(self, host: str, port: int = 0) -> Address:
        """Start to listen; returns the address."""
        self._listener = await asyncio.start_server(self._accept, host, port)
        address: Address = self._listener.sockets[0].getsockname()[:2]
        self.netloc = f"{address[0]}:{address[1]}"
        return address

    def route(self, servers: Sequence[Address]) -> None:
        """Relay new connections to other servers; open ones stay."""
        self._servers, self._next = tuple(servers), itertools.cycle(servers)

    def cut(self, share: float = 1.0) -> int:
        """Cut a share of the connections; returns their number."""
        chosen = self._some(share)
        for link in chosen:
            link.cut()
        return len(chosen)

    async def hold(self, share: float, seconds: float) -> None:
        """Stop the traffic of a share of the connections for a while, without closing them."""
        chosen = self._some(share)
        for link in chosen:
            link.flows.clear()
        try:
            await asyncio.sleep(seconds)
        finally:
            for link in () if self._is_silent else chosen:
                link.resume()

    async def silence(self, seconds: float) -> None:
        """Stop all traffic for a while, also that of new connections, as if every packet was lost."""
        self._is_silent = True
        for link in self._links:
            link.flows.clear()
        try:
            await asyncio.sleep(seconds)
        finally:
            self._is_silent = False
            for link in self._links:
                link.resume()

    def hush(self, share: float = 1.0) -> int:
        """Keep a share of the connections open and silent from now on; returns their number.

        New connections work. So does a firewall that forgets connections without closing them.
        """
        chosen = self._some(share)
        for link in chosen:
            link.is_hushed = True
            link.flows.clear()
        return len(chosen)

    async def refuse(self, seconds: float) -> None:
        """Refuse connections for a while, as if the server were down."""
        self.refuses = True
        self.cut()
        try:
            await asyncio.sleep(seconds)
        finally:
            self.refuses = False

    async def close(self) -> None:
        """Close the listener and all connections."""
        if self._listener is not None:
            self._listener.close()
        self.refuses = True
        self.cut()
        if self._serving:
            await asyncio.wait(self._serving, timeout=5)

    def _some(self, share: float) -> Sequence[_Link]:
        return [link for link in self._links if self._random.random() < share]

    def _accept(self, reader: StreamReader, writer: StreamWriter) -> None:
        task = asyncio.get_running_loop().create_task(self._serve(reader, writer))
        self._serving.add(task)
        task.add_done_callback(self._serving.discard)

    async def _serve(self, reader: StreamReader, writer: StreamWriter) -> None:
        with closing(writer):
            found = None if self.refuses else await self._connect()
            if found is None or self.refuses:
                for end in (writer, *(found or ())[1:]):
                    end.transport.abort()
                return
            there_reader, there = found
            link = _Link(writer, there, is_silent=self._is_silent)
            self._links.add(link)
            try:
                await asyncio.gather(link.carry(reader, there), link.carry(there_reader, writer))
            finally:
                self._links.discard(link)
                link.cut()

    async def _connect(self) -> tuple[StreamReader, StreamWriter] | None:
        for _ in self._servers:
            try:
                return await asyncio.open_connection(*next(self._next))
            except OSError:
                continue
        return None
