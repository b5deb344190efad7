"""CA bundles: the certificates that a client trusts, and what it would say to a server's certificate."""

from __future__ import annotations

from ipaddress import ip_address
from typing import TYPE_CHECKING

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.verification import PolicyBuilder, Store, VerificationError

from certs.keypair import BadKeyPair, parse_certificates

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime

    from certs.keypair import KeyPair

__all__ = ["bundle_holds", "make_bundle", "refusal"]


def make_bundle(authorities: Iterable[bytes]) -> bytes:
    """Write the certificates of authorities one behind the other, each of them once.

    The order is kept. API servers share connections among webhooks whose bundles are equal byte by byte
    (client-go transport/cache.go), so that the same authorities should always be written in the same order.

    Args:
        authorities: PEM certificates.

    Raises:
        BadKeyPair: One of them cannot be parsed.
    """
    certificates = dict.fromkeys(certificate for pem in authorities for certificate in parse_certificates(pem))
    return b"".join(certificate.public_bytes(Encoding.PEM) for certificate in certificates)


def bundle_holds(bundle: bytes, authority: bytes) -> bool:
    """Whether a bundle has an authority's certificate; a damaged bundle has none.

    Raises:
        BadKeyPair: `authority` cannot be parsed.
    """
    wanted = parse_certificates(authority)
    try:
        return set(wanted) <= set(parse_certificates(bundle))
    except BadKeyPair:
        return False


def refusal(bundle: bytes, pair: KeyPair, names: Sequence[str], now: datetime) -> str:
    """Say why a client that trusts a bundle would refuse a server's certificate; empty when it would not.

    Args:
        bundle: PEM certificates of authorities, as they were published.
        pair: What the server shows.
        names: The DNS names and IP addresses under which clients know the server.
        now: The present moment, with a time zone.
    """
    try:
        authorities = parse_certificates(bundle)
        own, *intermediates = pair.chain
    except BadKeyPair as error:
        return str(error)
    client = PolicyBuilder().store(Store(list(authorities))).time(now)
    for name in names:
        try:
            client.build_server_verifier(_subject(name)).verify(own, intermediates)
        except VerificationError as error:
            return f"for {name}: {error}"
    return ""


def _subject(name: str) -> x509.DNSName | x509.IPAddress:
    try:
        return x509.IPAddress(ip_address(name))
    except ValueError:
        return x509.DNSName(name)
