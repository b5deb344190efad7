"""SubjectAccessReview: what somebody may do, as the API server's authorizers see it."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import orjson

from policies.kubernetes.printable import printable
from webhook.cluster.clockwork import Clockwork
from webhook.cluster.errors import BadAnswer
from webhook.cluster.reviews import LONGEST_REASON, review_status
from webhook.cluster.shared_reviews import SharedReviews

if TYPE_CHECKING:
    from webhook.cluster.client import APIClient
    from webhook.cluster.token_reviews import AuthenticatedUser

__all__ = ["SubjectAccess"]

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
