"""TokenReview and SubjectAccessReview: who a caller is, and what the caller may do."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import orjson

from policies.kubernetes.paths import lookup
from policies.kubernetes.printable import printable
from webhook.cluster.clockwork import Clockwork
from webhook.cluster.errors import BadAnswer, Unreachable
from webhook.cluster.resources import RESOURCES
from webhook.cluster.shared_reviews import SharedReviews

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from policies.kubernetes.objects import Object
    from webhook.cluster.client import APIClient

__all__ = ["LONGEST_REASON", "AuthenticatedUser", "SubjectAccess", "TokenAuthenticator", "review_status"]

LONGEST_REASON = 300
"""Characters of what the API server says beside its answer; authenticators and authorizers of others write it."""


async def review_status(client: APIClient, kind: str, spec: Object) -> Object:
    """The status of a review.

    Args:
        client: Asks the API server.
        kind: `TokenReview` or `SubjectAccessReview`.
        spec: The question.

    Raises:
        APIError: The API server refused.
        Unreachable: It did not answer, or what came is no review.
    """
    resource = RESOURCES[kind]
    asked = {"apiVersion": resource.api_version, "kind": kind, "spec": spec}
    try:
        answer = await client.post(resource.path(), asked)
    except Unreachable:
        # A connection that was kept alive may have been closed meanwhile; asking twice changes nothing.
        answer = await client.post(resource.path(), asked)
    status: Any = lookup(answer, ("status",))
    if not isinstance(status, dict):
        raise BadAnswer(f"POST {resource.path()}: the answer has no status")
    return status


_logger = logging.getLogger("gpu_admission.cluster")


class SubjectAccess:
    """Asks the API server what users may do, as components of Kubernetes do that leave authorization to it.

    An answer holds for ten seconds, whichever it is.
    """

    def __init__(self, client: APIClient, *, clockwork: Clockwork = Clockwork()) -> None:  # noqa: B008 - it is immutable
        """Args: who asks the API server; time."""
        self._client = client
        self._reviews: SharedReviews[bool] = SharedReviews(clockwork)

    async def allows(self, user: AuthenticatedUser, path: str, verb: str) -> bool:
        """Whether a user may do something to a path that is no resource, as `nonResourceURLs` of a ClusterRole say.

        Args:
            user: Who wants to.
            path: Of a URL.
            verb: An HTTP method in lower case.

        Raises:
            ClusterError: The API server did not say.
        """
        spec = {
            "user": user.name,
            "groups": list(user.groups),
            "uid": user.uid,
            "extra": {key: list(values) for key, values in user.extra.items()},
            "nonResourceAttributes": {"path": path, "verb": verb},
        }
        return await self._reviews.answer(orjson.dumps(spec, option=orjson.OPT_SORT_KEYS), lambda: self._review(spec))

    async def _review(self, spec: dict[str, Any]) -> bool:
        status = await review_status(self._client, "SubjectAccessReview", spec)
        allowed = status.get("allowed")
        if not isinstance(allowed, bool):
            raise BadAnswer("the answer to a SubjectAccessReview does not say whether it is allowed")
        if error := status.get("evaluationError"):
            _logger.warning("an authorizer could not tell: %s", printable(str(error)[:LONGEST_REASON]))
        return allowed and not status.get("denied")


@dataclass(frozen=True, slots=True)
class AuthenticatedUser:
    """Who somebody is, in the words in which authorizers are asked about them."""

    name: str
    groups: tuple[str, ...] = ()
    uid: str = ""
    extra: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Whatever else the authenticator says; authorizers may look at it."""


class TokenAuthenticator:
    """Asks the API server whose tokens are, as components of Kubernetes do that leave authentication to it.

    Tokens are for the API server's own audience, as `kubectl create token` makes them. An answer holds for ten seconds.
    """

    def __init__(self, client: APIClient, *, clockwork: Clockwork = Clockwork()) -> None:  # noqa: B008 - it is immutable
        """Args: who asks the API server; time."""
        self._client = client
        self._reviews: SharedReviews[AuthenticatedUser | None] = SharedReviews(clockwork)

    async def authenticate(self, token: str) -> AuthenticatedUser | None:
        """Whose token it is; None where it is nobody's, or no longer valid.

        Args:
            token: In ASCII.

        Raises:
            ClusterError: The API server did not say.
        """
        return await self._reviews.answer(token.encode(), lambda: self._review(token))

    async def _review(self, token: str) -> AuthenticatedUser | None:
        status = await review_status(self._client, "TokenReview", {"token": token})
        if status.get("authenticated") is not True:
            # For the log only: what an authenticator says of a failure may name servers that are not the caller's to know.
            reason = str(status.get("error") or "no reason given")
            _logger.info("the API server does not accept a bearer token: %s", printable(reason[:LONGEST_REASON]))
            return None
        user = _user_in(status.get("user"))
        if user is None:
            raise BadAnswer("the answer to a TokenReview says that a token is valid, but not whose it is")
        return user


def _user_in(document: Any) -> AuthenticatedUser | None:
    """The user of an `authentication.k8s.io/v1` UserInfo; None where it is none."""
    match document:
        case {"username": str(name)} if name:
            groups, uid, extra = (document.get(each) for each in ("groups", "uid", "extra"))
        case _:
            return None
    known = isinstance(groups or [], list) and isinstance(uid or "", str) and isinstance(extra or {}, dict)
    return AuthenticatedUser(name, tuple(groups or ()), uid or "", extra or {}) if known else None
