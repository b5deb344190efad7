"""AdmissionReview v1: requests to webhooks, and validation of their answers.

Source: k8s.io/apiserver pkg/admission/plugin/webhook/request/admissionreview.go.
"""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import orjson

if TYPE_CHECKING:
    from collections.abc import Mapping

    from policies.kubernetes.objects import Object
    from webhook.sandbox.statuses import Attempt


_API_VERSION = "admission.k8s.io/v1"
_KIND = "AdmissionReview"
_RESPONSE_TYPES = {
    "uid": ("string", str),
    "allowed": ("bool", bool),
    "patch": ("[]uint8", str),
    "patchType": ("v1.PatchType", str),
    "auditAnnotations": ("map[string]string", dict),
    "warnings": ("[]string", list),
    "status": ("v1.Status", dict),
}
_STATUS_TYPES = {
    "status": ("string", str),
    "message": ("string", str),
    "reason": ("v1.StatusReason", str),
    "details": ("v1.StatusDetails", dict),
    "code": ("int32", int),
}


class BadAnswer(ValueError):  # noqa: N818 - the name is a statement
    """An answer is not an AdmissionReview, or not for this request; the text says why."""


class UnreadableAnswer(BadAnswer):
    """A field of an answer has a wrong type, which the API server handles as a failed call."""


class BadPatchText(ValueError):  # noqa: N818 - the name is a statement
    """A patch must be a JSON list of operations."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer of a webhook."""

    allowed: bool
    status: dict[str, Any] | None
    patch: bytes
    patch_type: str
    warnings: tuple[str, ...]
    annotations: dict[str, str]

    def operations(self) -> list[Any]:
        """The operations of its patch.

        Raises:
            BadPatchText: The patch is not a JSON list of objects.
        """
        if not self.patch:
            return []
        try:
            operations = orjson.loads(self.patch)
        except orjson.JSONDecodeError as error:
            raise BadPatchText(str(error)) from None
        if not isinstance(operations, list) or not all(isinstance(operation, dict) for operation in operations):
            raise BadPatchText(f"json: cannot unmarshal {_go_kind(operations)} into Go value of type jsonpatch.Patch")
        return operations


def request_of(attempt: Attempt) -> dict[str, Any]:
    """The request of a review for matchConditions, without UID, objects and empty fields."""
    # The kind of the sent object: a Binding for pods/binding, a Pod for pods/status.
    sent: Object = attempt.object or attempt.old_object or {}
    group, _, version = (sent.get("apiVersion") or attempt.resource.api_version).rpartition("/")
    kind = {"group": group, "version": version, "kind": sent.get("kind") or attempt.resource.kind}
    user = {"username": attempt.user.name, "uid": attempt.user.uid, "groups": list(attempt.user.groups)}
    resource = {
        "group": attempt.resource.group,
        "version": attempt.resource.version,
        "resource": attempt.resource.plural,
    }
    request: dict[str, Any] = {
        "kind": kind,
        "resource": resource,
        "subResource": attempt.subresource,
        "requestKind": kind,
        "requestResource": resource,
        "requestSubResource": attempt.subresource,
        "name": attempt.name,
        "namespace": attempt.namespace,
        "operation": attempt.operation,
        "userInfo": {key: value for key, value in user.items() if value},
        "dryRun": attempt.dry_run,
        "options": attempt.options,
    }
    return {key: value for key, value in request.items() if value not in ("", None)}


def review_of(attempt: Attempt, uid: str) -> bytes:
    """The body of a call; missing objects are null."""
    request = request_of(attempt)
    document = {
        "kind": _KIND,
        "apiVersion": _API_VERSION,
        "request": {
            "uid": uid,
            **{key: value for key, value in request.items() if key not in ("dryRun", "options")},
            "object": attempt.object,
            "oldObject": attempt.old_object,
            "dryRun": request["dryRun"],
            "options": request.get("options"),
        },
    }
    return orjson.dumps(document)


def read_answer(document: Any, uid: str, *, mutating: bool) -> Answer:
    """Parse the JSON answer of a webhook.

    Raises:
        BadAnswer: The API server would not accept it.
    """
    if not isinstance(document, dict):
        what = f"json: cannot unmarshal {_go_kind(document)} into Go value"
        raise BadAnswer(f"couldn't get version/kind; json parse error: {what}")
    response = document.get("response")
    if response is None:
        raise BadAnswer("webhook response was absent")
    _check_types(response)
    if response.get("uid", "") != uid:
        raise BadAnswer(f'expected response.uid="{uid}", got "{response.get("uid", "")}"')
    found = (document.get("apiVersion", ""), document.get("kind", ""))
    if found != (_API_VERSION, _KIND):
        named = f"{found[0] or '/'}, Kind={found[1]}"
        raise BadAnswer(f"expected webhook response of {_API_VERSION}, Kind={_KIND}, got {named}")
    _check_patch(response, mutating=mutating)
    return Answer(
        allowed=response.get("allowed") is True,
        status=response.get("status"),
        patch=_from_base64(response.get("patch") or ""),
        patch_type=response.get("patchType") or "",
        warnings=tuple(response.get("warnings") or ()),
        annotations=response.get("auditAnnotations") or {},
    )


def _check_types(response: Any) -> None:
    """Check that the answer fits into Go's struct."""
    if not isinstance(response, dict):
        raise UnreadableAnswer(_mismatch(response, "AdmissionReview.response", "v1.AdmissionResponse"))
    _check_fields(response, _RESPONSE_TYPES, "AdmissionResponse.response")
    _check_fields(response.get("status") or {}, _STATUS_TYPES, "Status.response.status")
    texts = [*(response.get("warnings") or ()), *(response.get("auditAnnotations") or {}).values()]
    for text in texts:
        if not isinstance(text, str):
            raise UnreadableAnswer(_mismatch(text, "AdmissionResponse.response", "string"))


def _check_fields(document: dict[str, Any], types: Mapping[str, tuple[str, type]], path: str) -> None:
    for name, (go_type, expected) in types.items():
        value = document.get(name)
        is_number_by_mistake = isinstance(value, bool) and expected is int
        if value is not None and (is_number_by_mistake or not isinstance(value, expected)):
            raise UnreadableAnswer(_mismatch(value, f"{path}.{name}", go_type))


def _check_patch(response: dict[str, Any], *, mutating: bool) -> None:
    patch, patch_type = response.get("patch"), response.get("patchType")
    if not mutating:
        if patch:
            raise BadAnswer("validating webhook may not return response.patch")
        if patch_type is not None:
            raise BadAnswer("validating webhook may not return response.patchType")
    elif patch and patch_type is None:
        raise BadAnswer("webhook returned response.patch but not response.patchType")
    elif not patch and patch_type is not None:
        raise BadAnswer("webhook returned response.patchType but not response.patch")
    elif patch_type == "":
        raise BadAnswer('webhook returned invalid response.patchType of ""')


def _from_base64(patch: str) -> bytes:
    try:
        return base64.b64decode(patch, validate=True)
    except (binascii.Error, ValueError):
        raise UnreadableAnswer("illegal base64 data at input byte 0") from None


def _mismatch(value: object, field: str, go_type: str) -> str:
    return f"json: cannot unmarshal {_go_kind(value)} into Go struct field {field} of type {go_type}"


def _go_kind(value: object) -> str:
    """The name of a JSON type in messages of Go's decoder."""
    kinds = {type(None): "null", bool: "bool", str: "string", list: "array", dict: "object"}
    return kinds.get(type(value), "number")
