"""Client certificates, as the authority of a cluster issues them to its API server."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cryptography.x509.oid import ExtendedKeyUsageOID

from certs.authority import ISSUED_LIFETIME, issue

if TYPE_CHECKING:
    from datetime import datetime, timedelta

    from certs import KeyPair


def issue_client(
    authority: KeyPair, common_name: str, *, now: datetime, lifetime: timedelta = ISSUED_LIFETIME
) -> KeyPair:
    """Issue a certificate that proves the name of a client; raises as `issue` does."""
    return issue(authority, common_name, ExtendedKeyUsageOID.CLIENT_AUTH, now, lifetime)
