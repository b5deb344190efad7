"""The request of an AdmissionReview v1, parsed strictly.

The envelope is typed; the object in it stays JSON. An invalid review raises `BadReview` with one sentence for the caller,
because a response needs the uid of the request.
"""

from __future__ import annotations

import base64
import json
import math
import re
from typing import TYPE_CHECKING, Annotated, Any, Literal

import orjson
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel

from policies.admission import ENTRIES
from policies.kubernetes.names import format_count, is_dns_label, printable
from policies.kubernetes.objects import FieldPath, generate_name_of, name_of
from policies.rules.decision import refusal_lines
from policies.rules.messages import warning_lines
from policies.rules.request import Request, UserInfo
from webhook.server.bodies import BadJSON, TooLargeDocument, read_json

if TYPE_CHECKING:
    from policies.admission import Entry
    from policies.rules.decision import Decision
    from webhook.server.template_keeper import RefusedTemplate, TooManyTemplates


API_VERSION = "admission.k8s.io/v1"
KIND = "AdmissionReview"

_BEGINNING = re.compile(
    rb'\{"kind":"AdmissionReview","apiVersion":"admission\.k8s\.io/v1","request":\{"uid":"(?P<uid>[0-9a-f-]{1,64})"'
    rb'(?:,"kind":\{[^{}]{0,500}\},"resource":\{[^{}]{0,500}\}(?:,"subResource":"[a-z/]{0,63}")?'
    rb'(?:,"requestKind":\{[^{}]{0,500}\})?(?:,"requestResource":\{[^{}]{0,500}\})?(?:,"requestSubResource":"[a-z/]{0,63}")?'
    rb'(?:,"name":"[^"\\]{0,253}")?,"namespace":"(?P<namespace>[a-z0-9-]{1,63})")?'
)
"""The beginning of a review from an API server. Source: k8s.io/api/admission/v1/types.go, whose fields are written in
their order."""

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
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        problem = f"{FieldPath(first['loc'])} {_WRONG[first['type']]}"
        raise BadReview(f"The AdmissionReview cannot be read: {problem}.") from error
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
        # A review from YAML as JSON, which is stricter about numbers, strings and keys.
        try:
            body = json.dumps(body, allow_nan=False).encode()
        except (TypeError, ValueError, RecursionError) as error:
            raise BadReview("The AdmissionReview holds values that JSON cannot express.") from error
    try:
        return read_json(body)
    except TooLargeDocument as error:
        raise TooLargeReview(str(error)) from error
    except BadJSON as error:
        raise BadReview(str(error)) from error


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
    """The problem of the value of a string field, to follow the field's name."""
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


_LONGEST_LINE = 1000
_LONGEST_MESSAGE = 8000
"""Characters of all lines of a refusal together: about what a terminal can show."""
_LONGEST_ANNOTATION = 4000
_BUSY_SECONDS = 2

_NOT_IN_QUALIFIED_NAMES = re.compile(r"[^A-Za-z0-9_.-]+")
_LONGEST_QUALIFIED_NAME = 63


def encode(decision: Decision, entry: Entry, request: Request) -> dict[str, Any]:
    """The AdmissionReview for a decision.

    Only entries that mutate return a patch, always with a `patchType`: the API server turns anything else into a failed
    call. Source: k8s.io/apiserver pkg/admission/plugin/webhook/request/admissionreview.go.
    """
    response: dict[str, Any] = {"uid": request.uid, "allowed": decision.allowed}
    if not decision.allowed:
        response["status"] = _refusal(decision, request)
    elif entry.mutating and decision.patch:
        response["patch"] = base64.b64encode(orjson.dumps(decision.patch)).decode()
        response["patchType"] = "JSONPatch"
    if warnings := decision.warnings:
        response["warnings"] = list(warnings)
    if annotations := decision.audit_annotations:
        response["auditAnnotations"] = _annotations(annotations)
    return _review(response)


def encode_failure(entry: Entry, request: Request, what: str, identifier: str) -> dict[str, Any]:
    """The AdmissionReview for a review without a decision.

    Entries with failure policy Fail refuse the request. All others allow it with a warning, because the API server
    treats every refusal as one, whatever its code and the failure policy are.

    Args:
        entry: The entry that was called.
        request: The request that was not reviewed.
        what: The failure, to follow "it": `failed`, `ran out of time`.
        identifier: The id of the details in the log.
    """
    response: dict[str, Any] = {"uid": request.uid, "allowed": entry.failure_policy == "Ignore"}
    if entry.failure_policy == "Ignore":
        text = f"{entry.webhook} has not reviewed this: it {what}; the id in its log is {identifier}"
        response["warnings"] = list(warning_lines([text]))
    else:
        message = (
            f"no decision: the webhook {what}; try again, and if that does not help, show your administrator "
            f"the id {identifier}, which the webhook's log has the details under"
        )
        response["status"] = {"status": "Failure", "code": 500, "reason": "InternalError", "message": message}
    response["auditAnnotations"] = {"failure": identifier}
    return _review(response)


