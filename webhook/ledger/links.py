"""Links: the connections to all other replicas, over which charges are sent."""

from __future__ import annotations

import asyncio
import logging
import ssl
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import aiohttp

from webhook.cluster.clockwork import Clockwork
from webhook.ledger.directory import peer_client_context
from webhook.ledger.peer_answers import CLOSE_SECONDS, HEARTBEAT_SECONDS, MOST_MESSAGE_BYTES, PATH, Outbox, read_answer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from contextlib import AbstractAsyncContextManager
    from typing import NoReturn

    from certs import KeyPair
    from webhook.ledger.directory import Peer


_CONNECT_SECONDS = 5.0
_FIRST_PAUSE, _LONGEST_PAUSE = 0.2, 10.0
_NOTED_SECONDS = 30.0
"""A replica that cannot be reached for this long is worth a note, if it is present."""

_logger = logging.getLogger("gpu_admission.peers")


class LostLink(Exception):  # noqa: N818 - the name says what is wrong; "Error" would only say it twice
    """The connection ended before the answer."""


class Link:
    """The connection to one replica, made again whenever it ends."""

    def __init__(self, peer: Peer, pair: KeyPair, session: aiohttp.ClientSession, clockwork: Clockwork) -> None:
        """Sends nothing before `run`.

        Raises:
            ssl.SSLError: OpenSSL cannot read the certificate of the peer.
        """
        self.peer = peer
        self._context = peer_client_context(pair, peer.certificate)
        self._session = session
        self._clockwork = clockwork
        self._outbox: Outbox | None = None
        """None while there is no connection."""
        self._answers: dict[str, asyncio.Future[bool]] = {}
        """By the call of the charge."""
        self.last_connected = clockwork.clock()
        """When it was connected for the last time, or made, by the monotonic clock."""

    @property
    def is_open(self) -> bool:
        """True if the replica can be reached."""
        return self._outbox is not None

    async def ask(self, call: str, text: bytes) -> bool:
        """Send the charge of a call; returns whether it is on the ledger.

        Raises:
            LostLink: The connection ended before the answer.
        """
        self.send(text)
        answer: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._answers[call] = answer
        try:
            return await answer
        finally:
            del self._answers[call]

    def send(self, text: bytes) -> None:
        """Send a message that has no answer.

        Raises:
            LostLink: There is no connection, or the other side does not read.
        """
        if self._outbox is None or not self._outbox.put(text):
            raise LostLink

    async def run(self) -> NoReturn:
        """Keep the connection until cancelled."""
        pause = _FIRST_PAUSE
        while True:
            try:
                async with self._connect() as socket:
                    self._outbox, pause = Outbox(socket), _FIRST_PAUSE
                    sending = asyncio.create_task(self._outbox.run())
                    try:
                        await self._receive(socket)
                    finally:
                        sending.cancel()
            except (aiohttp.ClientError, OSError, TimeoutError, ValueError) as error:
                # A ValueError is an address that is none, or a message that is none.
                _logger.debug("no connection to %s at %s: %s", self.peer.identity, self.peer.address, error)
            finally:
                self._mark_lost()
            await self._clockwork.sleep(self._clockwork.with_jitter(pause))
            pause = min(pause * 2, _LONGEST_PAUSE)

    def _connect(self) -> AbstractAsyncContextManager[aiohttp.ClientWebSocketResponse[bool]]:
        return self._session.ws_connect(
            f"https://{self.peer.address}{PATH}",
            ssl=self._context,
            timeout=aiohttp.ClientWSTimeout(ws_close=CLOSE_SECONDS),
            heartbeat=HEARTBEAT_SECONDS,
            max_msg_size=MOST_MESSAGE_BYTES,
            compress=0,
        )

    async def _receive(self, socket: aiohttp.ClientWebSocketResponse[bool]) -> None:
        async for message in socket:
            answer = read_answer(message.data)
            waiting = self._answers.get(answer.call)
            if waiting is not None and not waiting.done():
                waiting.set_result(answer.is_charged)

    def _mark_lost(self) -> None:
        if self._outbox is not None:
            self._outbox, self.last_connected = None, self._clockwork.clock()
        for answer in self._answers.values():
            if not answer.done():
                answer.set_exception(LostLink())


@dataclass(eq=False)
class Links:
    """The links to all other replicas."""

    pair: KeyPair
    clockwork: Clockwork = field(default_factory=Clockwork)
    _session: aiohttp.ClientSession | None = field(default=None, init=False)
    _links: dict[Peer, tuple[Link, asyncio.Task[None]]] = field(default_factory=dict, init=False)
    _is_closed: bool = field(default=False, init=False)

    def __iter__(self) -> Iterator[Link]:
        return (link for link, _ in self._links.values())

    def update(self, peers: Iterable[Peer]) -> None:
        """Keep links to these replicas, and to no others."""
        wanted = set() if self._is_closed else set(peers)
        for gone in self._links.keys() - wanted:
            _, task = self._links.pop(gone)
            task.cancel()
        for peer in wanted - self._links.keys():
            # A Lease with something that is not a certificate belongs to no replica.
            with suppress(ssl.SSLError):
                link = Link(peer, self.pair, self._connections(), self.clockwork)
                self._links[peer] = link, asyncio.create_task(link.run(), name=f"link to {peer.identity}")

    def notes(self, is_present: Callable[[Peer], bool]) -> list[str]:
        """Notes about replicas that cannot be reached although they are present."""
        since = self.clockwork.clock() - _NOTED_SECONDS
        return [
            f"replica {link.peer.identity} cannot be reached at {link.peer.address}, so replicas compete for the ledgers of "
            "quotas; allow that port between the pods of gpu-admission"
            for link in self
            if not link.is_open and link.last_connected < since and is_present(link.peer)
        ]

    async def close(self) -> None:
        """Close all links, for good."""
        self._is_closed = True
        tasks = [task for _, task in self._links.values()]
        self.update(())
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._session is not None:
            await self._session.close()

    def _connections(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                timeout=aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_SECONDS),
                cookie_jar=aiohttp.DummyCookieJar(),
                trust_env=False,
            )
        return self._session
