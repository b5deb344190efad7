"""ReplicaConfig: how one replica runs, and the names of its objects in the cluster."""

from __future__ import annotations

import socket
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from webhook.server.config import ListenConfig

if TYPE_CHECKING:
    from certs import KeyPairFiles


NAMESPACE = "gpu-admission"
"""The namespace in which `deploy/` installs the service."""
DEPLOYMENT = "gpu-admission"
SERVICE = "gpu-admission"
EXPLAIN_SERVICE = "gpu-admission-explain"
"""The Service of explanations."""
EXPLAIN_SERVICE_ROLE = "gpu-admission-explain-service"
"""The Role that lets users reach it."""
LEASE = "gpu-admission"
SECRET = "gpu-admission-certificates"  # noqa: S105 - a name, and no secret


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaConfig(ListenConfig):
    """The configuration of one replica."""

    namespace: str = NAMESPACE
    """The namespace of the Lease, the Secret and the Service."""
    host_name: str = field(default_factory=socket.gethostname)
    """The name of this replica in the Lease: the name of its pod."""
    url: str = ""
    """The URL at which API servers call this replica, `https://host:port`; empty if they call the Service."""
    peer_host: str = ""
    """The address at which other replicas reach this one; empty if they cannot, so that each writes all ledgers."""
    certificate: KeyPairFiles | None = None
    """Files that another program keeps up to date, for example cert-manager; None for our own certificates."""

    @property
    def names(self) -> tuple[str, ...]:
        """The DNS name or IP address at which API servers call this replica."""
        if self.url:
            return (urlsplit(self.url).hostname or "",)
        return (f"{SERVICE}.{self.namespace}.svc",)
