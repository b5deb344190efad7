"""CA bundles: the certificates that clients trust, and whether they accept a server's certificate."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.verification import PolicyBuilder, Store, VerificationError

from certs.authority import general_name
from certs.keypair import BadKeyPair, parse_certificates

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime

    from certs.keypair import KeyPair

__all__ = ["bundle_holds", "make_bundle", "refusal"]


def make_bundle(authorities: Iterable[bytes]) -> bytes:
    """The certificates of authorities as one PEM text, each of them once.

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
    """True if a bundle has an authority's certificate; False for a damaged bundle.

    Raises:
        BadKeyPair: `authority` cannot be parsed.
    """
    wanted = parse_certificates(authority)
    try:
        return set(wanted) <= set(parse_certificates(bundle))
    except BadKeyPair:
        return False


def refusal(bundle: bytes, pair: KeyPair, names: Sequence[str], now: datetime) -> str:
    """Why a client that trusts a bundle would refuse a server's certificate; empty if it would not.

    Args:
        bundle: PEM certificates of authorities, as they were published.
        pair: The key pair of the server.
        names: The DNS names and IP addresses at which clients call the server.
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
            client.build_server_verifier(general_name(name)).verify(own, intermediates)
        except VerificationError as error:
            return f"for {name}: {error}"
    return ""
