"""TLS for the webhook server: contexts that take a new certificate without a lost request.

A `load_cert_chain` that fails on a live `ssl.SSLContext` leaves it unable to handshake (CPython 3.11 to 3.13), so
every pair gets a fresh context, and only one that could be built is put into service.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from cryptography.hazmat.primitives.serialization import Encoding

from certs import BadKeyPair, KeyPair, load_key_pair, parse_certificates
from webhook.server.config import POLL_SECONDS

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import NoReturn

    from certs import KeyPairFiles


_logger = logging.getLogger("gpu_admission.tls")


class BadClientCA(ValueError):  # noqa: N818 - named like BadKeyPair, its neighbour
    """The authorities of client certificates cannot be used."""


def server_context(pair: KeyPair, client_ca: bytes | None = None) -> ssl.SSLContext:
    """Build a context that serves one key pair: TLS 1.2 or newer, HTTP/1.1, Python's default ciphers.

    With `client_ca`, the server requests a client certificate and verifies it. A client may send none, as kubelet probes
    do; the handlers decide what such a client may do. Without `client_ca`, the server requests no client certificate.

    Args:
        pair: The key pair to serve. `KeyPair.check` checks its dates; this function does not.
        client_ca: PEM certificates of the authorities that issue client certificates.

    Raises:
        BadKeyPair: The pair cannot be parsed, or OpenSSL does not take it.
        BadClientCA: `client_ca` holds no certificates, or damaged ones.
    """
    # Not create_default_context: what that one verifies strictly changes with the version of Python.
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    # A resumed session repeats the identities of an earlier handshake. API servers do not resume (client-go's
    # TLSConfigFor sets no session cache), so nothing is lost by TLS 1.3 showing both certificates on every connection.
    # Python has no such switch for TLS 1.2.
    context.num_tickets = 0
    load_key_pair(context, pair)
    if client_ca is not None:
        _trust(context, client_ca)
        context.verify_mode = ssl.CERT_OPTIONAL
    return context


def _trust(context: ssl.SSLContext, client_ca: bytes) -> None:
    try:
        authorities = parse_certificates(client_ca)
    except BadKeyPair as error:
        raise BadClientCA(f"The bundle of client CAs cannot be used: {error}") from error
    for number, authority in enumerate(authorities, start=1):
        try:
            context.load_verify_locations(cadata=authority.public_bytes(Encoding.DER))
        except ssl.SSLError as error:
            raise BadClientCA(
                f"The bundle of client CAs cannot be used: OpenSSL cannot read certificate {number} of"
                f" {len(authorities)}; remove it or copy it again."
            ) from error


class ReloadingContext:
    """A server context whose certificate can be replaced while connections are open.

    The server gets `context` once and keeps it. At every handshake, with or without SNI, that context switches the
    connection to the current context. Open connections keep the context of their handshake.

    After the switch, OpenSSL takes only some settings from the current context: certificate, key, trusted authorities,
    ALPN. The request for a client certificate, protocol versions and session tickets come from `context`; but Python
    checks the current context whether a peer's certificate is verified. So all contexts have the same `client_ca`.
    """

    def __init__(
        self,
        pair: KeyPair,
        client_ca: bytes | None = None,
        *,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        """Check the first pair and serve it.

        Args:
            pair: The first pair.
            client_ca: As in `server_context`; the same for all later pairs.
            clock: Returns the current time with a time zone.

        Raises:
            BadKeyPair: The pair cannot be used now.
            BadClientCA: The client CAs cannot be used.
        """
        self._client_ca = client_ca
        self._clock = clock
        pair.check(clock())
        self.context: ssl.SSLContext = server_context(pair, client_ca)
        """The context to give to the server. It is never changed again, so it can always handshake."""
        self._serving = (pair, self.context)
        self.context.sni_callback = self._hand_over

    @property
    def pair(self) -> KeyPair:
        """The pair that new connections get."""
        return self._serving[0]

    def replace(self, pair: KeyPair) -> None:
        """Serve another pair from the next handshake on; safe to call from any thread.

        Raises:
            BadKeyPair: The pair cannot be used now; the previous one stays in use.
        """
        pair.check(self._clock())
        self._serving = (pair, server_context(pair, self._client_ca))

    def _hand_over(self, connection: ssl.SSLObject, _server_name: str | None, _context: ssl.SSLContext) -> None:
        connection.context = self._serving[1]


@dataclass(eq=False)
class FileWatcher:
    """Puts a changed key pair from files into service.

    Files that cannot be read or do not make a usable pair change nothing: they are logged once, and read again at
    every poll, since a half-written file will be complete and a certificate of tomorrow will be valid.
    """

    files: KeyPairFiles
    reloading: ReloadingContext
    _refused: tuple[KeyPair | None, str] | None = field(default=None, init=False)

    def poll(self) -> None:
        """Read the files once, and serve their pair if it is new and valid. Blocks on the file system."""
        pair = None
        try:
            pair = self.files.read()
            if pair != self.reloading.pair:
                self.reloading.replace(pair)
                text = "Now serving the key pair in %s: SHA-256 %s, for %s, valid until %s."
                names, end = ", ".join(pair.names) or "no name", _timestamp(pair.not_after)
                _logger.info(text, self.files, pair.fingerprint, names, end)
        except (BadKeyPair, OSError) as error:  # OSError: out of file descriptors, as a busy server can be for a while
            self._log_refused(pair, str(error))
        else:
            self._refused = None

    async def watch(self, interval: float = POLL_SECONDS) -> NoReturn:
        """Poll until cancelled.

        Args:
            interval: Seconds between two reads.
        """
        while True:
            await asyncio.sleep(interval)
            await asyncio.to_thread(self.poll)

    def _log_refused(self, pair: KeyPair | None, reason: str) -> None:
        if self._refused == (pair, reason):
            return
        self._refused = (pair, reason)
        _logger.error(
            "Refused the key pair in %s; still serving the previous one, valid until %s. %s",
            self.files,
            _timestamp(self.reloading.pair.not_after),
            reason,
        )


def _timestamp(moment: datetime) -> str:
    return f"{moment:%Y-%m-%dT%H:%M:%SZ}"


def peer_name(transport: asyncio.BaseTransport | None) -> str | None:
    """The common name of the client certificate that the handshake verified.

    None for a client without a certificate, for a connection that is closed or not TLS, and for a certificate that does
    not have exactly one common name, because the name would be ambiguous.
    """
    certificate = transport.get_extra_info("peercert") if transport is not None else None
    subject = certificate.get("subject", ()) if certificate else ()
    names = [value for attributes in subject for kind, value in attributes if kind == "commonName"]
    return names[0] if len(names) == 1 else None
