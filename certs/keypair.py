"""A certificate chain with its private key as PEM, its files, and the checks before it may serve.

The kubelet replaces a mounted Secret by turning one symbolic link (`..data`) to a new folder, so both files change at once,
but two reads can still fall on either side of the turn. Modification times say little there (the new folder's files may
well be older), so changes are found by content: read again, and compare the pairs.
"""

from __future__ import annotations

import os
import ssl
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
)

if TYPE_CHECKING:
    from datetime import datetime
    from pathlib import Path

    from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes, PublicKeyTypes


class BadKeyPair(ValueError):  # noqa: N818 - the name says what is wrong; "Error" would only say it twice
    """A certificate, its key, or the two together cannot be used.

    Its text is one plain sentence that says what is wrong and what to do, and never holds key material.
    """


@dataclass(frozen=True)
class KeyPair:
    """A private key and the certificate that was issued for it.

    Nothing is parsed at creation, because files and Secrets may be half-written; `check` checks the pair. Every property
    parses and may raise `BadKeyPair`.

    Attributes:
        certificate_pem: The certificate, followed by its intermediate certificates if there are any.
        key_pem: The private key, unencrypted.
    """

    certificate_pem: bytes
    key_pem: bytes

    def __repr__(self) -> str:
        # Neither half is shown: some tools write the key into the certificate's file too.
        return f"KeyPair(<{len(self.certificate_pem)} bytes>, <{len(self.key_pem)} bytes, secret>)"

    @property
    def chain(self) -> tuple[x509.Certificate, ...]:
        """All certificates in the order they are sent, the server's or client's own one first."""
        return parse_certificates(self.certificate_pem)

    @property
    def private_key(self) -> PrivateKeyTypes:
        """The private key, parsed."""
        return _parse_key(self.key_pem)

    @property
    def not_after(self) -> datetime:
        """The last second at which the whole chain is valid, in UTC."""
        return min(certificate.not_valid_after_utc for certificate in self.chain)

    @property
    def names(self) -> tuple[str, ...]:
        """The SANs of the certificate, DNS names before IP addresses; often empty for a client."""
        try:
            alternatives = self.chain[0].extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        except x509.ExtensionNotFound:
            return ()
        except (ValueError, x509.DuplicateExtension, x509.UnsupportedGeneralNameType) as error:
            raise BadKeyPair("The certificate's extensions cannot be read; issue it again.") from error
        dns_names = alternatives.get_values_for_type(x509.DNSName)
        addresses = alternatives.get_values_for_type(x509.IPAddress)
        return (*dns_names, *(str(address) for address in addresses))

    @property
    def fingerprint(self) -> str:
        """The SHA-256 of the certificate in hexadecimal, like `openssl x509 -fingerprint` without colons."""
        return self.chain[0].fingerprint(hashes.SHA256()).hex()

    def check(self, now: datetime) -> None:
        """Refuse a pair that a TLS handshake would fail with.

        Both halves must parse, belong together and be valid now. A chain is only as good as its weakest certificate:
        clients turn down a valid one that came with an expired issuer, so the dates of all of them count.

        Args:
            now: The present moment, with a time zone.

        Raises:
            BadKeyPair: The pair cannot be used.
        """
        chain = self.chain
        _check_belongs(chain, self.private_key)
        for number, certificate in enumerate(chain, start=1):
            which = "The certificate" if number == 1 else f"Certificate {number} of the chain"
            begin, end = certificate.not_valid_before_utc, certificate.not_valid_after_utc
            if now < begin:
                raise BadKeyPair(f"{which} is not valid before {begin:%Y-%m-%dT%H:%M:%SZ}; wait, or correct the clock.")
            if now > end:
                raise BadKeyPair(f"{which} expired at {end:%Y-%m-%dT%H:%M:%SZ}; issue a new one.")
        _ = self.names


