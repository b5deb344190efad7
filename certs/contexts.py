"""Loads key pairs into TLS contexts."""

from __future__ import annotations

import os
import ssl
from typing import TYPE_CHECKING

from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from certs.keypair import BadKeyPair

if TYPE_CHECKING:
    from certs.keypair import KeyPair

__all__ = ["load_key_pair"]


def load_key_pair(context: ssl.SSLContext, pair: KeyPair) -> None:
    """Load a key pair into a context that is not in use yet.

    Raises:
        BadKeyPair: The pair cannot be parsed, or OpenSSL does not take it.
    """
    # OpenSSL gets the parsed pair, not the original PEM: so it serves the pair that was checked, and never finds an
    # encrypted key, for which it would prompt for a password on the terminal.
    key = pair.private_key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    chain = b"".join(certificate.public_bytes(Encoding.PEM) for certificate in pair.chain)
    # Python loads certificates from paths only. This one is memory: no disk sees the key, and a container with a
    # read-only root file system needs no writable folder.
    with os.fdopen(os.memfd_create("key-pair"), "wb") as memory:
        memory.write(key + chain)
        memory.flush()
        try:
            context.load_cert_chain(f"/proc/self/fd/{memory.fileno()}")
        except ssl.SSLError as error:
            reason = (error.reason or "unreadable encoding").replace("_", " ").lower()
            raise BadKeyPair(f"OpenSSL does not take the key pair: {reason}; issue one with ECDSA P-256.") from error
