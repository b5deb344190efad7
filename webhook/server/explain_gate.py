"""The gate that protects explanations, and the gate of a server without an API server."""

from __future__ import annotations

import asyncio
import json
import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple

from aiohttp import hdrs

from policies.outcome import EVERYTHING, Audience
from webhook.cluster.answers import ClusterError
from webhook.cluster.caller_reviews import TooManyReviews
from webhook.server.logs import log_unknown_caller
from webhook.server.tls import peer_name

if TYPE_CHECKING:
    from aiohttp import web

    from webhook.cluster.caller_reviews import AuthenticatedUser, SubjectAccess, TokenAuthenticator
    from webhook.server.turns import Deadline


PATH = "/v1/explain"
"""The path of explanations that name everything; those for one namespace have `explain_calls.namespaced_path`."""
HEADER = "Gpu-Admission-Authorization"
"""The header of a bearer token that passes through an API server, which removes `Authorization`."""

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


class Caller(NamedTuple):
    """A caller that gets an explanation."""

    name: str
    """The name of the user, or the one in the client certificate; for the log."""
    audience: Audience
    """The objects that the explanation may name."""


@dataclass(frozen=True, slots=True)
class NamedClients:
    """The gate of a server without an API server: admits client certificates with certain names."""

    allowed: frozenset[str] | None = None
    """Common names; None if no client CA is configured, so that no caller can be identified or admitted."""

    async def admit(self, request: web.BaseRequest, namespace: str, deadline: Deadline) -> Caller:
        """The caller, who sees everything; reads only the head of a call.

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
            return Caller(name, EVERYTHING)
        raise NotAdmitted("forbidden", f"{_KNOWN_CLIENTS_ONLY}, and {why}")


LARGEST_TOKEN = 16 * 1024
"""Characters. Tokens of service accounts have about a thousand, those of people with hundreds of groups some ten thousand."""


class BadToken(ValueError):  # noqa: N818 - the name says what is wrong; "Error" would only say it twice
    """An Authorization header without a valid bearer token. Its text is one sentence for the caller."""


def bearer_token(request: web.BaseRequest) -> str:
    """The token of a call, in printable ASCII; empty if the call has none of its headers.

    Raises:
        BadToken: the header contains no bearer token, or there are several headers.
    """
    headers = request.headers.getall(HEADER, []) or request.headers.getall(hdrs.AUTHORIZATION, [])
    if not headers:
        return ""
    scheme, _, token = headers[0].strip().partition(" ")
    token = token.strip()
    is_token = bool(token) and token.isascii() and token.isprintable() and " " not in token
    if len(headers) > 1 or scheme.lower() != "bearer" or not is_token:
        raise BadToken("The Authorization header holds no bearer token; send one, as in Authorization: Bearer TOKEN.")
    if len(token) > LARGEST_TOKEN:
        raise BadToken("The bearer token is too long: the maximum is 16 KiB.")
    return token


CLUSTER_ROLE = "gpu-admission-explain"
"""The ClusterRole of deploy/base/api/explain.yaml that allows explanations that name everything."""
MEMBER_ROLE = "gpu-admission-explain-view"
"""The ClusterRole of the same file that allows explanations in a namespace."""

_POST_TO_PATH = {"nonResourceAttributes": {"path": PATH, "verb": "post"}}
_LIST_NODES = {"resourceAttributes": {"verb": "list", "resource": "nodes"}}
_SERVICE_ACCOUNT = "system:serviceaccount:"
_LONGEST_RETRY_AFTER = 30.0
_LONGEST_NAME = 253
"""Characters of a user's name that a message shows."""
_NO_CREDENTIALS = (
    "Explanations are for users of the cluster only; call with a token, as in "
    'curl -H "Authorization: Bearer $(kubectl create token NAME)" with the name of a service account.'
)
_UNKNOWN_TOKEN = (
    "The API server does not know the bearer token, or it has expired; get another one, as from "  # noqa: S105 - no token
    "kubectl create token NAME."
)
_LATE = "The API server did not authenticate and authorize you in time; try again in a moment."
_AWAY = (
    "The API server could not identify or authorize you; try again in a moment, or look for the reason in "
    "this server's log."
)


