"""The configuration of a server: addresses, certificate, clients, limits on connections, shutdown."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from certs import KeyPairFiles


EXPLAIN_PORT = 8445
"""The default port of explanations, which the installation uses."""
POLL_SECONDS = 10.0
"""Seconds between two reads of certificates. The kubelet brings a changed Secret after up to a minute or two anyway."""
FEWEST = 8
"""The smallest limit on connections: an eighth of it is one connection."""


class CannotServe(Exception):  # noqa: N818 - the name says what is wrong; "Error" would only say it twice
    """A server cannot start as configured. Its text is one plain sentence."""


@dataclass(frozen=True, slots=True)
class SelfSigned:
    """A serving certificate that is issued at start by an authority that exists in memory only."""

    names: tuple[str, ...] = ()
    """DNS names and IP addresses to answer for, in addition to those of this machine."""
    ca_file: Path | None = None
    """Where to write the authority's certificate, which clients need to verify the server."""


@dataclass(frozen=True, slots=True)
class ClientCertificates:
    """The clients that may call the entries with effects."""

    ca_file: Path
    """PEM certificates of the authorities that issue client certificates."""
    names: frozenset[str]
    """Common names of the clients that may; an authority of a whole cluster issues certificates to many."""

    def __post_init__(self) -> None:
        if not self.names:
            raise ValueError("A client CA without allowed client names allows no client; name the API server's client.")


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """Limits on the open connections of one port. Connections of known client certificates do not count."""

    total: int = 2048
    """With a TLS handshake begun in each of them they take 140 MiB; silent ones take 2 MiB."""
    per_address: int = 1024
    """An API server holds one connection per concurrent call, and Konnectivity puts several API servers behind one
    address."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListenConfig:
    """Addresses, allowed clients, and shutdown."""

    host: str = "127.0.0.1"
    """The address to listen on; empty for all of them."""
    port: int = 8443
    """The port of the webhook; 0 for any that is free."""
    probe_port: int = 8080
    """The port of probes and metrics; 0 for any that is free."""
    peer_port: int = 8444
    """The port for charges of other replicas; 0 for any that is free."""
    explain_port: int = EXPLAIN_PORT
    """The port of explanations; 0 for any that is free."""
    ui_port: int | None = None
    """The port of the page; 0 for any that is free, None to serve no page."""
    clients: ClientCertificates | None = None
    """None if every client may call."""
    connections: ConnectionLimits = field(default_factory=ConnectionLimits)
    """Limits on the open connections of each port."""
    reload_seconds: float = POLL_SECONDS
    """Seconds between two reads of the certificate's files."""
    drain_delay: float = 15.0
    """Seconds to continue serving after SIGTERM, while endpoints still send callers here."""
    drain_timeout: float = 10.0
    """Seconds to wait after that for calls in flight; the API server's default timeout is not longer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerConfig(ListenConfig):
    """The configuration of a server with its own certificate."""

    certificate: KeyPairFiles | SelfSigned
