"""Paths of the API: which kind, object and subresource a request names."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from webhook.cluster.resources import Resource
    from webhook.sandbox.attempt import User
    from webhook.sandbox.kinds import Kind, Kinds

__all__ = ["Request", "Target", "parse_path", "record_of"]


@dataclass(frozen=True, slots=True)
class Target:
    """The target of a path: an object, a subresource, or a collection."""

    kind: Kind
    namespace: str = ""
    name: str = ""
    """Empty for a collection."""
    subresource: str = ""

    @property
    def resource(self) -> Resource:
        """The resource of the kind."""
        return self.kind.resource


def parse_path(kinds: Kinds, path: str) -> Target | None:
    """The target of a decoded path; None if it is not served."""
    match path.strip("/").split("/"):
        case ["api", version, *steps]:
            group = ""
        case ["apis", group, version, *steps]:
            pass
        case _:
            return None
    match steps:
        case ["namespaces", namespace, plural, *rest] if _is_namespaced(kinds, group, version, plural):
            pass
        case [plural, *rest]:
            namespace = ""
        case _:
            return None
    kind = kinds.at(group, version, plural)
    if kind is None or len(rest) > 2 or "" in (*rest, namespace or "-"):
        return None
    if rest and kind.resource.namespaced and not namespace:
        return None
    name, subresource = (*rest, "", "")[:2]
    return Target(kind, namespace, name, subresource)


def _is_namespaced(kinds: Kinds, group: str, version: str, plural: str) -> bool:
    kind = kinds.at(group, version, plural)
    return kind is not None and kind.resource.namespaced


_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "GET": "get", "HEAD": "get"}


@dataclass(frozen=True, slots=True)
class Request:
    """One request in terms of RBAC, for tests that compare requests with roles."""

    user: str
    verb: str
    group: str
    resource: str
    subresource: str
    namespace: str
    name: str


def record_of(user: User, method: str, target: Target, query: Mapping[str, str]) -> Request:
    """The record of a request, with the verb of RBAC."""
    verb = _VERBS.get(method, method.lower())
    if verb == "get" and not target.name:
        verb = "watch" if query.get("watch") in ("true", "1") else "list"
    if verb == "delete" and not target.name:
        verb = "deletecollection"
    resource = target.resource
    name = target.name or (_selected_name(query) if verb in ("list", "watch") else "")
    return Request(user.name, verb, resource.group, resource.plural, target.subresource, target.namespace, name)


def _selected_name(query: Mapping[str, str]) -> str:
    """The name in a field selector, which RBAC treats as the name of the request; empty without one.

    Source: k8s.io/apiserver pkg/endpoints/request/requestinfo.go.
    """
    for term in query.get("fieldSelector", "").split(","):
        field, _, name = term.partition("=")
        if field == "metadata.name":
            return name.removeprefix("=")
    return ""
