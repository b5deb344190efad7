"""Who gets explanations: the gate before `POST /v1/explain`, and the one for a server without an API server."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol

from webhook.server.tls import peer_name

if TYPE_CHECKING:
    from aiohttp import web

    from webhook.server.deadlines import Deadline

__all__ = ["PATH", "ExplainGate", "NamedClients", "NotAdmitted", "Outcome"]

PATH = "/v1/explain"

Outcome = Literal["unauthenticated", "forbidden", "unavailable"]
"""Nobody knows who asks; they may not know; or nobody can say at the moment, and asking again may help."""

_TELLS = f"{PATH} tells who holds which devices and answers only to known clients"


class NotAdmitted(Exception):  # noqa: N818 - the name says what is wrong; "Error" would only say it twice
    """A caller gets no explanation. Its text is one plain sentence for who called."""

    def __init__(self, outcome: Outcome, sentence: str, retry_after: float = 1.0) -> None:
        """Args: why; the sentence; where it is unavailable, after how many seconds to ask again."""
        super().__init__(sentence)
        self.outcome = outcome
        self.retry_after = retry_after


class ExplainGate(Protocol):
    """Decides who gets explanations.

    They tell who holds which devices in every namespace, so it is one right for everything: whoever has it may ask about
    any object.
    """

    async def admit(self, request: web.Request, deadline: Deadline) -> str:
        """The name of who asks, for the log.

        Args:
            request: The call, of which only the head has been read.
            deadline: When the caller gives up.

        Raises:
            NotAdmitted: The caller gets no explanation.
        """
        ...


@dataclass(frozen=True, slots=True)
class NamedClients:
    """The gate of a server that has no API server to ask: clients whose certificate has one of some names."""

    allowed: frozenset[str] | None = None
    """Common names; None where no client CA is configured: where nobody can prove who they are, nobody gets any."""

    async def admit(self, request: web.Request, deadline: Deadline) -> str:
        """As `ExplainGate.admit`."""
        if self.allowed is None:
            raise NotAdmitted(
                "forbidden",
                f"{_TELLS}, and no client CA is configured; start the server with --client-ca and --client-name, and "
                "call with a client certificate.",
            )
        name = peer_name(request.transport)
        if name is None:
            raise NotAdmitted(
                "forbidden",
                f"{_TELLS}, and this one showed no certificate with a common name; call with a client certificate, as "
                "in curl --cert client.pem --key client.key.",
            )
        if name not in self.allowed:
            raise NotAdmitted(
                "forbidden",
                f"{_TELLS}, and none of them is called {json.dumps(name[:100])}; start the server with --client-name "
                "for it if it may know.",
            )
        return name
