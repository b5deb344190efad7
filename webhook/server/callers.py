"""The callers whose calls may have effects."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from webhook.server.template_rates import AT_ONCE, PER_MINUTE
from webhook.server.tls import peer_name

if TYPE_CHECKING:
    import asyncio

    from policies.admission.entries import Entry

__all__ = ["Callers"]

_STRANGERS = "strangers"
_LEVERS = (
    (
        f"create ResourceClaimTemplates in namespaces that convert (at most {AT_ONCE} new ones at once and {PER_MINUTE} a "
        "minute in each, swept after an hour)"
    ),
    ("reserve the rest of a GPUQuota for two minutes, repeatedly, so that pods of its namespace are refused"),
    (
        "learn what GPUs the cluster has, how much of each GPUQuota is used and by how many pods and claims; and by which "
        "ones if quota.nameHolders is Always"
    ),
    "use up the CPU time of this replica by reviews",
)
"""Everything that an unauthenticated caller can do, for `/readyz`, the log and docs/security.md."""

_NO_CLIENT_CA = (
    f"no client CA is configured, so every client that reaches this port can: {'; '.join(_LEVERS)}. To prevent it, configure a "
    "client CA (docs/client-certificates.md), or let a NetworkPolicy admit the API server only"
)


@dataclass(frozen=True, slots=True)
class Callers:
    """The clients whose calls may have effects, such as writing a template.

    Every pod of a cluster can reach a webhook's Service, and a forged review would have the effects of a real one.
    Entries without effects answer every caller: they show which GPUs the cluster has and how much of a quota is left,
    but not the holders. `ExplainGate` protects explanations.
    """

    allowed: frozenset[str] | None = None
    """Common names of client certificates; None if no client CA is configured, so that every client may call."""

    def refusal(self, entry: Entry, transport: asyncio.BaseTransport | None) -> str:
        """Why a call of an entry is refused, as one sentence; empty if it is allowed."""
        if self.allowed is None or entry.side_effects == "None":
            return ""
        name = peer_name(transport)
        if name is None:
            why = (
                "this one showed no certificate with a common name; give the API server a client certificate for this "
                "webhook."
            )
        elif name not in self.allowed:
            shown = json.dumps(name[:100])
            why = f"{shown} is not one of them; add the name to the allowed ones if it is the API server's."
        else:
            return ""
        return f"/{entry.name} has effects and answers only to known clients, and {why}"

    def knows(self, transport: asyncio.BaseTransport | None) -> bool:
        """True if the caller showed the certificate of an allowed client."""
        return self.allowed is not None and peer_name(transport) in self.allowed

    def payer(self, transport: asyncio.BaseTransport | None, address: str) -> str:
        """The payer of a call's memory: one for all known clients, one for all others.

        Without a client CA, each address is a payer of its own.
        """
        if self.allowed is None:
            return address
        return "" if self.knows(transport) else _STRANGERS

    def notes(self) -> list[str]:
        """Notes for the administrator about the clients that may call."""
        if self.allowed is not None:
            return []
        return [_NO_CLIENT_CA]
