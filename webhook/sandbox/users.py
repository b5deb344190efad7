"""Users of the sandbox: bearer tokens, kubeconfigs, and reviews of tokens and access."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

import yaml

from webhook.sandbox.metadata import check_shape
from webhook.sandbox.statuses import Refused, User, failure

if TYPE_CHECKING:
    from collections.abc import Callable

    from policies.kubernetes.objects import Object
    from webhook.sandbox.kinds import Kind


ADMIN = User("system:admin", ("system:masters", "system:authenticated"))
"""The user of requests without a token."""

_SERVICE_ACCOUNT = "system:serviceaccount:"


def user_of(authorization: str | None) -> User:
    """The user of an `Authorization` header: `Bearer <user>[,<group>...]`.

    Raises:
        Refused: 401 for any other header.
    """
    if authorization is None:
        return ADMIN
    scheme, _, token = authorization.partition(" ")
    name, *groups = token.strip().split(",")
    if scheme.lower() != "bearer" or not name:
        raise failure(401, "Unauthorized", "Unauthorized")
    match name.removeprefix(_SERVICE_ACCOUNT).split(":"):
        case [namespace, _] if name.startswith(_SERVICE_ACCOUNT):
            groups += ["system:serviceaccounts", f"system:serviceaccounts:{namespace}"]
    return User(name, tuple(dict.fromkeys([*groups, "system:authenticated"])))


def token_of(user: str, *groups: str) -> str:
    """The bearer token of a user."""
    return ",".join([user, *groups])


_NAME = "gpu-admission-sandbox"


def kubeconfig(url: str, certificate_authority: bytes | None, token: str) -> str:
    """The text of a kubeconfig.

    Args:
        url: Of the server.
        certificate_authority: PEM; None where the server speaks plain HTTP.
        token: The bearer token, which in the sandbox is the user; empty for the administrator.
    """
    cluster: dict[str, object] = {"server": url}
    if certificate_authority is not None:
        cluster["certificate-authority-data"] = base64.b64encode(certificate_authority).decode()
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": _NAME, "cluster": cluster}],
        "users": [{"name": _NAME, "user": {"token": token} if token else {}}],
        "contexts": [{"name": _NAME, "context": {"cluster": _NAME, "user": _NAME}}],
        "current-context": _NAME,
    }
    return yaml.safe_dump(document, sort_keys=False)


def is_of_a_sandbox(text: str) -> bool:
    """True if a text is a kubeconfig of a sandbox and nothing else, so that it may be overwritten."""
    try:
        document = yaml.safe_load(text)
    except yaml.YAMLError:
        return False
    if not isinstance(document, dict):
        return False
    return all(_names(document.get(part)) == [_NAME] for part in ("clusters", "users", "contexts"))


def _names(entries: object) -> list[object]:
    return [entry.get("name") for entry in entries if isinstance(entry, dict)] if isinstance(entries, list) else []


def allow_everything(spec: Object) -> bool:
    """The default answer to every SubjectAccessReview."""
    return True


def answer(kind: Kind, document: Any, user: User, allows: Callable[[Object], bool]) -> Object:
    """The review with its answer as `status`.

    Args:
        kind: The kind of the review.
        document: The review as it was sent.
        user: The user of the request.
        allows: Returns whether the `spec` of a SubjectAccessReview is granted.

    Raises:
        Refused: The document is not a review.
    """
    review = check_shape(kind, document)
    written = review.get("spec")
    spec: Object = written if isinstance(written, dict) else {}
    if kind.resource.kind == "TokenReview":
        try:
            found = user_of(f"Bearer {spec.get('token', '')}")
        except Refused:
            return {**review, "status": {"user": {}, "error": "invalid bearer token"}}
        named = {"username": found.name, "groups": list(found.groups)}
        return {**review, "status": {"authenticated": True, "user": named}}
    if kind.resource.kind == "SelfSubjectAccessReview":
        spec = {**spec, "user": user.name, "groups": list(user.groups)}
    return {**review, "status": {"allowed": allows(spec)}}