def parse_certificates(pem: bytes) -> tuple[x509.Certificate, ...]:
    """Parse every certificate of a PEM file, and refuse the file if any of them is cut off.

    Args:
        pem: One or more `BEGIN CERTIFICATE` blocks; text around them is allowed, as everywhere.

    Raises:
        BadKeyPair: No certificate is found, or one is damaged.
    """
    begun = pem.count(b"-----BEGIN CERTIFICATE-----")
    if not begun:
        raise BadKeyPair("There is no PEM certificate: no BEGIN CERTIFICATE line; give the certificate, not its key.")
    try:
        certificates = tuple(x509.load_pem_x509_certificates(pem))
    except (ValueError, x509.InvalidVersion) as error:
        raise BadKeyPair(
            "The certificate is cut off or damaged: its PEM cannot be parsed; write or copy it again."
        ) from error
    # The parser skips a last block without its END line, which is what a half-written chain looks like.
    if len(certificates) != begun:
        raise BadKeyPair(f"Only {len(certificates)} of {begun} certificates are complete; write the file to its end.")
    return certificates


def _parse_key(pem: bytes) -> PrivateKeyTypes:
    if b"PRIVATE KEY-----" not in pem:
        raise BadKeyPair("There is no PEM key: no BEGIN PRIVATE KEY line; give the key, not its certificate.")
    try:
        return load_pem_private_key(pem, password=None)
    except TypeError as error:
        raise BadKeyPair("The key is encrypted; store it without a password.") from error
    except (ValueError, UnsupportedAlgorithm) as error:
        raise BadKeyPair("The key is cut off or damaged: its PEM cannot be parsed; write or copy it again.") from error


def _check_belongs(chain: tuple[x509.Certificate, ...], key: PrivateKeyTypes) -> None:
    try:
        owners = [_public_bytes(certificate.public_key()) for certificate in chain]
    except (ValueError, UnsupportedAlgorithm) as error:
        raise BadKeyPair(
            "The certificate holds a public key of a kind that is not supported; issue it again."
        ) from error
    own = _public_bytes(key.public_key())
    if own == owners[0]:
        return
    if own in owners:
        number = owners.index(own) + 1
        raise BadKeyPair(f"The key belongs to certificate {number} of {len(chain)}; put that one first in the file.")
    raise BadKeyPair("The key does not belong to the certificate; use the key that the certificate was issued for.")


def _public_bytes(key: PublicKeyTypes) -> bytes:
    return key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)


ATTEMPTS = 3
"""The number of reads of a pair that keeps changing; after that, the next poll reads it."""


@dataclass(frozen=True)
class KeyPairFiles:
    """The files of a key pair: `--tls-cert` and `--tls-key`."""

    certificate: Path
    key: Path

    def __str__(self) -> str:
        return f"{self.certificate} and {self.key}"

    def read(self) -> KeyPair:
        """Read both files without checking their content.

        The certificate is read again after the key: when it is still the same, the key was read from the same
        generation of the Secret.

        Raises:
            BadKeyPair: A file is missing or cannot be read.
        """
        certificate = _read("certificate", self.certificate)
        for _ in range(ATTEMPTS):
            pair = KeyPair(certificate, _read("key", self.key))
            certificate = _read("certificate", self.certificate)
            if certificate == pair.certificate_pem:
                break
        return pair

    def load(self, now: datetime) -> KeyPair:
        """Read both files, and check that the pair can serve now.

        Raises:
            BadKeyPair: A file is missing or cannot be read, or the pair does not pass `KeyPair.check`;
                the sentence names the files.
        """
        pair = self.read()
        try:
            pair.check(now)
        except BadKeyPair as error:
            raise BadKeyPair(f"The key pair in {self} cannot be used: {error}") from error
        return pair


def _read(what: str, path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError as error:
        raise BadKeyPair(
            f"The {what} file {path} does not exist; mount its Secret there, or correct the path."
        ) from error
    except OSError as error:
        raise BadKeyPair(f"The {what} file {path} cannot be read: {error.strerror}.") from error


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
