"""Entries that convert pods, preview it, check it, and keep converted pods as they are."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from policies.causes import without_repeats
from policies.conversion.check import check
from policies.conversion.convert import convert
from policies.conversion.converted_pods import conversion_record
from policies.conversion.reapply import reapply as reapply_conversion
from policies.conversion.record import ConversionRecord
from policies.conversion.satisfaction import UNSATISFIABLE
from policies.decision import Decision, Severity
from policies.kubernetes.paths import lookup
from policies.kubernetes.pods import MalformedPodError, Pod
from policies.metadata_keys import RECORD
from policies.nvidia.resources import IMPLICIT_PREFIX
from policies.placement import keep_tolerations, tolerate_gpu_nodes
from policies.placement.place import own_conditions
from policies.placement.selector_misspellings import selector_misspellings
from policies.placement.wishes import read_wishes, wish_problems
from policies.placement.wishes.conflicts import IMPOSSIBLE
from policies.review.pods import reapplies_pod, review_created_pod

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from policies.decision import Finding
    from policies.placement.wishes.pod_wishes import PodWishes
    from policies.request import Request
    from policies.settings import GPUAdmissionPolicy
    from policies.view import ClusterView

__all__ = ["conversion", "conversion_check", "preview", "reapply"]


@review_created_pod
def conversion(pod: Pod, request: Request, view: ClusterView, settings: GPUAdmissionPolicy) -> Decision:
    """The pod converted to claims, with the template that it refers to; as it is if something prevents it."""
    wishes = read_wishes(pod, request.namespace, view, settings)
    return _converted_pod(pod, own_conditions(pod, view, settings, wishes), wishes, request, view, settings)


def _converted_pod(
    pod: Pod, own: Pod, wishes: PodWishes, request: Request, view: ClusterView, settings: GPUAdmissionPolicy
) -> Decision:
    conversion = convert(pod, request.namespace, view, settings, wishes.wish, own)
    if conversion.obstacles:
        findings = settings.judge(conversion.obstacles, request.namespace)
        told = findings if conversion.repeated else tuple(map(_left_alone, findings))
        return Decision(findings=told, object=request.object)
    notices = conversion.notices
    if conversion.record is not None and not conversion.repeated:
        problems = tuple(wish_problems(pod, request.namespace, view, wishes))
        if any(problem.rule in IMPOSSIBLE for problem in problems):
            # No device will ever be as wished, so there is nothing to wait for.
            notices = tuple(notice for notice in notices if notice.rule is not UNSATISFIABLE)
        notices = (*wishes.findings, *problems, *notices)
        is_matched = all(notice.rule is not UNSATISFIABLE for notice in notices)
        notices = (*selector_misspellings(pod, view, keys_only=is_matched), *notices)
    findings = without_repeats(settings.judge(notices, request.namespace), request.object)
    decision = Decision(findings=findings, object=request.object)
    if conversion.edits is None or not decision.allowed:
        return decision
    edits = conversion.edits
    if conversion.record is not None:
        tolerate_gpu_nodes(pod, edits, request.namespace, settings)
    templates = (conversion.template,) if conversion.template else ()
    annotations = {"template": conversion.template.name} if conversion.template else {}
    return replace(
        decision,
        patch=tuple(edits.operations),
        object=edits.document,
        templates=templates,
        annotations=annotations,
    )


def _left_alone(obstacle: Finding) -> Finding:
    """What stands in the way of a conversion and refuses nothing leaves the pod as it is, and says so."""
    if obstacle.severity is Severity.DENY:
        return obstacle
    return replace(obstacle, message=f"{obstacle.message}, so the pod is not converted")


@review_created_pod
def preview(pod: Pod, request: Request, view: ClusterView, settings: GPUAdmissionPolicy) -> Decision:
    """What conversion would do, as warnings; nothing is changed and nothing refused.

    What is wrong with a wish is left to `placement`, which is asked about the same pod and says it as it is there.
    """
    wishes = read_wishes(pod, request.namespace, view, settings)
    own = own_conditions(pod, view, settings, wishes)
    would = _converted_pod(own, own, wishes, request.of(own.document), view, settings)
    said = [
        replace(finding, severity=Severity.WARN, message=f"would be refused: {finding.message}")
        if finding.severity is Severity.DENY
        else finding
        for finding in would.findings
        if finding.rule.subject != "placement"
    ]
    remarks = [
        f"would be converted to ResourceClaimTemplate {template.name}: "
        + ", ".join(
            f"{request['exactly']['count']} x {request['exactly']['deviceClassName']} ({request['name']})"
            for request in template.spec["spec"]["devices"]["requests"]
        )
        for template in would.templates
        if would.patch
    ]
    if would.patch and not would.templates:
        remarks = [f"would be renamed: {told}" for told in _new_names(would.object)]
    return Decision(findings=tuple(said), object=request.object, remarks=tuple(remarks))


def _new_names(document: Any) -> Iterator[str]:
    """The new names of a renamed pod's resources, from its record."""
    record = ConversionRecord.parse(lookup(document, ("metadata", "annotations", RECORD)) or "")
    for resource, name in record.classes.items() if record is not None else ():
        yield f"{resource} to {IMPLICIT_PREFIX}{name}"


@review_created_pod
def conversion_check(pod: Pod, request: Request, view: ClusterView, settings: GPUAdmissionPolicy) -> Decision:
    """Findings if a pod that must be converted is not, or not as conversion does it."""
    wishes = read_wishes(pod, request.namespace, view, settings)
    own = own_conditions(pod, view, settings, wishes)
    findings = check(pod, request.namespace, view, settings, wishes.wish, own)
    return Decision(findings=settings.judge(findings, request.namespace), object=request.object)


def reapply(request: Request, view: ClusterView, settings: GPUAdmissionPolicy) -> Decision:
    """Converted pods whose manifest is applied again: they stay as they were converted."""
    unchanged = Decision(object=request.object)
    if not reapplies_pod(request):
        return unchanged
    try:
        pod, stored = Pod.read(request.object), Pod.read(request.old_object)
    except MalformedPodError:
        return unchanged
    record = conversion_record(stored, request.namespace)
    if record is None:
        return unchanged
    answer = reapply_conversion(pod, stored, record)
    if answer.restored:
        keep_tolerations(pod, stored, answer.edits, request.namespace, settings)
    decision = Decision(findings=settings.judge(answer.findings, request.namespace), object=request.object)
    if not decision.allowed:
        return decision
    return replace(decision, patch=tuple(answer.edits.operations), object=answer.edits.document)
