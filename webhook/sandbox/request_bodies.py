"""Bodies and options of writes: JSON, and the protobuf of small objects that kubectl creates.

kubectl does not fall back to JSON after a 415, and discovery cannot make it (kubectl 1.32). So the kinds that it creates
from its command line are parsed here, as far as they are small. Answers are JSON, which it accepts.

Source: generated.proto of kubernetes/api and k8s.io/apimachinery; pkg/runtime/serializer/protobuf.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from aiohttp import hdrs, web

from webhook.sandbox.statuses import Cause, bad_request, failure, invalid, too_large, unsupported_media_type
from webhook.sandbox.store import Call
from webhook.server.bodies import BadJSON, read_json

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from policies.kubernetes.objects import Object
    from webhook.sandbox.statuses import User


_PREFIX = b"k8s\0"


class UnreadableProtobuf(ValueError):  # noqa: N818 - the name is a statement
    """A body is not protobuf of Kubernetes, or has a kind or a field that is not supported."""


@dataclass(frozen=True, slots=True)
class _Field:
    name: str
    """`-` if it is ignored."""
    of: str
    """`text`, `bytes`, `number`, `flag`, `quantity`, or the name of a message."""
    form: Literal["one", "list", "map"]


_TABLE = """
owner: 1 kind, 3 name, 4 uid, 5 apiVersion, 6 controller flag, 7 -
meta: 1 name, 2 generateName, 3 namespace, 4 selfLink, 5 uid, 6 resourceVersion, 7 -, 8 -, 9 -, 10 -, 11 labels {text}, \
12 annotations {text}, 13 ownerReferences [owner], 14 finalizers [text], 17 -
rule: 1 verbs [text], 2 apiGroups [text], 3 resources [text], 4 resourceNames [text], 5 nonResourceURLs [text]
subject: 1 kind, 2 apiGroup, 3 name, 4 namespace
roleRef: 1 apiGroup, 2 kind, 3 name
namespace: 1 finalizers [text]
secretName: 1 name
quota: 1 hard {quantity}, 2 scopes [text]
resourceAttributes: 1 namespace, 2 verb, 3 group, 4 version, 5 resource, 6 subresource, 7 name
pathAttributes: 1 path, 2 verb
access: 1 resourceAttributes resourceAttributes, 2 nonResourceAttributes pathAttributes
preconditions: 1 uid, 2 resourceVersion
Namespace: 1 metadata meta, 2 spec namespace, 3 -
ConfigMap: 1 metadata meta, 2 data {text}, 3 binaryData {bytes}, 4 immutable flag
Secret: 1 metadata meta, 2 data {bytes}, 3 type, 4 stringData {text}, 5 immutable flag
ServiceAccount: 1 metadata meta, 3 imagePullSecrets [secretName]
ResourceQuota: 1 metadata meta, 2 spec quota, 3 -
PriorityClass: 1 metadata meta, 2 value number, 3 globalDefault flag, 4 description, 5 preemptionPolicy
Role: 1 metadata meta, 2 rules [rule]
ClusterRole: 1 metadata meta, 2 rules [rule]
RoleBinding: 1 metadata meta, 2 subjects [subject], 3 roleRef roleRef
ClusterRoleBinding: 1 metadata meta, 2 subjects [subject], 3 roleRef roleRef
SelfSubjectAccessReview: 1 metadata meta, 2 spec access, 3 -
DeleteOptions: 1 gracePeriodSeconds number, 2 preconditions preconditions, 4 propagationPolicy, 5 dryRun [text]
"""
"""Messages and their fields: number, name, and type unless that is text; lists in [], maps in {}, `-` for ignored fields.
Kinds begin with a capital."""


def _parse_fields(text: str) -> dict[int, _Field]:
    fields = {}
    for written in text.split(", "):
        number, name, *types = written.split()
        of = types[0] if types else "text"
        form: Literal["one", "list", "map"] = "list" if of[0] == "[" else "map" if of[0] == "{" else "one"
        fields[int(number)] = _Field(name, of.strip("[]{}"), form)
    return fields


_MESSAGES = {name: _parse_fields(text) for name, text in (line.split(": ") for line in _TABLE.strip().splitlines())}
_HEAD = _parse_fields("1 apiVersion, 2 kind")


def read_protobuf(body: bytes) -> Object:
    """The object of a body.

    Raises:
        UnreadableProtobuf: The body is invalid, or its kind or a field is not supported.
    """
    if not body.startswith(_PREFIX):
        raise UnreadableProtobuf("the body does not begin like protobuf of Kubernetes")
    outer = dict(_parts(body[len(_PREFIX) :]))
    named, raw = outer.get(1, b""), outer.get(2, b"")
    if not isinstance(named, bytes) or not isinstance(raw, bytes):
        raise UnreadableProtobuf("the kind is missing")
    about = _message(named, _HEAD)
    kind = str(about.get("kind", ""))
    fields = _MESSAGES.get(kind)
    if fields is None or not kind[0].isupper():
        raise UnreadableProtobuf(f"its kind is {about.get('kind')}")
    return {**about, **_message(raw, fields)}


def _message(data: bytes, fields: Mapping[int, _Field]) -> Object:
    """The fields of a message, without empty strings, because Go writes all of them."""
    result: Object = {}
    for number, part in _parts(data):
        field = fields.get(number)
        if field is None:
            if part:
                raise UnreadableProtobuf(f"unknown field {number}")
            continue
        if field.name == "-":
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
    return _message(_bytes(part), _MESSAGES[field.of])


def _number(part: bytes | int) -> int:
    """A number of 64 bits with a sign."""
    if isinstance(part, bytes):
        raise UnreadableProtobuf("expected a number, found bytes")
    return part - 2**64 if part >= 2**63 else part


def _bytes(part: bytes | int) -> bytes:
    if isinstance(part, int):
        raise UnreadableProtobuf("expected bytes, found a number")
    return part


def _text(part: bytes | int) -> str:
    try:
        return _bytes(part).decode()
    except UnicodeDecodeError as error:
        raise UnreadableProtobuf("a string is not UTF-8") from error


def _parts(data: bytes) -> Iterator[tuple[int, bytes | int]]:
    """The number and the value of each field of a message."""
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        if tag & 7 == 0:
            value, at = _varint(data, at)
            yield tag >> 3, value
        elif tag & 7 == 2:
            length, at = _varint(data, at)
            if at + length > len(data):
                raise UnreadableProtobuf("the body is cut off")
            yield tag >> 3, data[at : at + length]
            at += length
        else:
            raise UnreadableProtobuf(f"unsupported wire type {tag & 7}")


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """A number, and the index of the byte after it."""
    value = 0
    for count, byte in enumerate(data[at : at + 10]):
        value |= (byte & 0x7F) << (7 * count)
        if byte < 0x80:
            return value, at + count + 1
    raise UnreadableProtobuf("the body is cut off in a number")


JSON = "application/json"
LARGEST_BODY = 3 * 1024 * 1024
"""Bytes. Source: k8s.io/apiserver pkg/server/config.go MaxRequestBodyBytes."""

_META = "meta.k8s.io/v1"
_TEXTS = ("fieldManager", "fieldValidation")
_PROTOBUF = "application/vnd.kubernetes.protobuf"
_NO_PROTOBUF = (
    "the sandbox reads JSON, and protobuf, which kubectl sends for a few of its commands, only of small kinds ({why});"
    " have the command print the object (--dry-run=client -o yaml) and pipe it into kubectl apply -f -"
)


async def read_body(request: web.Request, *accepted: str) -> Any:
    """The JSON of a request's body.

    Args:
        request: The request.
        accepted: The content types that can be read; without any, JSON.

    Raises:
        Refused: The body is not JSON, or too large.
    """
    accepted = accepted or (JSON,)
    # Like the API server, treat a body without a type as JSON; aiohttp calls it octet-stream.
    is_protobuf = request.content_type == _PROTOBUF
    if hdrs.CONTENT_TYPE in request.headers and not is_protobuf and request.content_type not in accepted:
        raise unsupported_media_type(*accepted)
    try:
        body = await request.read()
        return read_protobuf(body) if is_protobuf else read_json(body)
    except web.HTTPRequestEntityTooLarge as error:
        raise too_large(LARGEST_BODY) from error
    except UnreadableProtobuf as error:
        raise failure(415, "UnsupportedMediaType", _NO_PROTOBUF.format(why=error)) from error
    except BadJSON as error:
        raise bad_request(f"couldn't get version/kind; json parse error: {error}") from error


def write_options(kind: str, query: Mapping[str, str]) -> Object:
    """The CreateOptions, UpdateOptions or PatchOptions of a query."""
    given: Object = {name: query[name] for name in _TEXTS if query.get(name)}
    if "dryRun" in query:
        given["dryRun"] = [query["dryRun"]]
    return {"kind": kind, "apiVersion": _META, **given}


async def delete_options(request: web.Request) -> Object:
    """The DeleteOptions of a request: of its body or, without one, of its query.

    Raises:
        Refused: The body is not valid.
    """
    if request.can_read_body:
        body = await read_body(request)
        if not isinstance(body, dict) or not isinstance(body.get("preconditions") or {}, dict):
            raise bad_request("couldn't get version/kind; the body of a DELETE is a DeleteOptions object")
        if body:
            return {**body, "kind": "DeleteOptions", "apiVersion": _META}
    options = write_options("DeleteOptions", request.query)
    if policy := request.query.get("propagationPolicy"):
        options["propagationPolicy"] = policy
    return options


def call_of(user: User, options: Object, warn: Callable[[str], None]) -> Call:
    """The call with these options.

    Raises:
        Refused: An option has an invalid value.
    """
    causes = []
    dry_run = options.get("dryRun") or []
    if dry_run not in ([], ["All"]):
        shown = ", ".join(f'"{value}"' for value in dry_run) if isinstance(dry_run, list) else dry_run
        causes.append(Cause("dryRun", "NotSupported", f'[{shown}]: supported values: "All"'))
    policy = options.get("propagationPolicy")
    if policy not in (None, "Background", "Foreground", "Orphan"):
        shown = f'"{policy}": supported values: "Background", "Foreground", "Orphan"'
        causes.append(Cause("propagationPolicy", "NotSupported", shown))
    if causes:
        raise invalid(options["kind"], "meta.k8s.io", "", causes)
    return Call(user, options, warn, dry_run=bool(dry_run))
