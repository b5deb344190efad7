"""TLS between replicas: both sides trust exactly the certificates in the Leases of replicas."""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING

from certs import load_key_pair

if TYPE_CHECKING:
    import asyncio

    from certs import KeyPair

__all__ = ["peer_certificate", "peer_client_context", "peer_server_context", "trust"]


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