@dataclass(eq=False)
class DelegatedGate:
    """Admits users whom RBAC allows to `post` to the path, or to `get` gpuexplanations of a namespace.

    Only a token identifies a user here. A call through the API server's proxy comes over a connection of the API server, so
    its certificate would be the API server's.
    """

    authenticator: TokenAuthenticator
    access: SubjectAccess

    async def admit(self, request: web.BaseRequest, namespace: str, deadline: Deadline) -> Caller:
        """The user and what the explanation may name; reads only the head of a call.

        Args:
            request: The call.
            namespace: The namespace in the path of the call; empty for explanations that name everything.
            deadline: Deadline of the call.

        Raises:
            NotAdmitted: The caller gets no explanation.
        """
        try:
            async with asyncio.timeout(max(deadline.remaining, 0)):
                user = await self._token_user(request)
                audience = await self._audience(user, namespace)
        except TimeoutError as error:
            raise NotAdmitted("unavailable", _LATE) from error
        except TooManyReviews as error:
            raise NotAdmitted("unavailable", str(error)) from error
        except ClusterError as error:
            log_unknown_caller(request.remote, error)
            retry_after = min(error.retry_after or 1.0, _LONGEST_RETRY_AFTER)
            raise NotAdmitted("unavailable", _AWAY, retry_after) from error
        if audience is None:
            raise NotAdmitted("forbidden", _forbidden(user.name, namespace))
        return Caller(user.name, audience)

    async def _audience(self, user: AuthenticatedUser, namespace: str) -> Audience | None:
        """The audience that a user belongs to; None if the user may see nothing."""
        if await self.access.allows(user, _POST_TO_PATH):
            return EVERYTHING
        # No kind has this name, only authorizers know it.
        right = {"group": "gpu-admission.io", "resource": "gpuexplanations", "version": "v1alpha1", "verb": "get"}
        own = {"resourceAttributes": {**right, "namespace": namespace}}
        if not namespace or not await self.access.allows(user, own):
            return None
        return Audience(namespace, sees_nodes=await self.access.allows(user, _LIST_NODES))

    async def _token_user(self, request: web.BaseRequest) -> AuthenticatedUser:
        try:
            token = bearer_token(request)
        except BadToken as error:
            raise NotAdmitted("unauthenticated", str(error)) from error
        if not token:
            raise NotAdmitted("unauthenticated", _NO_CREDENTIALS)
        user = await self.authenticator.authenticate(token)
        if user is None:
            raise NotAdmitted("unauthenticated", _UNKNOWN_TOKEN)
        return user


def _forbidden(name: str, namespace: str) -> str:
    shown = json.dumps(name) if len(name) <= _LONGEST_NAME else json.dumps(f"{name[:_LONGEST_NAME]}...")
    if namespace:
        return (
            f"The user {shown} may not get gpuexplanations.gpu-admission.io in namespace {namespace}; an administrator allows "
            f"it with kubectl create rolebinding explain -n {namespace} --clusterrole={MEMBER_ROLE} {_subject(name)}."
        )
    return (
        f"The user {shown} may not see who holds which devices; an administrator allows it with kubectl create "
        f"clusterrolebinding explain --clusterrole={CLUSTER_ROLE} {_subject(name)}."
    )


def _subject(name: str) -> str:
    """The option of `kubectl create clusterrolebinding` or `rolebinding` that names a user."""
    match name.removeprefix(_SERVICE_ACCOUNT).split(":"):
        case [namespace, account] if name.startswith(_SERVICE_ACCOUNT):
            return f"--serviceaccount={shlex.quote(f'{namespace}:{account}')}"
    fits = name.isprintable() and len(name) <= _LONGEST_NAME
    return f"--user={shlex.quote(name)}" if fits else "--user=NAME"


ExplainGate = NamedClients | DelegatedGate
"""Decides which callers get explanations, and what these name."""
