"""Parses protobuf, in which `kubectl create namespace` and the like send small objects.

kubectl does not fall back to JSON after a 415, and discovery cannot make it (kubectl 1.32). So the kinds that it creates
from its command line are parsed here, as far as they are small. Answers are JSON, which it accepts.

Source: generated.proto of kubernetes/api and k8s.io/apimachinery; pkg/runtime/serializer/protobuf.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from policies.kubernetes.objects import Object

__all__ = ["UnreadableProtobuf", "read_protobuf"]

_PREFIX = b"k8s\0"


class UnreadableProtobuf(ValueError):  # noqa: N818 - the name is a statement
    """A body is not protobuf of Kubernetes, or has a kind or a field that is not supported."""


@dataclass(frozen=True, slots=True)
class _Field:
    name: str
    of: Mapping[int, _Field] | Literal["text", "bytes", "number", "flag", "quantity", "ignored"] = "text"
    form: Literal["one", "list", "map"] = "one"


def _texts(**names: int) -> dict[int, _Field]:
    return {number: _Field(name) for name, number in names.items()}


def _lists(**names: int) -> dict[int, _Field]:
    return {number: _Field(name, form="list") for name, number in names.items()}


_OWNER = _texts(kind=1, name=3, uid=4, apiVersion=5) | {6: _Field("controller", "flag"), 7: _Field("block", "ignored")}
_METADATA = {
    **_texts(name=1, generateName=2, namespace=3, selfLink=4, uid=5, resourceVersion=6),
    **{number: _Field("", "ignored") for number in (7, 8, 9, 10, 17)},
    11: _Field("labels", form="map"),
    12: _Field("annotations", form="map"),
    13: _Field("ownerReferences", _OWNER, "list"),
    14: _Field("finalizers", form="list"),
}
_META = {1: _Field("metadata", _METADATA)}
_STATUS = {3: _Field("status", "ignored")}
_RULES = _lists(verbs=1, apiGroups=2, resources=3, resourceNames=4, nonResourceURLs=5)
_ROLE = {**_META, 2: _Field("rules", _RULES, "list")}
_BINDING = {
    **_META,
    2: _Field("subjects", _texts(kind=1, apiGroup=2, name=3, namespace=4), "list"),
    3: _Field("roleRef", _texts(apiGroup=1, kind=2, name=3)),
}
_QUOTA = {1: _Field("hard", "quantity", "map"), **_lists(scopes=2)}
_ASKED = {
    1: _Field("resourceAttributes", _texts(namespace=1, verb=2, group=3, version=4, resource=5, subresource=6, name=7)),
    2: _Field("nonResourceAttributes", _texts(path=1, verb=2)),
}
_KINDS: dict[str, Mapping[int, _Field]] = {
    "Namespace": {**_META, 2: _Field("spec", _lists(finalizers=1)), **_STATUS},
    "ConfigMap": {
        **_META,
        2: _Field("data", form="map"),
        3: _Field("binaryData", "bytes", "map"),
        4: _Field("immutable", "flag"),
    },
    "Secret": {
        **_META,
        2: _Field("data", "bytes", "map"),
        3: _Field("type"),
        4: _Field("stringData", form="map"),
        5: _Field("immutable", "flag"),
    },
    "ServiceAccount": {**_META, 3: _Field("imagePullSecrets", _texts(name=1), "list")},
    "ResourceQuota": {**_META, 2: _Field("spec", _QUOTA), **_STATUS},
    "PriorityClass": {
        **_META,
        2: _Field("value", "number"),
        3: _Field("globalDefault", "flag"),
        **_texts(description=4, preemptionPolicy=5),
    },
    "Role": _ROLE,
    "ClusterRole": _ROLE,
    "RoleBinding": _BINDING,
    "ClusterRoleBinding": _BINDING,
    "SelfSubjectAccessReview": {**_META, 2: _Field("spec", _ASKED), **_STATUS},
    "DeleteOptions": {
        1: _Field("gracePeriodSeconds", "number"),
        2: _Field("preconditions", _texts(uid=1, resourceVersion=2)),
        4: _Field("propagationPolicy"),
        5: _Field("dryRun", form="list"),
    },
}


def read_protobuf(body: bytes) -> Object:
    """The object of a body.

    Raises:
        UnreadableProtobuf: The body is invalid or not supported.
    """
    if not body.startswith(_PREFIX):
        raise UnreadableProtobuf("it does not begin as protobuf of Kubernetes does")
    outer = dict(_parts(body[len(_PREFIX) :]))
    named, raw = outer.get(1, b""), outer.get(2, b"")
    if not isinstance(named, bytes) or not isinstance(raw, bytes):
        raise UnreadableProtobuf("it does not say of which kind it is")
    about = _message(named, _texts(apiVersion=1, kind=2))
    fields = _KINDS.get(about.get("kind", ""))
    if fields is None:
        raise UnreadableProtobuf(f"its kind is {about.get('kind')}")
    return {**about, **_message(raw, fields)}


def _message(data: bytes, fields: Mapping[int, _Field]) -> Object:
    """The fields of a message; empty texts count as not written, as Go writes them all."""
    result: Object = {}
    for number, part in _parts(data):
        field = fields.get(number)
        if field is None:
            if part:
                raise UnreadableProtobuf(f"it has a field of number {number}")
            continue
        if field.of == "ignored":
            continue
        if field.form == "map":
            entry = dict(_parts(_bytes(part)))
            result.setdefault(field.name, {})[_text(entry.get(1, b""))] = _value(entry.get(2, b""), field)
        elif field.form == "list":
            result.setdefault(field.name, []).append(_value(part, field))
        elif (value := _value(part, field)) != "":
            result[field.name] = value
    return result


def _value(part: bytes | int, field: _Field) -> Any:
    match field.of:
        case "text":
            return _text(part)
        case "bytes":
            return base64.b64encode(_bytes(part)).decode()
        case "number":
            return _number(part)
        case "flag":
            return bool(_number(part))
        case "quantity":
            return _text(dict(_parts(_bytes(part))).get(1, b""))
    return _message(_bytes(part), field.of)  # type: ignore[arg-type]  # what is no word is a message


def _number(part: bytes | int) -> int:
    """A number of 64 bits with a sign."""
    if isinstance(part, bytes):
        raise UnreadableProtobuf("there are bytes where there should be a number")
    return part - 2**64 if part >= 2**63 else part


def _bytes(part: bytes | int) -> bytes:
    if isinstance(part, int):
        raise UnreadableProtobuf("there is a number where there should be bytes")
    return part


def _text(part: bytes | int) -> str:
    try:
        return _bytes(part).decode()
    except UnicodeDecodeError as error:
        raise UnreadableProtobuf("a text is no UTF-8") from error


def _parts(data: bytes) -> Iterator[tuple[int, bytes | int]]:
    """The fields of a message: number and value, which is a number or bytes."""
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        if tag & 7 == 0:
            value, at = _varint(data, at)
            yield tag >> 3, value
        elif tag & 7 == 2:
            length, at = _varint(data, at)
            if at + length > len(data):
                raise UnreadableProtobuf("it ends too early")
            yield tag >> 3, data[at : at + length]
            at += length
        else:
            raise UnreadableProtobuf(f"it has a field of wire type {tag & 7}")


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """A number, and where what follows it begins."""
    value = 0
    for count, byte in enumerate(data[at : at + 10]):
        value |= (byte & 0x7F) << (7 * count)
        if byte < 0x80:
            return value, at + count + 1
    raise UnreadableProtobuf("it ends in the middle of a number")
