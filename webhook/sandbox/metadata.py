"""Object metadata: fields of clients and fields of the server."""

from __future__ import annotations

import base64
import binascii
import uuid
from typing import TYPE_CHECKING, Any

import orjson

from policies.kubernetes.names import is_dns_subdomain, is_label_key, is_label_value
from webhook.sandbox.crds import definition_problems, schema_problems
from webhook.sandbox.statuses import NO_SUBDOMAIN, Cause, bad_request, invalid
from webhook.sandbox.validation import claim_problems, pod_problems, pod_update_problems

if TYPE_CHECKING:
    from random import Random

    from policies.kubernetes.objects import Object
    from webhook.sandbox.kinds import Kind


_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
"""Of generated names: no vowels, so that no words come out. Source: apimachinery pkg/util/rand."""
_RANDOM_CHARACTERS = 5
_LONGEST_BASE = 63 - _RANDOM_CHARACTERS
_LONGEST_NAME = 253
_LONGEST_LABEL = 63

_NO_LABEL_VALUE = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and"
    " end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is"
    " '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)
_NO_LABEL_KEY = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric"
    " character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is"
    " '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)

_TEXTS = ("name", "namespace", "generateName", "uid", "resourceVersion", "creationTimestamp", "deletionTimestamp")
_WIPED = ("uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "generation", "selfLink")
_FREE_NAMES = "rbac.authorization.k8s.io"
"""The group whose objects may have any name that is one segment of a path."""


def check_shape(kind: Kind, document: Any) -> Object:
    """The document as an object of the kind, with `metadata`.

    Raises:
        Refused: It is not an object of the kind, or fields of its metadata have wrong types.
    """
    resource = kind.resource
    if not isinstance(document, dict):
        raise bad_request(
            f"the object provided is unrecognized (must be of type {resource.kind}): it is no JSON object"
        )
    named, version = document.get("kind") or resource.kind, document.get("apiVersion") or resource.api_version
    if kind.custom and not (document.get("kind") and document.get("apiVersion")):
        raise bad_request(
            f"the object provided is unrecognized (must be of type {resource.kind}): couldn't get version/kind"
        )
    if version != resource.api_version:
        raise bad_request(
            f"the API version in the data ({version}) does not match the expected API version ({resource.api_version})"
        )
    if named != resource.kind:
        raise bad_request(f'{named} in version "{resource.version}" cannot be handled as a {resource.kind}')
    metadata = document.get("metadata")
    metadata = {} if metadata is None else metadata
    if wrong := _wrong_shape(metadata):
        raise bad_request(f'{named} in version "{resource.version}" cannot be handled as a {named}: {wrong}')
    # The API server does not store null and empty fields.
    shown = {key: value for key, value in metadata.items() if value not in (None, {}, []) and key != "managedFields"}
    return {**document, "kind": resource.kind, "apiVersion": version, "metadata": shown}


def _wrong_shape(metadata: Any) -> str:
    """The first field of metadata with a wrong type; empty if all are right."""
    if not isinstance(metadata, dict):
        return "metadata is no JSON object"
    for field in _TEXTS:
        if not isinstance(metadata.get(field) or "", str):
            return f"metadata.{field} must be a string"
    for field in ("labels", "annotations"):
        values = metadata.get(field) or {}
        if not isinstance(values, dict) or not all(isinstance(value, str) for value in values.values()):
            return f"metadata.{field} must be a map of strings"
    finalizers = metadata.get("finalizers") or []
    if not isinstance(finalizers, list) or not all(isinstance(finalizer, str) for finalizer in finalizers):
        return "metadata.finalizers must be a list of strings"
    owners = metadata.get("ownerReferences") or []
    if not isinstance(owners, list) or not all(isinstance(owner, dict) for owner in owners):
        return "metadata.ownerReferences must be a list of objects"
    return ""


def with_namespace(document: Object, namespace: str) -> Object:
    """The object in the namespace of its path.

    Raises:
        Refused: It has another namespace.
    """
    metadata = {key: value for key, value in document["metadata"].items() if key != "namespace"}
    if document["metadata"].get("namespace", namespace) not in ("", namespace):
        raise bad_request("the namespace of the provided object does not match the namespace sent on the request")
    return {**document, "metadata": {**metadata, **({"namespace": namespace} if namespace else {})}}


def without_server_fields(document: Object) -> Object:
    """The object without metadata that only the server writes."""
    metadata = {key: value for key, value in document["metadata"].items() if key not in _WIPED}
    return {**document, "metadata": metadata}


def with_identity(document: Object, now: str, random: Random) -> Object:
    """The new object with a UID, its time of creation, and a generated name if it needs one."""
    metadata = dict(document["metadata"])
    if not metadata.get("name") and (base := metadata.get("generateName")):
        metadata["name"] = base[:_LONGEST_BASE] + "".join(random.choices(_ALPHABET, k=_RANDOM_CHARACTERS))
    identity = {"uid": str(uuid.UUID(int=random.getrandbits(128), version=4)), "creationTimestamp": now}
    return {**document, "metadata": {**metadata, **identity}}


def metadata_problems(kind: Kind, document: Object) -> list[Cause]:
    """Problems in the metadata of an object before it is stored."""
    metadata = document["metadata"]
    causes = [*_name_problems(kind, metadata.get("name", ""))]
    for key, value in (metadata.get("labels") or {}).items():
        if not is_label_key(key):
            causes.append(Cause("metadata.labels", "Invalid", f'"{key}": {_NO_LABEL_KEY}'))
        if not is_label_value(value):
            why = _NO_LABEL_VALUE if len(value) <= _LONGEST_LABEL else f"must be no more than {_LONGEST_LABEL} bytes"
            causes.append(Cause("metadata.labels", "Invalid", f'"{value}": {why}'))
    for owner in metadata.get("ownerReferences") or ():
        causes += [
            Cause(f"metadata.ownerReferences.{field}", "Invalid", f'"": {"version " * (field == "apiVersion")}{_EMPTY}')
            for field in ("apiVersion", "kind", "name", "uid")
            if not isinstance(owner.get(field), str) or not owner[field]
        ]
    annotations = metadata.get("annotations") or {}
    causes += [
        Cause("metadata.annotations", "Invalid", f'"{key}": {_NO_LABEL_KEY}')
        for key in annotations
        if not is_label_key(key.lower())
    ]
    if sum(len(key.encode()) + len(value.encode()) for key, value in annotations.items()) > _MOST_ANNOTATIONS:
        causes.append(Cause("metadata.annotations", "TooLong", f"may not be more than {_MOST_ANNOTATIONS} bytes"))
    for index, finalizer in enumerate(metadata.get("finalizers") or ()):
        if "/" not in finalizer and finalizer not in _STANDARD_FINALIZERS:
            why = f'"{finalizer}": name is neither a standard finalizer name nor is it fully qualified'
            causes.append(Cause(f"metadata.finalizers[{index}]", "Invalid", why))
    return causes


_EMPTY = "must not be empty"
_MOST_ANNOTATIONS = 256 * 1024
"""Bytes of all keys and values. Source: apimachinery pkg/api/validation TotalAnnotationSizeLimitB."""
_STANDARD_FINALIZERS = frozenset(["kubernetes", "orphan", "foregroundDeletion"])


def _name_problems(kind: Kind, name: str) -> list[Cause]:
    if not name:
        return [Cause("metadata.name", "Required", "name or generateName is required")]
    why = ""
    if kind.resource.group == _FREE_NAMES:
        why = NO_SUBDOMAIN if name in (".", "..") or {"/", "%"} & set(name) else ""
    elif len(name) > _LONGEST_NAME:
        why = f"must be no more than {_LONGEST_NAME} characters"
    elif kind.resource.kind == "Namespace" and "." in name:
        why = "must not contain dots"
    elif not is_dns_subdomain(name):
        why = NO_SUBDOMAIN
    return [Cause("metadata.name", "Invalid", f'"{name}": {why}')] if why else []


def update_problems(old: Object, new: Object) -> list[Cause]:
    """Forbidden changes of metadata: new finalizers while an object is being deleted."""
    if "deletionTimestamp" not in old["metadata"]:
        return []
    before = old["metadata"].get("finalizers") or ()
    added = sorted(finalizer for finalizer in new["metadata"].get("finalizers") or () if finalizer not in before)
    if not added:
        return []
    shown = ", ".join(f'"{finalizer}"' for finalizer in added)
    return [
        Cause(
            "metadata.finalizers",
            "Forbidden",
            f"no new finalizers can be added if the object is being deleted, found new finalizers []string{{{shown}}}",
        )
    ]


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
