"""Callers: who may make this server act."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from webhook.server.tls import peer_name

if TYPE_CHECKING:
    import asyncio

    from policies.entries import Entry

__all__ = ["Callers"]

_KNOWN_ONLY = "and answers only to known clients"
_ANYBODY = (
    "no client CA is configured, so whoever reaches this port can make the webhook act; "
    "let a NetworkPolicy admit the API server only, or configure a client CA"
)


@dataclass(frozen=True, slots=True)
class Callers:
    """The clients whose calls may have effects, such as writing a template.

    Anybody inside a cluster can reach a webhook's Service, and a forged review would have the effects of a true one.
    Answers of entries tell nothing that the caller did not bring along, so those without effects answer everybody.
    Who gets explanations is for `ExplainGate` to say.
    """

    allowed: frozenset[str] | None = None
    """Common names of client certificates; None where no client CA is configured, and everybody may call."""

    def refusal(self, entry: Entry, transport: asyncio.BaseTransport | None) -> str:
        """Why a call of an entry is not answered, as one sentence; empty when it is."""
        if self.allowed is None or entry.side_effects == "None":
            return ""
        what = f"/{entry.name} has effects"
        name = peer_name(transport)
        if name is None:
            return (
                f"{what} {_KNOWN_ONLY}, and this one showed no certificate with a common name; give the API server a "
                "client certificate for this webhook."
            )
        if name not in self.allowed:
            return (
                f"{what} {_KNOWN_ONLY}, and none of them is called {json.dumps(name[:100])}; add the name to the "
                "allowed ones if it is the API server's."
            )
        return ""

    def notes(self) -> list[str]:
        """What the administrator should know about who may call."""
        if self.allowed is not None:
            return []
        return [_ANYBODY]
