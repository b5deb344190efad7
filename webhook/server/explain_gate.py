"""The gate that protects `POST /v1/explain`, and the gate of a server without an API server."""

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
"""The caller is unknown; the caller is known but not allowed; or the check failed and a retry may succeed."""

_TELLS = f"{PATH} tells who holds which devices and answers only to known clients"


class NotAdmitted(Exception):  # noqa: N818 - the name says what is wrong; "Error" would only say it twice
    """A caller gets no explanation. Its text is one sentence for the caller."""

    def __init__(self, outcome: Outcome, sentence: str, retry_after: float = 1.0) -> None:
        """Create the error; `retry_after` is the seconds until a retry, for the outcome `unavailable`."""
        super().__init__(sentence)
        self.outcome = outcome
        self.retry_after = retry_after


class ExplainGate(Protocol):
    """Decides which callers get explanations.

    Explanations show who holds which devices in every namespace, so there is one permission for all objects.
    """

    async def admit(self, request: web.Request, deadline: Deadline) -> str:
        """The name of the caller, for the log.

        Args:
            request: The call; only its head has been read.
            deadline: Deadline of the call.

        Raises:
            NotAdmitted: the caller gets no explanation.
        """
        ...


@dataclass(frozen=True, slots=True)
class NamedClients:
    """The gate of a server without an API server: admits client certificates with certain names."""

    allowed: frozenset[str] | None = None
    """Common names; None if no client CA is configured, so that no caller can be identified or admitted."""

    async def admit(self, request: web.Request, deadline: Deadline) -> str:
        """The name in the certificate; see `ExplainGate.admit`."""
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
