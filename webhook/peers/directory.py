"""The directory of peers: watches the Leases of replicas."""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING

from webhook.cluster.leases import LEASE, REPLICA_QUERY, version_of
from webhook.cluster.reflector import Reflector
from webhook.cluster.store import Store
from webhook.peers.peer import peer_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import NoReturn

    from webhook.cluster.clockwork import Pace
    from webhook.cluster.reader import Reader
    from webhook.peers.peer import Peer

__all__ = ["Directory"]

_PRESENT_SECONDS = 30.0
"""A replica renews its Lease every 10 s (`webhook.controllers.presence`)."""


class Directory:
    """The other replicas, as their Leases show them."""

    def __init__(
        self,
        client: Reader,
        namespace: str,
        identity: str,
        on_change: Callable[[frozenset[Peer]], None],
        *,
        pace: Pace | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Sends no request before `run`.

        Args:
            client: Reads from the API server.
            namespace: The namespace of the Leases.
            identity: Of this replica, which is left out.
            on_change: Called with the other replicas whenever they change.
            pace: Pauses and time-outs of the watch.
            clock: Returns monotonic seconds.
        """
        self._identity = identity
        self._on_change = on_change
        self._clock = clock
        self._renewed: dict[Peer, tuple[object, float]] = {}
        """The version of each peer's Lease, and when it was seen first."""
        self.peers: frozenset[Peer] = frozenset()
        """The other replicas."""
        self._store = Store(LEASE, on_change=self._update)
        self._reflector = Reflector(client, LEASE, self._store, namespace=namespace, query=REPLICA_QUERY, pace=pace)

    async def run(self) -> NoReturn:
        """Watch until cancelled."""
        await self._reflector.run()

    def is_present(self, peer: Peer) -> bool:
        """True if the Lease of a peer was renewed a moment ago."""
        _, since = self._renewed.get(peer, (None, -math.inf))
        return self._clock() < since + _PRESENT_SECONDS

    def _update(self) -> None:
        versions = {peer: version_of(lease) for lease in self._store.list() if (peer := peer_of(lease)) is not None}
        peers = frozenset(peer for peer in versions if peer.identity != self._identity)
        before, now = self._renewed, self._clock()
        self._renewed = {
            peer: before[peer] if peer in before and before[peer][0] == versions[peer] else (versions[peer], now)
            for peer in peers
        }
        if peers != self.peers:
            self.peers = peers
            self._on_change(peers)
