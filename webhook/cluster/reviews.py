"""Reviews: questions to the API server that are asked by creating an object, and answered in its status."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from policies.kubernetes.paths import lookup
from webhook.cluster.errors import BadAnswer, Unreachable
from webhook.cluster.resources import RESOURCES

if TYPE_CHECKING:
    from policies.kubernetes.objects import Object
    from webhook.cluster.client import APIClient

__all__ = ["LONGEST_REASON", "review_status"]

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