def encode_busy(request: Request) -> dict[str, Any]:
    """The AdmissionReview for a request that did not get its turn before its deadline."""
    message = (
        f"too many requests: this one was not reviewed in time, because others that take long came first; try again in "
        f"{_BUSY_SECONDS} s"
    )
    return _refusal_with(request, _later(message, _BUSY_SECONDS))


def encode_too_large(request: Request, why: str) -> dict[str, Any]:
    """The AdmissionReview for an object that is not reviewed because of its size.

    Without a response, an entry that fails open would admit the object, so padding would bypass every rule.

    Args:
        request: The request.
        why: What is too large, to follow "its AdmissionReview".
    """
    message = f"the object is too large to be reviewed: its AdmissionReview {why}; make the object smaller"
    status = {"status": "Failure", "code": 413, "reason": "RequestEntityTooLarge", "message": message}
    return _refusal_with(request, status)


def encode_refused_template(request: Request, refused: RefusedTemplate) -> dict[str, Any]:
    """The AdmissionReview for a pod whose template the API server refuses.

    Contains the API server's reason, because users can act on it, and its delay for a retry.
    """
    error = refused.error
    said = _one_line(error.message, _LONGEST_LINE).rstrip(".")
    needs = f'the pod needs the ResourceClaimTemplate "{refused.template.name}"'
    status: dict[str, Any]
    if error.is_too_many_requests:
        seconds = max(1, math.ceil(error.retry_after or 1))
        message = f"{needs}, and the API server has no time to create it: {said}; try again in {seconds} s"
        status = _later(message, seconds)
    else:
        message = (
            f"{needs}, and the API server does not let the webhook create it: {said}; "
            "try again when that is fixed, or ask your administrator to fix it"
        )
        status = {"status": "Failure", "code": 403, "reason": "Forbidden", "message": message}
    return _refusal_with(request, status)


def encode_limited_template(request: Request, limited: TooManyTemplates) -> dict[str, Any]:
    """The AdmissionReview for a pod that needs a new template after its namespace reached the limit."""
    message = (
        f'the pod needs the ResourceClaimTemplate "{limited.template.name}", which does not exist, and {limited}; try '
        f"again in {limited.seconds} s; pods with the same container names and GPU requests share a template"
    )
    return _refusal_with(request, _later(message, limited.seconds))


def _refusal_with(request: Request, status: dict[str, Any]) -> dict[str, Any]:
    return _review({"uid": request.uid, "allowed": False, "status": status})


def _review(response: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": API_VERSION, "kind": KIND, "response": response}


def _refusal(decision: Decision, request: Request) -> dict[str, Any]:
    denials = decision.denials
    lines, more, room = list[str](), "", _LONGEST_MESSAGE
    for line in refusal_lines(denials):
        room -= len(line)
        if room < 0:
            break
        lines.append(line)
    unseen = len(denials) - len(lines) + decision.left_out
    if unseen:
        more = f"and {format_count(unseen, 'more finding')}; put these right first"
    elif len(lines) > 1:
        more = "gpu-admission review shows all reasons"
    message = "\n".join([*lines, more] if more else lines)
    if decision.retry_after is not None:
        return _later(message, decision.retry_after)
    if not all(finding.rule.names_fields for finding in denials):
        return {"status": "Failure", "code": 403, "reason": "Forbidden", "message": message}
    causes = [
        {
            "reason": "FieldValueInvalid",
            "field": _one_line(str(finding.path), _LONGEST_LINE) or "(the whole object)",
            "message": line,
        }
        for finding, line in zip(denials[: len(lines)], refusal_lines(denials, with_paths=False), strict=False)
    ]
    if more:
        causes.append({"reason": "FieldValueInvalid", "field": "(all)", "message": more})
    details = {"group": request.group, "kind": request.kind, "name": name_in(request), "causes": causes}
    return {"status": "Failure", "code": 422, "reason": "Invalid", "message": message, "details": details}


def _later(message: str, seconds: int) -> dict[str, Any]:
    details = {"retryAfterSeconds": seconds}
    return {"status": "Failure", "code": 429, "reason": "TooManyRequests", "message": message, "details": details}


def _one_line(text: str, longest: int) -> str:
    text = printable(text)
    return text if len(text) <= longest else text[: longest - 1] + "…"


def _annotations(annotations: dict[str, str]) -> dict[str, str]:
    """Annotations with keys that the API server accepts; it silently drops all others."""
    legal = {}
    for key, value in annotations.items():
        name = _NOT_IN_QUALIFIED_NAMES.sub("-", key)[:_LONGEST_QUALIFIED_NAME].strip("-_.")
        if name:
            legal[name] = _one_line(value, _LONGEST_ANNOTATION)
    return legal
