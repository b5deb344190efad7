"""The least of `/openapi/v3` that `kubectl apply` needs: that the server takes `fieldValidation` for its kinds.

kubectl then leaves validation to the server. The schemas of the kinds are not told.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from policies.kubernetes.objects import Object
    from webhook.sandbox.kinds import Kind, Kinds

__all__ = ["describe"]

_ROOT = "/openapi/v3"
_FIELD_VALIDATION = {"name": "fieldValidation", "in": "query", "schema": {"type": "string", "uniqueItems": True}}


def describe(kinds: Kinds, path: str) -> Object | None:
    """The document at a path of OpenAPI; None where there is none."""
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
