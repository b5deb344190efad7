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


@dataclass(frozen=True, slots=True)
class Callers:
    """The clients whose calls may have effects: writing a template, reserving quota.

    Anybody inside a cluster can reach a webhook's Service, and a forged review would have the effects of a true one.
    Answers alone tell nothing that the caller did not bring along, so entries without effects answer everybody.
    """

    allowed: frozenset[str] | None = None
    """Common names of client certificates; None where no client CA is configured, and everybody may call."""

    def refusal(self, entry: Entry, transport: asyncio.BaseTransport | None) -> str:
        """Why a call of an entry is not answered, as one sentence; empty when it is."""
        if self.allowed is None or entry.side_effects == "None":
            return ""
        name = peer_name(transport)
        if name is None:
            return (
                f"/{entry.name} has effects and answers only to known clients, and this one showed no certificate "
                "with a common name; give the API server a client certificate for this webhook."
            )
        if name not in self.allowed:
            return (
                f"/{entry.name} has effects and answers only to known clients, and none of them is called "
                f"{json.dumps(name[:100])}; add the name to the allowed ones if it is the API server's."
            )
        return ""

    @property
    def note(self) -> str:
        """What the administrator should know about who may call; empty when there is nothing."""
        if self.allowed is not None:
            return ""
        return (
            "no client CA is configured, so whoever reaches this port can make the webhook act; "
            "let a NetworkPolicy admit the API server only, or configure a client CA"
        )
