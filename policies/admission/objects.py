"""Reviews of whole objects: by all webhooks, with the pods that a workload creates, as one result."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from policies.admission.all_rules import rule_book
from policies.admission.coverage import find_gap, reviewed_kind, unique_keys
from policies.admission.pods import accepted_fields
from policies.admission.reviews import review
from policies.admission.severities import finish, judged_findings
from policies.admission.webhooks import ENTRIES
from policies.admission.workloads import WorkloadPods, not_reviewed, shortage
from policies.fleet import may_request_gpu
from policies.kubernetes.objects import FieldPath, lookup
from policies.kubernetes.pod_templates import template_of
from policies.kubernetes.pod_validation import refused_workload_fields
from policies.rules.decision import Decision, Severity
from policies.rules.patch import Editor
from policies.rules.settings.exemptions import NEVER_MATCHED
from policies.rules.waivers import has_waivers, once_per_cause, unmatched_waivers

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from policies.kubernetes.objects import Object
    from policies.kubernetes.pod_templates import PodTemplate
    from policies.kubernetes.pod_validation import FieldProblem
    from policies.kubernetes.view import ClusterView
    from policies.rules.charges import ChargeRequest
    from policies.rules.decision import Finding, Operation, Template
    from policies.rules.request import Request
    from policies.rules.settings import GPUAdmissionPolicy


Verdict = Literal["admitted", "refused", "not reviewed"]


@dataclass(frozen=True, slots=True)
class Refusal:
    """A refusal of an object, or of the pods of one of its templates."""

    webhook: str
    """Empty if only an offline review finds the problem."""
    findings: tuple[Finding, ...]
    of_pods: bool
    """True if the object itself is admitted, and the pods of its controller are refused."""
    is_later: bool = False
    """True if the refusal is temporary, so that the API server says when to retry."""


@dataclass(frozen=True, slots=True)
class ObjectReview:
    """The review of an object and of the pods that it creates; all paths are paths of the object."""

    request: Request
    after: Object | None
    """The admitted object; the templates of a workload are shown as its pods would be admitted."""
    findings: tuple[Finding, ...]
    remarks: tuple[str, ...]
    """More warnings for the author."""
    patch: tuple[Operation, ...]
    """The change from `request.object` to `after`."""
    templates: tuple[Template, ...]
    refusals: tuple[Refusal, ...]
    not_reviewed: str
    """The reason for which no rule reviewed the object; empty if it was reviewed."""
    requested: tuple[tuple[ChargeRequest, int], ...] = ()
    """The charges that it requests of the quota of its namespace, also if it is refused, each with the number of pods."""
    left_out: int = 0
    """Findings beyond the maximum of one decision."""

    @property
    def warnings(self) -> tuple[str, ...]:
        """The warnings that kubectl prints."""
        return Decision(findings=self.findings, remarks=self.remarks, left_out=self.left_out).warnings

    @property
    def charges(self) -> tuple[tuple[ChargeRequest, int], ...]:
        """The charges to the quota of the namespace, in the form of `requested`; none if it is refused."""
        return () if self.is_refused else self.requested

    @property
    def before(self) -> Object | None:
        """The object before admission."""
        return self.request.object

    @property
    def is_refused(self) -> bool:
        """True if the object or its pods are refused."""
        return bool(self.refusals)

    @property
    def is_problem(self) -> bool:
        """True if the object is refused, has a warning, or mentions GPUs and was not reviewed."""
        return self.is_refused or bool(self.warnings) or self.misses_gpus

    @property
    def verdict(self) -> Verdict:
        """The verdict on the object."""
        if self.is_refused:
            return "refused"
        return "not reviewed" if self.not_reviewed else "admitted"

    @property
    def change(self) -> Literal["", "changed", "converted"]:
        """The effect on the object, or on its pods if a template is composed of several fields."""
        if self.templates:
            return "converted"
        return "changed" if self.patch else ""

    @property
    def misses_gpus(self) -> bool:
        """True if the object was not reviewed, and a warning says where it mentions GPUs."""
        return self.verdict == "not reviewed" and any(
            finding.rule is reviewed_kind.rule and finding.severity is Severity.WARN and not finding.waived
            for finding in self.findings
        )


@dataclass(frozen=True, slots=True)
class _Part:
    """The review of the subject itself, or of the pods of one of its templates."""

    template: PodTemplate | None
    """None for the subject itself."""
    decision: Decision
    patch: tuple[Operation, ...]


def review_object(
    request: Request,
    view: ClusterView,
    settings: GPUAdmissionPolicy,
    duplicates: Mapping[FieldPath, Sequence[int]] | None = None,
) -> ObjectReview:
    """Review an object as all webhooks would, and the pods of a workload as they would be created.

    Args:
        request: The request that the API server would send about the object.
        view: The cluster.
        settings: The administrator's settings.
        duplicates: The lines of each key that the manifest has more than once, by the path of its value.
    """
    is_skipped = request.operation == "DELETE" or request.namespace in NEVER_MATCHED
    pods = WorkloadPods(request, view, settings, review)
    of_templates = () if is_skipped else pods.now
    decision = _review_workload(pods) if of_templates else review(request, view, settings)
    parts = [_Part(None, decision, decision.patch)]
    edits = Editor(decision.object)
    for pod in of_templates:
        answer, found = pods.decision(pod), pod.template
        parts.append(_Part(found, answer, tuple(_patch_of_workload(answer.patch, found))))
        if answer.patch and answer.object is not None:
            _write(edits, found, template_of(answer.object, found.template))
    reported = once_per_cause([_findings(part) for part in parts], "pod template")
    decided = dict.fromkeys(finding for part in reported for finding in part)
    findings = judged_findings(unique_keys(duplicates or {}), request, settings, settled=decided)
    if not decision.not_reviewed:
        unmatched = _unmatched_in_pods(parts, request, view, settings)
        findings = (*findings, *_findings_on_waivers(findings, request, view, settings), *unmatched)
    denials = tuple(each for each in findings if each.severity is Severity.DENY and each not in decided)
    refusals = (
        *([Refusal("", denials, of_pods=False)] if denials else ()),
        *(_refusal(part) for part in parts if not part.decision.allowed),
    )
    left_out = sum(part.decision.left_out for part in parts)
    remarks = tuple(dict.fromkeys(remark for part in parts for remark in part.decision.remarks))
    return ObjectReview(
        request,
        after=request.object if refusals else edits.document,
        findings=findings,
        remarks=remarks,
        patch=() if refusals else tuple(operation for part in parts for operation in part.patch),
        templates=()
        if refusals
        else tuple({each.key: each for part in parts for each in part.decision.templates}.values()),
        refusals=refusals,
        not_reviewed="" if refusals else decision.not_reviewed,
        requested=tuple(_charges(parts)),
        left_out=left_out,
    )


def _review_workload(pods: WorkloadPods) -> Decision:
    """The review of a workload as a whole; its pods are reviewed one by one."""
    request, view, settings = pods.request, pods.view, pods.settings
    gap = find_gap(request, view, settings)
    refused = accepted_fields(_refused_fields(pods))
    findings = (*shortage(pods), *refused, *(() if gap is None else gap.findings))
    remarks = tuple(not_reviewed(request.object, view, settings)) if gap is None else ()
    said = Decision(findings=findings, object=request.object, remarks=remarks)
    return replace(finish("workloads", said, request, settings), not_reviewed="" if gap is None else gap.reason)


def _unmatched_in_pods(
    parts: Iterable[_Part], request: Request, view: ClusterView, settings: GPUAdmissionPolicy
) -> Iterator[Finding]:
    """Findings on waivers of pod templates that match none of the findings on the pods of that template."""
    for part in parts:
        if part.template is not None:
            answer = part.decision
            for finding in _findings_on_waivers(answer.findings, request.of(answer.object), view, settings):
                yield replace(finding, path=part.template.home(finding.path))


def _refused_fields(pods: WorkloadPods) -> Iterator[FieldProblem]:
    """The selector and restart policy with which no API server stores a workload that requests GPUs."""
    request, document = pods.request, pods.now[0].document
    if request.object is not None and may_request_gpu(document):
        restart, labels = lookup(document, ("spec", "restartPolicy")), lookup(document, ("metadata", "labels"))
        yield from refused_workload_fields(request.group, request.kind, request.object, restart, labels)


def _findings_on_waivers(
    findings: Iterable[Finding], request: Request, view: ClusterView, settings: GPUAdmissionPolicy
) -> tuple[Finding, ...]:
    return unmatched_waivers(findings, request, view, settings, rule_book()) if has_waivers(request) else ()


def _findings(part: _Part) -> tuple[Finding, ...]:
    if part.template is None:
        return part.decision.findings
    home = part.template.home
    return tuple(replace(finding, path=home(finding.path)) for finding in part.decision.findings)


def _charges(parts: Iterable[_Part]) -> Iterator[tuple[ChargeRequest, int]]:
    for part in parts:
        count = part.template.count if part.template is not None else None
        yield from ((charge, count.pods if count is not None else 1) for charge in part.decision.charges)


def _refusal(part: _Part) -> Refusal:
    denials = tuple(finding for finding in _findings(part) if finding.severity is Severity.DENY)
    entry = denials[0].entry
    is_later = part.decision.retry_after is not None
    return Refusal(ENTRIES[entry].webhook if entry else "", denials, part.template is not None, is_later)


def _write(edits: Editor, found: PodTemplate, template: Object) -> None:
    """Write a changed template into the workload."""
    for path, value in found.edits(template):
        if lookup(edits.document, path) is None:
            edits.add(path, value)
        else:
            edits.replace(path, value)


def _patch_of_workload(patch: Iterable[Operation], found: PodTemplate) -> list[Operation]:
    """The patch of a pod as a patch of its workload; empty if the template is composed."""
    if found.is_composed:
        return []
    homes = [(FieldPath(inside).pointer(), outside.pointer()) for inside, outside in found.homes]
    operations: list[Any] = [
        {**operation, "path": outside + operation["path"].removeprefix(inside)}
        for operation in patch
        for inside, outside in homes
        if f"{operation['path']}/".startswith(f"{inside}/")
    ]
    marks = f"{found.path.pointer()}/metadata"
    is_missing = found.template.get("metadata") is None
    if is_missing and any(operation["path"].startswith(f"{marks}/") for operation in operations):
        return [{"op": "add", "path": marks, "value": {}}, *operations]
    return operations
