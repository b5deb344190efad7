"""The question of an AdmissionReview v1, read strictly.

The envelope is typed; the object inside stays the JSON it came as. A caller that sends anything else is told what is
wrong in one sentence, since what it sent cannot even be answered: an answer carries the question's uid.
"""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel

from policies.kubernetes.objects import name_of
from policies.kubernetes.paths import FieldPath, lookup
from policies.request import Request, UserInfo
from webhook.server.strict_json import BadJSON, read_json

__all__ = ["API_VERSION", "KIND", "BadReview", "decode", "name_in"]

API_VERSION = "admission.k8s.io/v1"
KIND = "AdmissionReview"

_Text = Annotated[str, Field(min_length=1)]
_MAPPING = "is no mapping"


class BadReview(ValueError):  # noqa: N818 - the name says what is wrong; "Error" would only say it twice
    """A body that is no AdmissionReview v1 with a request. Its text is one plain sentence for who sent it."""


class _Part(BaseModel):
    # Whatever else the API server sends, now or in a newer version, is none of our business.
    model_config = ConfigDict(strict=True, extra="ignore", frozen=True, alias_generator=to_camel)


class _Kind(_Part):
    group: str | None = None
    kind: _Text


class _User(_Part):
    username: str | None = None
    groups: list[str] | None = None


class _Question(_Part):
    """AdmissionRequest; source: k8s.io/api/admission/v1/types.go. Go writes empty fields as null or not at all."""

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


def decode(body: bytes | dict[str, Any], entry: str = "") -> Request:
    """Read the question that an AdmissionReview asks of a webhook entry.

    Args:
        body: The body of the call as it came, or a review that was read from a file.
        entry: The entry that was called; empty for all of them together.

    Raises:
        BadReview: The body is no AdmissionReview of `admission.k8s.io/v1` with a request.
    """
    document = _json(body)
    _check_version(document)
    try:
        question = _Review.model_validate(document).request
    except ValidationError as error:
        raise BadReview(f"The AdmissionReview cannot be read: {_first_problem(error)}.") from error
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
    )


def name_in(request: Request) -> str:
    """The name to show people; of an object whose name is not made yet, what its `generateName` begins it with."""
    generated = lookup(request.object, ("metadata", "generateName"))
    return request.name or name_of(request.object or {}) or (generated if isinstance(generated, str) else "")


def _json(body: bytes | dict[str, Any]) -> Any:
    if isinstance(body, dict):
        body = _written(body)
    try:
        return read_json(body)
    except BadJSON as error:
        raise BadReview(str(error)) from error


def _written(review: dict[str, Any]) -> bytes:
    """A review that came from YAML as JSON, which is stricter about numbers, texts and keys."""
    try:
        return json.dumps(review, allow_nan=False).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise BadReview("The AdmissionReview holds values that JSON cannot express.") from error


def _check_version(document: Any) -> None:
    if not isinstance(document, dict):
        raise BadReview(f'The body is JSON, but no mapping with kind "{KIND}".')
    if (kind := document.get("kind")) != KIND:
        raise BadReview(f'The body is no AdmissionReview: kind {_shown(kind)}, not "{KIND}".')
    if (version := document.get("apiVersion")) != API_VERSION:
        raise BadReview(
            f'The AdmissionReview is of another version: apiVersion {_shown(version)}, not "{API_VERSION}"; '
            "set admissionReviewVersions to [v1]."
        )
    if lookup(document, ("request",)) is None:
        raise BadReview("The AdmissionReview asks nothing: request is missing.")


def _shown(value: Any) -> str:
    if value is None:
        return "is missing"
    return f"is {json.dumps(value[:100])}" if isinstance(value, str) else "is no text"


_WRONG = {
    "missing": "is missing",
    "string_type": "is no text",
    "string_too_short": "is empty",
    "bool_type": "is neither true nor false",
    "list_type": "is no list",
    "dict_type": _MAPPING,
    "model_type": _MAPPING,
    "model_attributes_type": _MAPPING,
    "literal_error": "is none of CREATE, UPDATE, DELETE and CONNECT",
}


def _first_problem(error: ValidationError) -> str:
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    return f"{FieldPath(first['loc'])} {_WRONG[first['type']]}"
