"""Paths of the API: objects and subresources, discovery and OpenAPI."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from webhook.sandbox.kinds import CREATED

if TYPE_CHECKING:
    from collections.abc import Mapping

    from policies.kubernetes.objects import Object
    from webhook.cluster.resources import Resource
    from webhook.sandbox.kinds import Kind, Kinds
    from webhook.sandbox.statuses import User

__all__ = ["Request", "Target", "describe", "discover", "parse_path", "record_of", "version_info"]


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


_VERB_OF_METHOD = {"POST": "create", "PUT": "update", "PATCH": "patch", "GET": "get", "HEAD": "get"}


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
    verb = _VERB_OF_METHOD.get(method, method.lower())
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


_VERBS = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"]
_PART_VERBS = ["get", "patch", "update"]


def version_info(version: str) -> Object:
    """The document at `/version`, for a version such as `1.36.0`."""
    major, minor, *_ = version.split(".")
    return {"major": major, "minor": minor, "gitVersion": f"v{version}+sandbox", "platform": "linux/amd64"}


def discover(kinds: Kinds, path: str) -> Object | None:
    """The document at a path of discovery; None for other paths."""
    match path.strip("/").split("/"):
        case ["api"]:
            return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []}
        case ["apis"]:
            groups = dict.fromkeys(kind.resource.group for kind in kinds if kind.resource.group)
            shown = [_group(kinds, group) for group in groups]
            return {"kind": "APIGroupList", "apiVersion": "v1", "groups": shown}
        case ["api", version]:
            return _resources(kinds, "", version)
        case ["apis", group]:
            found = _group(kinds, group)
            return {"kind": "APIGroup", "apiVersion": "v1", **found} if found["versions"] else None
        case ["apis", group, version]:
            return _resources(kinds, group, version)
    return None


def _group(kinds: Kinds, group: str) -> Object:
    versions = dict.fromkeys(kind.resource.version for kind in kinds if kind.resource.group == group)
    shown = [{"groupVersion": f"{group}/{version}", "version": version} for version in versions]
    return {"name": group, "versions": shown, **({"preferredVersion": shown[0]} if shown else {})}


def _resources(kinds: Kinds, group: str, version: str) -> Object | None:
    served = [kind for kind in kinds if (kind.resource.group, kind.resource.version) == (group, version)]
    if not served:
        return None
    return {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": served[0].resource.api_version,
        "resources": [resource for kind in served for resource in _resource(kind)],
    }


def _resource(kind: Kind) -> list[Object]:
    """The resource and its subresources."""
    resource = kind.resource
    whole: Object = {
        "name": resource.plural,
        "singularName": resource.kind.lower(),
        "namespaced": resource.namespaced,
        "kind": resource.kind,
        "verbs": ["create"] if kind.review else _VERBS,
    }
    if resource.short_names:
        whole["shortNames"] = list(resource.short_names)
    parts = [_part(kind, "status", _PART_VERBS)] if kind.status else []
    if resource.kind == "Namespace":
        parts.append(_part(kind, "finalize", ["update"]))
    if resource.kind == "Pod":
        parts.append(_part(kind, "ephemeralcontainers", _PART_VERBS))
        parts += [{**_part(kind, name, ["create"]), "kind": part.resource.kind} for name, part in CREATED.items()]
    return [whole, *parts]


def _part(kind: Kind, subresource: str, verbs: list[str]) -> Object:
    resource = kind.resource
    return {
        "name": f"{resource.plural}/{subresource}",
        "singularName": "",
        "namespaced": resource.namespaced,
        "kind": resource.kind,
        "verbs": verbs,
    }


_ROOT = "/openapi/v3"
_FIELD_VALIDATION = {"name": "fieldValidation", "in": "query", "schema": {"type": "string", "uniqueItems": True}}


def describe(kinds: Kinds, path: str) -> Object | None:
    """The document at a path of OpenAPI; None for other paths."""
    versions: dict[str, list[Kind]] = {}
    for kind in kinds:
        group, version = kind.resource.group, kind.resource.version
        versions.setdefault(f"apis/{group}/{version}" if group else f"api/{version}", []).append(kind)
    if path == _ROOT:
        return {"paths": {name: {"serverRelativeURL": f"{_ROOT}/{name}"} for name in versions}}
    name = path.removeprefix(f"{_ROOT}/")
    if name == path or name not in versions:
        return None
    return {
        "openapi": "3.0.0",
        "info": {"title": "gpu-admission sandbox", "version": "unversioned"},
        "paths": {_object_path(kind): {"patch": _patch(kind)} for kind in versions[name]},
    }


def _object_path(kind: Kind) -> str:
    resource = kind.resource
    return resource.path("{namespace}" if resource.namespaced else "", "{name}").replace("%7B", "{").replace("%7D", "}")


def _patch(kind: Kind) -> Object:
    resource = kind.resource
    named = {"group": resource.group, "version": resource.version, "kind": resource.kind}
    return {"parameters": [_FIELD_VALIDATION], "responses": {}, "x-kubernetes-group-version-kind": named}
