"""The gate that protects `POST /v1/explain`, and the gate of a server without an API server."""

from __future__ import annotations

import asyncio
import json
import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from aiohttp import hdrs

from webhook.cluster.caller_reviews import AuthenticatedUser, TooManyReviews
from webhook.cluster.errors import ClusterError
from webhook.server.logs import log_unknown_caller
from webhook.server.tls import peer_name, peer_organizations

if TYPE_CHECKING:
    from aiohttp import web

    from webhook.cluster.caller_reviews import SubjectAccess, TokenAuthenticator
    from webhook.server.deadlines import Deadline

__all__ = [
    "CLUSTER_ROLE",
    "LARGEST_TOKEN",
    "PATH",
    "BadToken",
    "DelegatedGate",
    "ExplainGate",
    "NamedClients",
    "NotAdmitted",
    "Outcome",
    "bearer_token",
]

PATH = "/v1/explain"

Outcome = Literal["unauthenticated", "forbidden", "unavailable"]
"""The caller is unknown; the caller is known but not allowed; or the check failed and a retry may succeed."""

_KNOWN_CLIENTS_ONLY = f"{PATH} shows the holders of devices and answers known clients only"


class NotAdmitted(Exception):  # noqa: N818 - the name says what is wrong; "Error" would only say it twice
    """A caller gets no explanation. Its text is one sentence for the caller."""

    def __init__(self, outcome: Outcome, sentence: str, retry_after: float = 1.0) -> None:
        """Create the error; `retry_after` is the seconds until a retry, for the outcome `unavailable`."""
        super().__init__(sentence)
        self.outcome = outcome
        self.retry_after = retry_after


@dataclass(frozen=True, slots=True)
class NamedClients:
    """The gate of a server without an API server: admits client certificates with certain names."""

    allowed: frozenset[str] | None = None
    """Common names; None if no client CA is configured, so that no caller can be identified or admitted."""

    async def admit(self, request: web.BaseRequest, deadline: Deadline) -> str:
        """The name in the certificate, for the log; reads only the head of a call.

        Raises:
            NotAdmitted: The caller gets no explanation.
        """
        name = peer_name(request.transport)
        if self.allowed is None:
            why = (
                "no client CA is configured; start the server with --client-ca and --client-name, and call with a client "
                "certificate."
            )
        elif name is None:
            why = (
                "this one showed no certificate with a common name; call with a client certificate, as in curl --cert "
                "client.pem --key client.key."
            )
        elif name not in self.allowed:
            shown = json.dumps(name[:100])
            why = f"{shown} is not one of them; to allow it, start the server with --client-name for it."
        else:
            return name
        raise NotAdmitted("forbidden", f"{_KNOWN_CLIENTS_ONLY}, and {why}")


LARGEST_TOKEN = 16 * 1024
"""Characters. Tokens of service accounts have about a thousand, those of people with hundreds of groups some ten thousand."""


class BadToken(ValueError):  # noqa: N818 - the name says what is wrong; "Error" would only say it twice
    """An Authorization header without a valid bearer token. Its text is one sentence for the caller."""


def bearer_token(request: web.BaseRequest) -> str:
    """The token of a call, in printable ASCII; empty if the call has no `Authorization` header.

    Raises:
        BadToken: the header contains no bearer token, or there are several headers.
    """
    headers = request.headers.getall(hdrs.AUTHORIZATION, [])
    if not headers:
        return ""
    scheme, _, token = headers[0].strip().partition(" ")
    token = token.strip()
    if len(headers) > 1 or scheme.lower() != "bearer" or not _is_token(token):
        raise BadToken("The Authorization header holds no bearer token; send one, as in Authorization: Bearer TOKEN.")
    if len(token) > LARGEST_TOKEN:
        raise BadToken(
            "The bearer token is longer than 16 KiB, and no cluster makes such; send the one you were given."
        )
    return token


def _is_token(token: str) -> bool:
    return bool(token) and token.isascii() and token.isprintable() and " " not in token


CLUSTER_ROLE = "gpu-admission-explain"
"""The ClusterRole of deploy/base/api/explain.yaml that allows it."""

