"""Peers: how a replica can be reached by the others, as its Lease says."""

from __future__ import annotations

import math
import ssl
import time
from typing import TYPE_CHECKING, NamedTuple

from certs import load_key_pair
from policies.kubernetes.objects import lookup
from webhook.cluster.leases import LEASE, REPLICA_QUERY, holder_of, version_of
from webhook.cluster.reflector import Reflector
from webhook.cluster.store import Store

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Mapping
    from typing import NoReturn

    from certs import KeyPair
    from policies.kubernetes.objects import Object
    from webhook.cluster.client import APIClient
    from webhook.cluster.clockwork import Pace


_ADDRESS = "gpu-admission.io/peer-address"
_CERTIFICATE = "gpu-admission.io/peer-certificate"
_LONGEST_CERTIFICATE = 4096


class Peer(NamedTuple):
    """A replica that the others can reach."""

    identity: str
    address: str
    """`host:port`."""
    certificate: bytes
    """The only certificate that it shows, in DER."""


def peer_annotations(address: str, pair: KeyPair) -> Mapping[str, str]:
    """The annotations of a replica's Lease that tell the others how to reach it."""
    return {_ADDRESS: address, _CERTIFICATE: pair.certificate_pem.decode()}


def peer_of(lease: Object) -> Peer | None:
    """The peer in the Lease of a replica; None if it was released, or has no address and certificate."""
    identity = holder_of(lease)
    address = lookup(lease, ("metadata", "annotations", _ADDRESS))
    certificate = lookup(lease, ("metadata", "annotations", _CERTIFICATE))
    if not identity or not isinstance(address, str) or not isinstance(certificate, str):
        return None
    if not address or len(certificate) > _LONGEST_CERTIFICATE:
        return None
    try:
        der = ssl.PEM_cert_to_DER_cert(certificate)
    except ValueError:
        return None
    return Peer(identity, address, der) if der else None


def peer_server_context(pair: KeyPair) -> ssl.SSLContext:
    """A context that requires a trusted client certificate; none is trusted yet."""
    context = _context(ssl.PROTOCOL_TLS_SERVER, pair)
    # A resumed session would show a certificate that is no longer trusted.
    context.num_tickets = 0
    return context


def peer_client_context(pair: KeyPair, certificate: bytes) -> ssl.SSLContext:
    """A context that trusts one server certificate, in DER."""
    context = _context(ssl.PROTOCOL_TLS_CLIENT, pair)
    # The certificate itself is trusted, whatever its names.
    context.check_hostname = False
    trust(context, certificate)
    return context


def trust(context: ssl.SSLContext, certificate: bytes) -> None:
    """Trust one more certificate, in DER; contexts in use may be given more.

    Raises:
        ssl.SSLError: OpenSSL cannot read the certificate.
    """
    if not certificate:
        raise ssl.SSLError("the certificate is empty")
    context.load_verify_locations(cadata=certificate)


def peer_certificate(transport: asyncio.BaseTransport | None) -> bytes | None:
    """The certificate that the other side of a connection has shown, in DER."""
    connection = None if transport is None else transport.get_extra_info("ssl_object")
    return None if connection is None else connection.getpeercert(binary_form=True)


def _context(protocol: int, pair: KeyPair) -> ssl.SSLContext:
    context = ssl.SSLContext(protocol)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.verify_mode = ssl.CERT_REQUIRED
    load_key_pair(context, pair)
    return context


_PRESENT_SECONDS = 30.0
"""A replica renews its Lease every 10 s (`webhook.controllers.presence`)."""


class Directory:
    """The other replicas, as their Leases show them."""

    def __init__(
        self,
        client: APIClient,
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
