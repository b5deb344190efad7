"""Questions to the API server that are asked by creating an object: TokenReview, SubjectAccessReview."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from webhook.sandbox.attempt import Refused, User
from webhook.sandbox.metadata import check_shape
from webhook.sandbox.users import user_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from policies.kubernetes.objects import Object
    from webhook.sandbox.kinds import Kind

__all__ = ["allow_everything", "answer"]


def allow_everything(spec: Object) -> bool:
    """What the sandbox says to every SubjectAccessReview, unless it is told otherwise."""
    return True


def answer(kind: Kind, document: Any, user: User, allows: Callable[[Object], bool]) -> Object:
    """The review with its answer as `status`.

    Args:
        kind: Of the review.
        document: The review as it was sent.
        user: Who asks.
        allows: Whether the `spec` of a SubjectAccessReview is granted.

    Raises:
        Refused: it is no review.
    """
    review = check_shape(kind, document)
    asked = review.get("spec")
    spec: Object = asked if isinstance(asked, dict) else {}
    if kind.resource.kind == "TokenReview":
        return {**review, "status": _authenticated(spec)}
    if kind.resource.kind == "SelfSubjectAccessReview":
        spec = {**spec, "user": user.name, "groups": list(user.groups)}
    return {**review, "status": {"allowed": allows(spec)}}


def _authenticated(spec: Object) -> Object:
    try:
        user = user_of(f"Bearer {spec.get('token', '')}")
    except Refused:
        return {"user": {}, "error": "invalid bearer token"}
    return {"authenticated": True, "user": {"username": user.name, "groups": list(user.groups)}}
