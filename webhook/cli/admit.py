"""Admits a subject: asks the policies about it and about the pods that it would make, and joins the answers."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from policies.decision import Decision, Severity
from policies.kubernetes.paths import FieldPath
from policies.kubernetes.workload_pods import home_of, pod_of, template_of
from policies.kubernetes.workloads import pod_templates
from policies.patch import Editor
from policies.request import Request
from policies.review import entries_called, review
from policies.review.quota import Templates
from policies.review.together import pods_together

if TYPE_CHECKING:
    from collections.abc import Iterable

    from policies.decision import Finding, Operation, Template
    from policies.kubernetes.objects import Object
    from policies.settings import GPUAdmissionPolicy
    from policies.view import ClusterView
    from webhook.cli.subjects import Subject

__all__ = ["Refusal", "Result", "admit"]

Verdict = Literal["admitted", "changed", "converted", "refused"]


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why an object, or the pods of one of its templates, would be refused, and by whom."""

    webhook: str
    """Empty where no webhook refuses it, but what only an offline review can find."""
    findings: tuple[Finding, ...]
    of_pods: bool
    """Whether the object itself passes, and its controller is refused the pods."""
    is_later: bool = False
    """Whether it only cannot be now, so that the API server says when to try again."""


@dataclass(frozen=True, slots=True)
class Result:
    """What came of a subject; all paths are places in the subject's object."""

    subject: Subject
    after: Object | None
    """The object as admitted; of a workload, with templates as its pods would be admitted."""
    findings: tuple[Finding, ...]
    warnings: tuple[str, ...]
    patch: tuple[Operation, ...]
    """Leads from `subject.request.object` to `after`."""
    templates: tuple[Template, ...]
    refusals: tuple[Refusal, ...]

    @property
    def before(self) -> Object | None:
        """The object as the webhooks are asked about it."""
        return self.subject.request.object

    @property
    def allowed(self) -> bool:
        """Whether nothing refuses the object or its pods."""
        return not self.refusals

    @property
    def verdict(self) -> Verdict:
        """The result in one word."""
        if not self.allowed:
            return "refused"
        if not self.patch:
            return "admitted"
        return "converted" if self.templates else "changed"


@dataclass(frozen=True, slots=True)
class _Part:
    """The answer to one question: about the subject itself, or about the pods of one of its templates."""

    path: FieldPath
    request: Request
    decision: Decision
    patch: tuple[Operation, ...]


def admit(subject: Subject, view: ClusterView, settings: GPUAdmissionPolicy) -> Result:
    """Review a subject as all webhooks together would, and the pods of a workload as they would be created."""
    request = subject.request
    templates = pod_templates(request.object) if request.operation != "DELETE" else []
    decision = _together(request, view, settings) if templates else review(request, view, settings)
    parts = [_Part(FieldPath(), request, decision, decision.patch)]
    edits = Editor(decision.object)
    for path, template in templates:
        pod = pod_of(template, decision.object, request.namespace)
        asked = Request(object=pod, namespace=request.namespace)
        answer = review(asked, view, settings)
        parts.append(_Part(path, asked, answer, tuple(_rooted(answer.patch, path, template))))
        if answer.patch:
            edits.replace(path, template_of(answer.object, template))
    refusals = tuple(_refusal(part, view, settings) for part in parts if not part.decision.allowed)
    findings = tuple(dict.fromkeys(finding for part in parts for finding in _findings(part)))
    remarks = tuple(dict.fromkeys(remark for part in parts for remark in part.decision.remarks))
    return Result(
        subject,
        after=request.object if refusals else edits.document,
        findings=findings,
        warnings=Decision(findings=findings, remarks=remarks).warnings,
        patch=() if refusals else tuple(operation for part in parts for operation in part.patch),
        templates=() if refusals else _unique(template for part in parts for template in part.decision.templates),
        refusals=refusals,
    )


def _together(request: Request, view: ClusterView, settings: GPUAdmissionPolicy) -> Decision:
    """What the entry `workloads` says of a workload beside what each of its pods is told, and these are asked about."""
    told = pods_together(request, view, settings, lambda pod: review(pod, view, settings))
    return Decision(findings=tuple(told), object=request.object)


def _findings(part: _Part) -> tuple[Finding, ...]:
    return tuple(replace(finding, path=home_of(finding.path, part.path)) for finding in part.decision.findings)


def _refusal(part: _Part, view: ClusterView, settings: GPUAdmissionPolicy) -> Refusal:
    denials = tuple(finding for finding in _findings(part) if finding.severity is Severity.DENY)
    is_later = part.decision.retry_after is not None
    return Refusal(_refusing_webhook(part.request, view, settings), denials, bool(part.path), is_later)


def _refusing_webhook(request: Request, view: ClusterView, settings: GPUAdmissionPolicy) -> str:
    """The webhook that says no first when they are asked one by one."""
    for entry in entries_called(request, view):
        answer = review(replace(request, entry=entry.name), view, settings)
        if not answer.allowed:
            return entry.webhook
        request, view = request.of(answer.object), Templates(view, answer.templates)
    return ""


def _rooted(patch: Iterable[Operation], path: FieldPath, template: Object) -> list[Operation]:
    """The patch of a pod as a patch of the workload that holds its template at `path`."""
    prefix = path.pointer()
    operations: list[Any] = [{**operation, "path": prefix + operation["path"]} for operation in patch]
    marks = f"{prefix}/metadata/"
    if template.get("metadata") is None and any(operation["path"].startswith(marks) for operation in operations):
        return [{"op": "add", "path": f"{prefix}/metadata", "value": {}}, *operations]
    return operations


def _unique(templates: Iterable[Template]) -> tuple[Template, ...]:
    return tuple({(template.namespace, template.name): template for template in templates}.values())
