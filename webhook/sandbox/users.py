"""Who asks: in the sandbox, a bearer token is simply the user's name."""

from __future__ import annotations

from webhook.sandbox.attempt import User
from webhook.sandbox.statuses import failure

__all__ = ["ADMIN", "token_of", "user_of"]

ADMIN = User("system:admin", ("system:masters", "system:authenticated"))
"""Who asks without a token."""

_SERVICE_ACCOUNT = "system:serviceaccount:"
_AUTHENTICATED = "system:authenticated"


def user_of(authorization: str | None) -> User:
    """The user of an `Authorization` header: `Bearer <user>[,<group>...]`.

    Raises:
        Refused: 401, as it is something else.
    """
    if authorization is None:
        return ADMIN
    scheme, _, token = authorization.partition(" ")
    name, *groups = token.strip().split(",")
    if scheme.lower() != "bearer" or not name:
        raise failure(401, "Unauthorized", "Unauthorized")
    return User(name, tuple(dict.fromkeys([*groups, *_account_groups(name), _AUTHENTICATED])))


def _account_groups(name: str) -> list[str]:
    """The groups that every service account is in."""
    match name.removeprefix(_SERVICE_ACCOUNT).split(":"):
        case [namespace, _] if name.startswith(_SERVICE_ACCOUNT):
            return ["system:serviceaccounts", f"system:serviceaccounts:{namespace}"]
    return []


def token_of(user: str, *groups: str) -> str:
    """The bearer token of a user."""
    return ",".join([user, *groups])
