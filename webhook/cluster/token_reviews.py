"""TokenReview: whose bearer token it is, as the API server knows it."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from policies.kubernetes.printable import printable
from webhook.cluster.clockwork import Clockwork
from webhook.cluster.errors import BadAnswer
from webhook.cluster.reviews import LONGEST_REASON, review_status
from webhook.cluster.shared_reviews import SharedReviews

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from webhook.cluster.client import APIClient

__all__ = ["AuthenticatedUser", "TokenAuthenticator"]

_logger = logging.getLogger("gpu_admission.cluster")


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
