"""Limits on the open connections of a port."""

from __future__ import annotations

from dataclasses import dataclass

FEWEST = 8
"""The smallest limit: an eighth of it is one connection."""


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """Limits on the open connections of one port. Connections of known client certificates do not count."""

    total: int = 2048
    """With a TLS handshake begun in each of them they take 140 MiB; silent ones take 2 MiB."""
    per_address: int = 1024
    """An API server holds one connection per concurrent call, and Konnectivity puts several API servers behind one
    address."""
