"""The entries that convert pods, preview and check the conversion, and keep updated pods converted."""

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

    from policies.conversion.conversion import Conversion
    from policies.decision import Finding
    from policies.placement.wishes.pod_wishes import PodWishes
    from policies.request import Request
    from policies.settings import GPUAdmissionPolicy
    from policies.view import ClusterView

__all__ = ["conversion", "conversion_check", "preview", "reapply"]


@review_created_pod
def conversion(pod: Pod, request: Request, view: ClusterView, settings: GPUAdmissionPolicy) -> Decision:
    """The pod converted to claims, with its template; unchanged, with findings, if it cannot be converted."""
    wishes = read_wishes(pod, request.namespace, view, settings)
    return _converted_pod(pod, own_conditions(pod, view, settings, wishes), wishes, request, view, settings)


def _converted_pod(
    pod: Pod, own: Pod, wishes: PodWishes, request: Request, view: ClusterView, settings: GPUAdmissionPolicy
) -> Decision:
    conversion = convert(pod, request.namespace, view, settings, wishes.wish, own)
    if conversion.obstacles:
        findings = settings.judge(conversion.obstacles, request.namespace)
        if not conversion.repeated:
            findings = tuple(map(_left_alone, findings))
        return Decision(findings=findings, object=request.object)
    notices = conversion.notices
    if conversion.record is not None and not conversion.repeated:
        problems = tuple(wish_problems(pod, view, wishes))
        if any(problem.rule in IMPOSSIBLE for problem in problems):
            # No device can ever meet the wish, so a missing device is no news.
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
    """The obstacle, with the consequence that the pod is not converted if it does not refuse the pod."""
    if obstacle.severity is Severity.DENY:
        return obstacle
    return replace(obstacle, message=f"{obstacle.message}, so the pod is not converted")


@review_created_pod
def preview(pod: Pod, request: Request, view: ClusterView, settings: GPUAdmissionPolicy) -> Decision:
    """Warnings that say what conversion would do; nothing is changed and nothing refused.

    `placement` reviews the same pod and reports what is wrong with its wish.
    """
    wishes = read_wishes(pod, request.namespace, view, settings)
    own = own_conditions(pod, view, settings, wishes)
    converted = _converted_pod(own, own, wishes, request.of(own.document), view, settings)
    findings = [
        finding.as_announcement("would be refused") if finding.severity is Severity.DENY else finding
        for finding in converted.findings
        if finding.rule.subject != "placement"
    ]
    remarks = [
        f"would be converted to ResourceClaimTemplate {template.name}: "
        + ", ".join(
            f"{request['exactly']['count']} x {request['exactly']['deviceClassName']} ({request['name']})"
            for request in template.spec["spec"]["devices"]["requests"]
        )
        for template in converted.templates
        if converted.patch
    ]
    if converted.patch and not converted.templates:
        remarks = [f"would be renamed: {names}" for names in _renamed_resources(converted.object)]
    return Decision(findings=tuple(findings), object=request.object, remarks=tuple(remarks))


def _renamed_resources(document: Any) -> Iterator[str]:
    """The old and new names of a renamed pod's resources, from its record: `OLD to NEW`."""
    record = ConversionRecord.parse(lookup(document, ("metadata", "annotations", RECORD)) or "")
    for resource, name in record.classes.items() if record is not None else ():
        yield f"{resource} to {IMPLICIT_PREFIX}{name}"


@review_created_pod
def conversion_check(pod: Pod, request: Request, view: ClusterView, settings: GPUAdmissionPolicy) -> Decision:
    """Findings if a pod that must be converted is not, or differs from its conversion."""

    def convert_now() -> Conversion:
        wishes = read_wishes(pod, request.namespace, view, settings)
        own = own_conditions(pod, view, settings, wishes)
        return convert(pod, request.namespace, view, settings, wishes.wish, own)

    findings = check(pod, settings, convert_now)
    return Decision(findings=settings.judge(findings, request.namespace), object=request.object)


def reapply(request: Request, view: ClusterView, settings: GPUAdmissionPolicy) -> Decision:
    """The update of a converted pod, with what the conversion wrote restored."""
    unchanged = Decision(object=request.object)
    if not reapplies_pod(request):
        return unchanged
    try:
        pod, stored = request.pod, Pod.read(request.old_object)
    except MalformedPodError:
        return unchanged
    record = conversion_record(stored)
    if record is None:
        return unchanged
    answer = reapply_conversion(pod, stored, record)
    if answer.restored:
        keep_tolerations(pod, stored, answer.edits, request.namespace, settings)
    decision = Decision(findings=settings.judge(answer.findings, request.namespace), object=request.object)
    if not decision.allowed:
        return decision
    return replace(decision, patch=tuple(answer.edits.operations), object=answer.edits.document)
