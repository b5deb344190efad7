"""ReplicaConfig: how one replica runs, and under which names it and its kind are known in the cluster."""

from __future__ import annotations

import socket
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from webhook.server.config import ListenConfig

if TYPE_CHECKING:
    from certs import KeyPairFiles

__all__ = ["LEASE", "NAMESPACE", "SECRET", "ReplicaConfig"]

NAMESPACE = "gpu-admission"
"""Where `deploy/` installs the service."""
SERVICE = "gpu-admission"
LEASE = "gpu-admission"
SECRET = "gpu-admission-certificates"  # noqa: S105 - a name, and no secret


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaConfig(ListenConfig):
    """How to run one replica."""

    namespace: str = NAMESPACE
    """Where the Lease, the Secret and the Service are."""
    host_name: str = field(default_factory=socket.gethostname)
    """What this replica is called by others, in the Lease: the name of its pod."""
    url: str = ""
    """Where API servers are to call this replica, `https://host:port`; empty where they call the Service."""
    certificate: KeyPairFiles | None = None
    """Files that somebody else keeps up to date, cert-manager for example; None for certificates of our own."""

    @property
    def names(self) -> tuple[str, ...]:
        """The DNS name or IP address under which API servers know this replica."""
        if self.url:
            return (urlsplit(self.url).hostname or "",)
        return (f"{SERVICE}.{self.namespace}.svc",)
