"""Strategies of writes: status, generation, immutable fields and validation, per kind.

Source: PrepareForCreate, PrepareForUpdate and ValidateUpdate of the strategies in kubernetes/pkg/registry, 1.36.
"""

from __future__ import annotations

import base64
import binascii
from typing import TYPE_CHECKING, Any

import orjson

from webhook.sandbox.crds import definition_problems, schema_problems
from webhook.sandbox.metadata import metadata_problems, update_problems
from webhook.sandbox.statuses import Cause, invalid
from webhook.sandbox.validation import claim_problems, pod_problems, pod_update_problems

if TYPE_CHECKING:
    from policies.kubernetes.objects import Object
    from webhook.sandbox.kinds import Kind

__all__ = ["check", "check_update", "prepare_create", "prepare_status_update", "prepare_update"]

_FIRST_STATUS: dict[str, Object] = {"Pod": {"phase": "Pending"}, "Namespace": {"phase": "Active"}}
_KEEP_STATUS = frozenset(["Node"])
"""Kinds whose status may be written at creation: a kubelet registers its node with a status."""
_IMMUTABLE_SPEC = frozenset(["PodGroup", "ResourceClaim", "ResourceClaimTemplate"])
_OWN_METADATA = ("uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "generation")


def prepare_create(kind: Kind, document: Object) -> Object:
    """A new object with its first status and generation."""
    if kind.generation:
        document = {**document, "metadata": {**document["metadata"], "generation": 1}}
    if not kind.status or kind.resource.kind in _KEEP_STATUS:
        return document
    document = {key: value for key, value in document.items() if key != "status"}
    if kind.resource.kind == "Namespace":
        document["spec"] = {"finalizers": ["kubernetes"]}
    return document if kind.custom else {**document, "status": _FIRST_STATUS.get(kind.resource.kind, {})}


def prepare_update(kind: Kind, old: Object, new: Object) -> Object:
    """A changed object with its old status, and its next generation."""
    document = _own_metadata(old, new)
    if kind.resource.kind == "Namespace":
        document["spec"] = old.get("spec", {})
    if kind.status:
        document = _with_part(document, "status", old)
    if kind.generation and _spec_fields(kind, document) != _spec_fields(kind, old):
        generation = old["metadata"].get("generation", 0) + 1
        document = {**document, "metadata": {**document["metadata"], "generation": generation}}
    return document


def prepare_status_update(kind: Kind, old: Object, new: Object) -> Object:
    """The old object with the new status and, for some kinds, new labels and annotations."""
    metadata = _own_metadata(old, new)["metadata"] if kind.status == "metadata" else old["metadata"]
    version = new["metadata"].get("resourceVersion", old["metadata"]["resourceVersion"])
    return _with_part({**old, "metadata": {**metadata, "resourceVersion": version}}, "status", new)


def _with_part(document: Object, part: str, source: Object) -> Object:
    rest = {key: value for key, value in document.items() if key != part}
    return {**rest, part: source[part]} if part in source else rest


def _own_metadata(old: Object, new: Object) -> Object:
    kept = {key: value for key, value in new["metadata"].items() if key not in _OWN_METADATA}
    own = {key: old["metadata"][key] for key in _OWN_METADATA if key in old["metadata"]}
    return {**new, "metadata": {**kept, **own}}


def _spec_fields(kind: Kind, document: Object) -> Object:
    apart = {"metadata", "status"} if kind.status else {"metadata"}
    return {key: value for key, value in document.items() if key not in apart}


def check(kind: Kind, document: Object) -> None:
    """Validate a new object.

    Raises:
        Refused: 422, with every cause.
    """
    _refuse(kind, document, [*metadata_problems(kind, document), *_problems(kind, document, None)])


def check_update(kind: Kind, old: Object, new: Object, *, whole: bool) -> None:
    """Validate a change.

    Args:
        kind: The kind of the object.
        old: The old object.
        new: The new object.
        whole: False for a subresource, which has its own rules of what may change.

    Raises:
        Refused: 422, with every cause.
    """
    causes = [*metadata_problems(kind, new), *update_problems(old, new), *_problems(kind, new, old)]
    if kind.resource.kind in _IMMUTABLE_SPEC and new.get("spec") != old.get("spec"):
        shown: Any = orjson.dumps(new.get("spec")).decode()
        causes.append(Cause("spec", "Invalid", f"{shown}: field is immutable"))
    if kind.resource.kind == "Pod" and whole:
        causes += pod_update_problems(old, new)
    _refuse(kind, new, causes)


def _problems(kind: Kind, document: Object, old: Object | None) -> list[Cause]:
    match kind.resource.kind:
        case "CustomResourceDefinition":
            return definition_problems(document)
        case "Secret":
            return _secret_problems(document, old)
        case "Pod" if old is None:
            return pod_problems(document)
        case "ResourceClaim" | "ResourceClaimTemplate" | "DeviceClass" if not kind.custom:
            return claim_problems(document)
    return schema_problems(kind.schema, document, old)


def _refuse(kind: Kind, document: Object, causes: list[Cause]) -> None:
    if causes:
        name = document["metadata"].get("name", "")
        raise invalid(kind.resource.kind, kind.resource.group, name, causes)


_SECRET_KEYS = {
    "kubernetes.io/tls": ("tls.crt", "tls.key"),
    "kubernetes.io/dockercfg": (".dockercfg",),
    "kubernetes.io/dockerconfigjson": (".dockerconfigjson",),
}
"""Keys that a secret of a type must have. Source: ValidateSecret in kubernetes/pkg/apis/core/validation."""


def _secret_problems(secret: Object, old: Object | None) -> list[Cause]:
    """Problems of a secret, and forbidden changes."""
    data = secret.get("data") or {}
    causes = [
        Cause(f"data[{key}]", "Required", "") for key in _SECRET_KEYS.get(secret.get("type", ""), ()) if key not in data
    ]
    # A real server answers this with 400 before validation.
    causes += [Cause(f"data[{key}]", "Invalid", "illegal base64 data") for key in data if not _is_base64(data[key])]
    if old is not None and secret.get("type") != old.get("type"):
        causes.append(Cause("type", "Invalid", f'"{secret.get("type")}": field is immutable'))
    return causes


def _is_base64(value: object) -> bool:
    try:
        return isinstance(value, str) and base64.b64decode(value, validate=True) is not None
    except binascii.Error:
        return False
