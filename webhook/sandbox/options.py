"""Bodies and options of writes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from aiohttp import hdrs, web

from webhook.sandbox.cluster import Call
from webhook.sandbox.protobuf import UnreadableProtobuf, read_protobuf
from webhook.sandbox.statuses import Cause, bad_request, failure, invalid, too_large, unsupported_media_type
from webhook.server.strict_json import BadJSON, read_json

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from policies.kubernetes.objects import Object
    from webhook.sandbox.attempt import User

__all__ = ["JSON", "LARGEST_BODY", "call_of", "delete_options", "read_body", "write_options"]

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
        Refused: it is no JSON, or too large.
    """
    accepted = accepted or (JSON,)
    # A body without a type is taken for JSON, as the API server does; aiohttp calls it octet-stream.
    if request.content_type == _PROTOBUF:
        return await _read_protobuf(request)
    if hdrs.CONTENT_TYPE in request.headers and request.content_type not in accepted:
        raise unsupported_media_type(*accepted)
    try:
        return read_json(await request.read())
    except web.HTTPRequestEntityTooLarge as error:
        raise too_large(LARGEST_BODY) from error
    except BadJSON as error:
        raise bad_request(f"couldn't get version/kind; json parse error: {error}") from error


async def _read_protobuf(request: web.Request) -> Any:
    try:
        return read_protobuf(await request.read())
    except web.HTTPRequestEntityTooLarge as error:
        raise too_large(LARGEST_BODY) from error
    except UnreadableProtobuf as error:
        raise failure(415, "UnsupportedMediaType", _NO_PROTOBUF.format(why=error)) from error


def write_options(kind: str, query: Mapping[str, str]) -> Object:
    """The CreateOptions, UpdateOptions or PatchOptions of a query."""
    given: Object = {name: query[name] for name in _TEXTS if query.get(name)}
    if "dryRun" in query:
        given["dryRun"] = [query["dryRun"]]
    return {"kind": kind, "apiVersion": _META, **given}


async def delete_options(request: web.Request) -> Object:
    """The DeleteOptions of a request: of its body or, without one, of its query.

    Raises:
        Refused: the body is none.
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
        Refused: the options have values that they cannot have.
    """
    causes = []
    dry_run = options.get("dryRun") or []
    if dry_run not in ([], ["All"]):
        causes.append(Cause("dryRun", "NotSupported", f'{_quote_list(dry_run)}: supported values: "All"'))
    policy = options.get("propagationPolicy")
    if policy not in (None, "Background", "Foreground", "Orphan"):
        shown = f'"{policy}": supported values: "Background", "Foreground", "Orphan"'
        causes.append(Cause("propagationPolicy", "NotSupported", shown))
    if causes:
        raise invalid(options["kind"], "meta.k8s.io", "", causes)
    return Call(user, options, warn, dry_run=bool(dry_run))


def _quote_list(values: Any) -> str:
    shown = ", ".join(f'"{value}"' for value in values) if isinstance(values, list) else values
    return f"[{shown}]"
