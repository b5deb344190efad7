"""The request of an AdmissionReview v1, parsed strictly.

The envelope is typed; the object in it stays JSON. An invalid review raises `BadReview` with one sentence for the caller,
because a response needs the uid of the request.
"""

from __future__ import annotations

import json
import re
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel

from policies.admission.webhooks import ENTRIES
from policies.kubernetes.names import is_dns_label
from policies.kubernetes.objects import FieldPath, generate_name_of, name_of
from policies.rules.request import Request, UserInfo
from webhook.server.bodies import BadJSON, TooManyValues, read_json

__all__ = ["API_VERSION", "KIND", "BadReview", "TooLargeReview", "decode", "name_in", "read_head"]

API_VERSION = "admission.k8s.io/v1"
KIND = "AdmissionReview"

_BEGINNING = re.compile(
    rb'\{"kind":"AdmissionReview","apiVersion":"admission\.k8s\.io/v1","request":\{"uid":"(?P<uid>[0-9a-f-]{1,64})"'
    rb'(?:,"kind":\{[^{}]{0,500}\},"resource":\{[^{}]{0,500}\}(?:,"subResource":"[a-z/]{0,63}")?'
    rb'(?:,"requestKind":\{[^{}]{0,500}\})?(?:,"requestResource":\{[^{}]{0,500}\})?(?:,"requestSubResource":"[a-z/]{0,63}")?'
    rb'(?:,"name":"[^"\\]{0,253}")?,"namespace":"(?P<namespace>[a-z0-9-]{1,63})")?'
)
"""How API servers begin a review. Source: k8s.io/api/admission/v1/types.go, whose fields are written in their order."""

_Text = Annotated[str, Field(min_length=1)]
_MAPPING = "must be a mapping"


class BadReview(ValueError):  # noqa: N818 - the name says what is wrong; "Error" would only say it twice
    """A body that is not a valid AdmissionReview v1. Its text is one sentence for the caller."""


class TooLargeReview(BadReview):
    """A review that is not parsed because of its size."""


class _Part(BaseModel):
    # Ignore all other fields, so that a newer API server may send more.
    model_config = ConfigDict(strict=True, extra="ignore", frozen=True, alias_generator=to_camel)


class _Kind(_Part):
    group: str | None = None
    kind: _Text


class _User(_Part):
    username: str | None = None
    groups: list[str] | None = None


class _Question(_Part):
    """An AdmissionRequest. Go writes empty fields as null or omits them.

    Source: k8s.io/api/admission/v1/types.go.
    """

    uid: _Text
    kind: _Kind
    sub_resource: str | None = None
    name: str | None = None
    namespace: str | None = None
    operation: Literal["CREATE", "UPDATE", "DELETE", "CONNECT"]
    user_info: _User | None = None
    object: dict[str, Any] | None = None
    old_object: dict[str, Any] | None = None
    dry_run: bool | None = None


class _Review(_Part):
    request: _Question


def decode(body: bytes | dict[str, Any], entry: str = "", *, caller_is_known: bool = True) -> Request:
    """Read the request of an AdmissionReview for a webhook entry.

    Args:
        body: The body of the call, or a review that was read from a file.
        entry: The entry that was called; empty for all entries.
        caller_is_known: True if the caller is authenticated.

    Raises:
        BadReview: the body is not an AdmissionReview of `admission.k8s.io/v1` with a request.
    """
    document = _json(body)
    _check_version(document)
    try:
        question = _Review.model_validate(document).request
    except ValidationError as error:
        raise BadReview(f"The AdmissionReview cannot be read: {_first_problem(error)}.") from error
    if question.namespace and not is_dns_label(question.namespace):
        raise BadReview(
            f"The AdmissionReview cannot be read: request.namespace {_describe(question.namespace)}, which is not the name "
            "of a namespace: at most 63 lower-case letters, digits and dashes, without a dash at either end."
        )
    if not question.namespace and entry and "quota" in ENTRIES[entry].concerns:
        raise BadReview(
            "The AdmissionReview cannot be read: request.namespace is missing; quotas are charged for "
            "what is in a namespace."
        )
    user = question.user_info or _User()
    return Request(
        object=question.object,
        old_object=question.old_object,
        operation=question.operation,
        group=question.kind.group or "",
        kind=question.kind.kind,
        subresource=question.sub_resource or "",
        namespace=question.namespace or "",
        name=question.name or "",
        user=UserInfo(user.username or "", tuple(user.groups or ())),
        dry_run=bool(question.dry_run),
        uid=question.uid,
        entry=entry,
        caller_is_known=caller_is_known,
    )


def read_head(body: bytes, entry: str) -> Request | None:
    """A request with the uid and namespace only; None if no API server begins a body like that.

    Replaces the request of a body that is not parsed, or not yet. The namespace may be empty.

    Args:
        body: The body, or its beginning.
        entry: The entry that was called.
    """
    found = _BEGINNING.match(body)
    if found is None:
        return None
    namespace = (found["namespace"] or b"").decode()
    return Request(None, kind="", namespace=namespace, uid=found["uid"].decode(), entry=entry)


def name_in(request: Request) -> str:
    """The name to show to users; the `generateName` of an object without a name."""
    document = request.object or {}
    return request.name or name_of(document) or generate_name_of(document)


def _json(body: bytes | dict[str, Any]) -> Any:
    if isinstance(body, dict):
        body = _json_bytes(body)
    try:
        return read_json(body)
    except TooManyValues as error:
        raise TooLargeReview(str(error)) from error
    except BadJSON as error:
        raise BadReview(str(error)) from error


def _json_bytes(review: dict[str, Any]) -> bytes:
    """A review from YAML as JSON, which is stricter about numbers, strings and keys."""
    try:
        return json.dumps(review, allow_nan=False).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise BadReview("The AdmissionReview holds values that JSON cannot express.") from error


def _check_version(document: Any) -> None:
    if not isinstance(document, dict):
        raise BadReview(f'The body is not a JSON object with kind "{KIND}".')
    if (kind := document.get("kind")) != KIND:
        raise BadReview(f'The body is not an AdmissionReview: kind {_describe(kind)}, not "{KIND}".')
    if (version := document.get("apiVersion")) != API_VERSION:
        raise BadReview(
            f'The AdmissionReview has another version: apiVersion {_describe(version)}, not "{API_VERSION}"; '
            "set admissionReviewVersions to [v1]."
        )
    if document.get("request") is None:
        raise BadReview("The AdmissionReview has no request.")


def _describe(value: Any) -> str:
    """What is wrong with the value of a string field, to follow the field's name."""
    if value is None:
        return "is missing"
    return f"is {json.dumps(value[:100])}" if isinstance(value, str) else "is not a string"


_WRONG = {
    "missing": "is missing",
    "string_type": "must be a string",
    "string_too_short": "is empty",
    "bool_type": "must be true or false",
    "list_type": "must be a list",
    "dict_type": _MAPPING,
    "model_type": _MAPPING,
    "model_attributes_type": _MAPPING,
    "literal_error": "must be CREATE, UPDATE, DELETE or CONNECT",
}


def _first_problem(error: ValidationError) -> str:
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    return f"{FieldPath(first['loc'])} {_WRONG[first['type']]}"
