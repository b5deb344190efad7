"""The serving certificate of a server: from files that are watched, or made at start."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from certs import KeyPairFiles, issue_serving, make_authority
from webhook.server.config import CannotServe
from webhook.server.tls import FileWatcher, ReloadingContext

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from certs import KeyPair
    from webhook.server.config import SelfSigned, ServerConfig

__all__ = ["ServingCertificate"]

_LOCAL_NAMES = ("localhost", "127.0.0.1", "::1")


class ServingCertificate:
    """What a server shows its clients, and what it knows about it."""

    def __init__(self, config: ServerConfig, *, now: Callable[[], datetime]) -> None:
        """Read or make the certificate.

        Raises:
            BadKeyPair: The files hold nothing that can be served.
            BadClientCA: The client CAs cannot be used.
            CannotServe: The client CAs cannot be read, or the authority's certificate cannot be written.
        """
        self._now = now
        client_ca = _read(config.clients.ca_file) if config.clients else None
        self.ca_pem: bytes | None = None
        """The authority's certificate, where the certificate was made at start."""
        self.watcher: FileWatcher | None = None
        """Brings changed files into service, where the certificate lies in files."""
        if isinstance(config.certificate, KeyPairFiles):
            pair = config.certificate.load(now())
        else:
            pair, self.ca_pem = _make(config.certificate, now())
        self.reloading = ReloadingContext(pair, client_ca, clock=now)
        if isinstance(config.certificate, KeyPairFiles):
            self.watcher = FileWatcher(config.certificate, self.reloading)

    def expiry(self) -> float:
        """When the certificate being served, or one of its chain, expires, in seconds since 1970."""
        return self.reloading.pair.not_after.timestamp()

    def problem(self) -> str:
        """Why clients would refuse it; empty when they would not."""
        end = self.reloading.pair.not_after
        if self._now() <= end:
            return ""
        return f"the serving certificate expired at {end.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"


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
    """Write a file so that who waits for it finds all of it or none."""
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        unfinished.write_bytes(content)
        unfinished.replace(path)
    except OSError as error:
        raise CannotServe(f"The CA certificate cannot be written to {path}: {error.strerror}.") from error
