"""Connects a replica with the others: its certificate, address and connections."""

from __future__ import annotations

import secrets
import ssl
from contextlib import suppress
from typing import TYPE_CHECKING

from certs import make_self_signed
from webhook.peers.answers import PeerCalls
from webhook.peers.contexts import peer_server_context, trust
from webhook.peers.directory import Directory
from webhook.peers.links import Links
from webhook.peers.peer import peer_annotations

if TYPE_CHECKING:
    from datetime import datetime

    from webhook.cluster.client import APIClient
    from webhook.ledger.writer import LedgerWriter
    from webhook.peers.peer import Peer
    from webhook.replica.config import ReplicaConfig
    from webhook.server.listeners import Listeners

__all__ = ["Peers"]


class Peers:
    """Connects this replica with the others, if it has an address at which they reach it."""

    def __init__(self, client: APIClient, config: ReplicaConfig, identity: str, now: datetime) -> None:
        """Make a certificate; sends no request and does not listen yet."""
        self._host = config.peer_host
        self._pair = make_self_signed(f"replica {secrets.token_hex(16)}", now=now)
        self._context = peer_server_context(self._pair)
        self._directory = Directory(client, config.namespace, identity, self._update_links)
        self._calls: PeerCalls | None = None
        self.links = Links(self._pair)
        """The connections to the other replicas."""
        self.annotations: dict[str, str] = {}
        """Of the Lease of this replica; empty before it listens."""

    @property
    def has_address(self) -> bool:
        """True if other replicas can reach this one."""
        return bool(self._host)

    async def listen(self, listeners: Listeners, writer: LedgerWriter) -> None:
        """Answer other replicas.

        Raises:
            CannotServe: The port is taken or not allowed.
        """
        self._calls = PeerCalls(writer, lambda: {peer.certificate for peer in self._directory.peers})
        port = await listeners.answer_peers(self._calls.handle, self._context)
        host = f"[{self._host}]" if ":" in self._host else self._host
        self.annotations.update(peer_annotations(f"{host}:{port}", self._pair))

    async def run(self) -> None:
        """Follow the Leases of the other replicas until cancelled."""
        await self._directory.run()

    def notes(self) -> list[str]:
        """Why replicas compete for the ledgers of quotas; empty if they do not."""
        if not self._host:
            return [
                (
                    "this replica has no address for other replicas, so they compete for the ledgers of quotas; set POD_IP or "
                    "--peer-host"
                )
            ]
        return self.links.notes(self._directory.is_present)

    async def close(self) -> None:
        """Close all connections."""
        await self.links.close()
        if self._calls is not None:
            await self._calls.close()

    def _update_links(self, peers: frozenset[Peer]) -> None:
        for peer in peers:
            # A Lease with something that is not a certificate belongs to no replica.
            with suppress(ssl.SSLError):
                trust(self._context, peer.certificate)
        self.links.update(peers)
        if self._calls is not None:
            self._calls.close_strangers()
