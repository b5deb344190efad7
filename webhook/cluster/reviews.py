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

__all__ = ["AuthenticatedUser", "SubjectAccess", "TokenAuthenticator"]

_LONGEST_REASON = 300
"""Characters of a reason, which may come from any authenticator or authorizer."""

_logger = logging.getLogger("gpu_admission.cluster")


class SubjectAccess:
    """Delegated authorization: the API server says what users may do. Answers are cached for ten seconds."""

    def __init__(self, client: APIClient, *, clockwork: Clockwork = Clockwork()) -> None:  # noqa: B008 - it is immutable
        self._client = client
        self._reviews: SharedReviews[bool] = SharedReviews(clockwork)

    async def allows(self, user: AuthenticatedUser, path: str, verb: str) -> bool:
        """True if a user may access a path, as `nonResourceURLs` of a ClusterRole grant it.

        Args:
            user: The user.
            path: The path of a URL.
            verb: An HTTP method in lower case.

        Raises:
            ClusterError: The API server gave no valid answer.
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
        status = await _review_status(self._client, "SubjectAccessReview", spec)
        allowed = status.get("allowed")
        if not isinstance(allowed, bool):
            raise BadAnswer("the status of a SubjectAccessReview has no field allowed")
        if error := status.get("evaluationError"):
            _logger.warning("an authorizer failed: %s", printable(str(error)[:_LONGEST_REASON]))
        return allowed and not status.get("denied")


@dataclass(frozen=True, slots=True)
class AuthenticatedUser:
    """A user as authenticators and authorizers know it."""

    name: str
    groups: tuple[str, ...] = ()
    uid: str = ""
    extra: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Further attributes from the authenticator, for authorizers."""


class TokenAuthenticator:
    """Delegated authentication: the API server says which user a bearer token belongs to.

    Tokens must have the API server's own audience, as those of `kubectl create token` do. Answers are cached for ten
    seconds.
    """

    def __init__(self, client: APIClient, *, clockwork: Clockwork = Clockwork()) -> None:  # noqa: B008 - it is immutable
        self._client = client
        self._reviews: SharedReviews[AuthenticatedUser | None] = SharedReviews(clockwork)

    async def authenticate(self, token: str) -> AuthenticatedUser | None:
        """The user of a token; None if the token is not valid.

        Raises:
            ClusterError: The API server gave no valid answer.
        """
        return await self._reviews.answer(token.encode(), lambda: self._review(token))

    async def _review(self, token: str) -> AuthenticatedUser | None:
        status = await _review_status(self._client, "TokenReview", {"token": token})
        if status.get("authenticated") is not True:
            # For the log only: an authenticator's error may name servers that the caller must not know.
            reason = str(status.get("error") or "no reason given")
            _logger.info("the API server does not accept a bearer token: %s", printable(reason[:_LONGEST_REASON]))
            return None
        user = _user_in(status.get("user"))
        if user is None:
            raise BadAnswer("the status of a TokenReview has no valid user")
        return user


def _user_in(document: Any) -> AuthenticatedUser | None:
    """The user in an `authentication.k8s.io/v1` UserInfo; None if it is invalid."""
    match document:
        case {"username": str(name)} if name:
            groups, uid, extra = (document.get(each) for each in ("groups", "uid", "extra"))
        case _:
            return None
    known = isinstance(groups or [], list) and isinstance(uid or "", str) and isinstance(extra or {}, dict)
    return AuthenticatedUser(name, tuple(groups or ()), uid or "", extra or {}) if known else None


async def _review_status(client: APIClient, kind: str, spec: Object) -> Object:
    """The status of a TokenReview or SubjectAccessReview.

    Raises:
        APIError: The API server refused.
        Unreachable: The API server did not answer, or the answer has no status.
    """
    resource = RESOURCES[kind]
    review = {"apiVersion": resource.api_version, "kind": kind, "spec": spec}
    try:
        answer = await client.post(resource.path(), review)
    except Unreachable:
        # A kept-alive connection may have been closed meanwhile; a second review has no effects.
        answer = await client.post(resource.path(), review)
    status: Any = lookup(answer, ("status",))
    if not isinstance(status, dict):
        raise BadAnswer(f"POST {resource.path()}: the answer has no status")
    return status
