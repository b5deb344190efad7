"""Open connections: chooses which to close beyond the limits, in total or per address.

A connection whose client has had no answer yet is *new*; afterwards it is *kept*, because the API server leaves its
connections open between calls. Beyond a limit the oldest new connection is closed, so silent ones go first and a client
that sends its request at once gets its answer. An eighth of each limit is reserved for new connections: once the rest is
kept, every further connection is closed after its first answer. So no client is locked out, whatever the others hold.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from dataclasses import dataclass, field
from ipaddress import IPv6Address, IPv6Network, ip_address
from typing import TYPE_CHECKING, Protocol

from webhook.server.connection_limits import FEWEST
from webhook.server.logs import log_closed_connections

if TYPE_CHECKING:
    from collections.abc import Callable

    from webhook.server.connection_limits import ConnectionLimits

__all__ = ["CLOSED", "LimitedConnection", "OpenConnections", "counted_address"]

CLOSED = ("address_limit", "total_limit", "handshake_timeout", "head_timeout", "head_size")
"""Why the server closes a connection."""

_SECONDS_BETWEEN_LINES = 10.0
"""Between two lines in the log, so that many clients do not fill it."""


class LimitedConnection(Protocol):
    """An open connection that can be closed."""

    address: str
    """What `counted_address` returned for its peer."""

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


class OpenConnections:
    """The open connections of one port, counted against its limits."""

    def __init__(
        self,
        limits: ConnectionLimits,
        count_closed: Callable[[str], None],
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Begin without connections.

        Args:
            limits: How many there may be.
            count_closed: Called with one of `CLOSED` for each connection that a limit closes.
            clock: Returns monotonic seconds.
        """
        self._limits = limits
        self._count_closed = count_closed
        self._clock = clock
        self._next_line = 0.0
        self._unlogged = 0
        self._all: set[LimitedConnection] = set()
        self._total = _Count(limits.total)
        self._addresses: dict[str, _Count] = {}
        self._kept: set[LimitedConnection] = set()

    def __len__(self) -> int:
        return len(self._all)

    def add(self, connection: LimitedConnection) -> None:
        """Count a new connection; beyond a limit, close the oldest new one."""
        of_address = self._addresses.setdefault(connection.address, _Count(self._limits.per_address))
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
        self._count_closed(reason)
        self._unlogged += 1
        if self._clock() >= self._next_line:
            log_closed_connections(connection.address, reason, self._unlogged)
            self._next_line = self._clock() + _SECONDS_BETWEEN_LINES
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
