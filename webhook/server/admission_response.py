"""The response of an AdmissionReview v1, with messages that kubectl prints and users can act on.

Refusals of policy are 403 Forbidden; kubectl prints the message line by line. Refusals of a configuration are 422
Invalid with a cause for each field, like the API server's own validation. kubectl prints the causes without the
message; events and controllers show the message without the causes, so the response has both. Temporary refusals are
429 TooManyRequests, after which Kubernetes clients retry by themselves.
"""

from __future__ import annotations

import base64
import math
import re
from typing import TYPE_CHECKING, Any

import orjson

from policies.kubernetes.names import printable
from policies.rules.decision import warning_lines
from webhook.server.admission_review import API_VERSION, KIND, name_in

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from policies.admission.webhooks import Entry
    from policies.rules.decision import Decision, Finding
    from policies.rules.request import Request
    from webhook.server.template_keeper import RefusedTemplate, TooManyTemplates

__all__ = ["encode", "encode_busy", "encode_failure", "encode_refused_template", "encode_too_large"]

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
    lines, more = _limit_lines(denials, lambda finding: _line(finding.text, finding.rule.id))
    if decision.left_out:
        unseen = len(denials) - len(lines) + decision.left_out
        more = f"and {unseen:,} more findings; put these right first"
    message = "\n".join([*lines, more] if more else lines)
    if decision.retry_after is not None:
        return _later(message, decision.retry_after)
    if not all(finding.rule.names_fields for finding in denials):
        return {"status": "Failure", "code": 403, "reason": "Forbidden", "message": message}
    causes = [
        {
            "reason": "FieldValueInvalid",
            "field": _one_line(str(finding.path), _LONGEST_LINE) or "(the whole object)",
            "message": _line(
                f"{finding.message}; {finding.remedy}" if finding.remedy else finding.message, finding.rule.id
            ),
        }
        for finding in denials[: len(lines)]
    ]
    if more:
        causes.append({"reason": "FieldValueInvalid", "field": "(not shown)", "message": more})
    details = {"group": request.group, "kind": request.kind, "name": name_in(request), "causes": causes}
    return {"status": "Failure", "code": 422, "reason": "Invalid", "message": message, "details": details}


def _later(message: str, seconds: int) -> dict[str, Any]:
    details = {"retryAfterSeconds": seconds}
    return {"status": "Failure", "code": 429, "reason": "TooManyRequests", "message": message, "details": details}


def _limit_lines(denials: Sequence[Finding], write: Callable[[Finding], str]) -> tuple[list[str], str]:
    """The lines that fit into a refusal, and a line about the number of the others."""
    lines: list[str] = []
    room = _LONGEST_MESSAGE
    for finding in denials:
        line = write(finding)
        room -= len(line)
        if room < 0:
            return lines, f"and {len(denials) - len(lines)} more; gpu-admission review shows them all"
        lines.append(line)
    return lines, ""


def _line(text: str, rule: str) -> str:
    return f"{_one_line(text, _LONGEST_LINE)} [{rule}]"


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
