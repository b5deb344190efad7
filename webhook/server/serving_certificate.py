"""The serving certificate of a server: from files that are watched, or made at start."""

from __future__ import annotations

import os
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from certs import KeyPairFiles, issue_serving, make_authority
from webhook.server.config import CannotServe
from webhook.server.tls import FileWatcher, ReloadingContext

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from certs import KeyPair
    from webhook.server.config import ListenConfig, SelfSigned

__all__ = ["ServingCertificate", "certificate_of", "client_ca_of"]

_LOCAL_NAMES = ("localhost", "127.0.0.1", "::1")


@dataclass(frozen=True, slots=True, kw_only=True)
class ServingCertificate:
    """The certificate that a server shows to its clients."""

    reloading: ReloadingContext
    ca_pem: bytes | None = None
    """The authority's certificate, if the certificate was issued at start."""
    watcher: FileWatcher | None = None
    """Reloads changed files, if the certificate is in files."""
    now: Callable[[], datetime]

    def expiry(self) -> float:
        """When the certificate being served, or one of its chain, expires, in seconds since 1970."""
        return self.reloading.pair.not_after.timestamp()

    def problem(self) -> str:
        """Why clients would refuse the certificate; empty if they accept it."""
        end = self.reloading.pair.not_after
        if self.now() <= end:
            return ""
        return f"the serving certificate expired at {end.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"


def certificate_of(
    source: KeyPairFiles | SelfSigned, client_ca: bytes | None, *, now: Callable[[], datetime]
) -> ServingCertificate:
    """Read or issue the serving certificate.

    Args:
        source: The files to read, or the names to issue it for.
        client_ca: The bundle that `client_ca_of` returns.
        now: Returns the current time with a time zone.

    Raises:
        BadKeyPair: the files contain no usable key pair.
        BadClientCA: the client CAs are invalid.
        CannotServe: the authority's certificate cannot be written.
    """
    if isinstance(source, KeyPairFiles):
        reloading = ReloadingContext(source.load(now()), client_ca, clock=now)
        return ServingCertificate(reloading=reloading, watcher=FileWatcher(source, reloading), now=now)
    pair, ca_pem = _make(source, now())
    return ServingCertificate(reloading=ReloadingContext(pair, client_ca, clock=now), ca_pem=ca_pem, now=now)


def client_ca_of(config: ListenConfig) -> bytes | None:
    """The authorities of client certificates as PEM; None if clients need no certificate.

    Raises:
        CannotServe: the file cannot be read.
    """
    return _read(config.clients.ca_file) if config.clients else None


def _make(wanted: SelfSigned, now: datetime) -> tuple[KeyPair, bytes]:
    authority = make_authority("gpu-admission self-signed", now=now)
    pair = issue_serving(authority, list(dict.fromkeys((*_LOCAL_NAMES, *wanted.names))), now=now)
    if wanted.ca_file is not None:
        _write_whole(wanted.ca_file, authority.certificate_pem)
    return pair, authority.certificate_pem


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise CannotServe(f"The client CAs in {path} cannot be read: {error.strerror}.") from error


def _write_whole(path: Path, content: bytes) -> None:
    """Write a file atomically, so that no reader sees a part of it."""
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        unfinished.write_bytes(content)
        unfinished.replace(path)
    except OSError as error:
        raise CannotServe(f"The CA certificate cannot be written to {path}: {error.strerror}.") from error
