"""What was asked of the server, for tests that compare it with what is allowed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from webhook.sandbox.attempt import User
    from webhook.sandbox.routing import Target

__all__ = ["Request", "record_of"]

_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "GET": "get", "HEAD": "get"}


@dataclass(frozen=True, slots=True)
class Request:
    """One request, in the words of RBAC rules."""

    user: str
    verb: str
    group: str
    resource: str
    subresource: str
    namespace: str
    name: str


def record_of(user: User, method: str, target: Target, query: Mapping[str, str]) -> Request:
    """The record of a request; the verb is the one that RBAC asks for."""
    verb = _VERBS.get(method, method.lower())
    if verb == "get" and not target.name:
        verb = "watch" if query.get("watch") in ("true", "1") else "list"
    if verb == "delete" and not target.name:
        verb = "deletecollection"
    resource = target.resource
    name = target.name or (_selected(query) if verb in ("list", "watch") else "")
    return Request(user.name, verb, resource.group, resource.plural, target.subresource, target.namespace, name)


def _selected(query: Mapping[str, str]) -> str:
    """The one name that a list is narrowed to, which RBAC takes for the name that is asked for.

    Source: k8s.io/apiserver pkg/endpoints/request/requestinfo.go.
    """
    for term in query.get("fieldSelector", "").split(","):
        field, _, name = term.partition("=")
        if field == "metadata.name":
            return name.removeprefix("=")
    return ""
