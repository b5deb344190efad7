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
_NO_NAME = f"{_KNOWN_ONLY}, and this one showed no certificate with a common name"


@dataclass(frozen=True, slots=True)
class Callers:
    """The clients whose calls may have effects, such as writing a template, and who may be told what others hold.

    Anybody inside a cluster can reach a webhook's Service, and a forged review would have the effects of a true one.
    Answers of entries tell nothing that the caller did not bring along, so those without effects answer everybody.
    Explanations tell who holds which devices; where nobody can prove who they are, nobody gets any.
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
            return f"{what} {_NO_NAME}; give the API server a client certificate for this webhook."
        if name not in self.allowed:
            return f"{what} {_unknown(name)}; add the name to the allowed ones if it is the API server's."
        return ""

    def refusal_to_explain(self, transport: asyncio.BaseTransport | None) -> str:
        """Why a caller gets no explanation, as one sentence; empty when it gets one."""
        what = "/v1/explain tells who holds which devices"
        if self.allowed is None:
            return (
                f"{what} {_KNOWN_ONLY}, and no client CA is configured; start the server with "
                "--client-ca and --client-name, and call with a client certificate."
            )
        name = peer_name(transport)
        if name is None:
            return f"{what} {_NO_NAME}; call with a client certificate, as in curl --cert client.pem --key client.key."
        if name not in self.allowed:
            return f"{what} {_unknown(name)}; start the server with --client-name for it if it may know."
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


def _unknown(name: str) -> str:
    return f"{_KNOWN_ONLY}, and none of them is called {json.dumps(name[:100])}"