_VERB = "post"
_AUTHENTICATED = "system:authenticated"
_SERVICE_ACCOUNT = "system:serviceaccount:"
_LONGEST_RETRY_AFTER = 30.0
_LONGEST_NAME = 253
"""Characters of a user's name that a message shows."""
_NO_CREDENTIALS = (
    f"{PATH} shows the holders of devices and answers users of the cluster only; call with a token, as in "
    'curl -H "Authorization: Bearer $(kubectl create token NAME)" with the name of a service account.'
)
_UNKNOWN_TOKEN = (
    "The API server does not know the bearer token, or it has expired; get another one, as from "  # noqa: S105 - no token
    "kubectl create token NAME."
)
_LATE = "The API server did not say before the call's timeout who you are and what you may; ask again in a moment."
_AWAY = (
    "The API server could not identify or authorize you; try again in a moment, or look for the reason in "
    "this server's log."
)


class DelegatedGate:
    """Admits users of the cluster whom RBAC allows to `post` to the path of explanations."""

    def __init__(self, authenticator: TokenAuthenticator, access: SubjectAccess) -> None:
        """Create a gate that authenticates tokens and checks access with the API server."""
        self._authenticator = authenticator
        self._access = access

    async def admit(self, request: web.BaseRequest, deadline: Deadline) -> str:
        """The name of the user, for the log; reads only the head of a call.

        Raises:
            NotAdmitted: The caller gets no explanation.
        """
        try:
            async with asyncio.timeout(max(deadline.remaining, 0)):
                user = _certificate_user(request) or await self._token_user(request)
                is_allowed = await self._access.allows(user, PATH, _VERB)
        except TimeoutError as error:
            raise NotAdmitted("unavailable", _LATE) from error
        except TooManyReviews as error:
            raise NotAdmitted("unavailable", str(error)) from error
        except ClusterError as error:
            log_unknown_caller(request.remote, error)
            retry_after = min(error.retry_after or 1.0, _LONGEST_RETRY_AFTER)
            raise NotAdmitted("unavailable", _AWAY, retry_after) from error
        if not is_allowed:
            raise NotAdmitted("forbidden", _forbidden(user.name))
        return user.name

    async def _token_user(self, request: web.BaseRequest) -> AuthenticatedUser:
        try:
            token = bearer_token(request)
        except BadToken as error:
            raise NotAdmitted("unauthenticated", str(error)) from error
        if not token:
            raise NotAdmitted("unauthenticated", _NO_CREDENTIALS)
        user = await self._authenticator.authenticate(token)
        if user is None:
            raise NotAdmitted("unauthenticated", _UNKNOWN_TOKEN)
        return user


def _certificate_user(request: web.BaseRequest) -> AuthenticatedUser | None:
    """The user of the client certificate; None without one."""
    name = peer_name(request.transport)
    if name is None:
        return None
    groups = (*peer_organizations(request.transport), _AUTHENTICATED)
    return AuthenticatedUser(name, tuple(dict.fromkeys(groups)))


def _forbidden(name: str) -> str:
    shown = json.dumps(name) if len(name) <= _LONGEST_NAME else json.dumps(f"{name[:_LONGEST_NAME]}...")
    return (
        f"The user {shown} may not see who holds which devices; an administrator allows it with kubectl create "
        f"clusterrolebinding explain --clusterrole={CLUSTER_ROLE} {_subject(name)}."
    )


def _subject(name: str) -> str:
    """The option of `kubectl create clusterrolebinding` that names a user."""
    match name.removeprefix(_SERVICE_ACCOUNT).split(":"):
        case [namespace, account] if name.startswith(_SERVICE_ACCOUNT):
            return f"--serviceaccount={shlex.quote(f'{namespace}:{account}')}"
    fits = name.isprintable() and len(name) <= _LONGEST_NAME
    return f"--user={shlex.quote(name)}" if fits else "--user=NAME"


ExplainGate = NamedClients | DelegatedGate
"""Decides which callers get explanations: they show who holds which devices in every namespace."""
