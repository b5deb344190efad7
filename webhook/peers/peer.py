"""Peers: how a replica can be reached by the others, as its Lease says."""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING, NamedTuple

from policies.kubernetes.paths import lookup
from webhook.cluster.leases import holder_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from certs import KeyPair
    from policies.kubernetes.objects import Object

__all__ = ["Peer", "peer_annotations", "peer_of"]

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
