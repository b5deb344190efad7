"""The concerns that convert pods, preview and check conversions, and keep updated pods converted."""

from __future__ import annotations

from dataclasses import replace
from functools import cache, partial
from typing import TYPE_CHECKING

from policies.admission.pods import reapplies_pod, review_created_pod
from policies.admission.severities import finish
from policies.conversion.convert import check_conversion, convert
from policies.conversion.converted_pods import conversion_record
from policies.conversion.converted_pods import reapply as reapply_conversion
from policies.conversion.surroundings import existing_device
from policies.conversion.templates import references
from policies.kubernetes.pods import MalformedPodError, Pod
from policies.kubernetes.view import ChangedView
from policies.placement import keep_tolerations, tolerate_gpu_nodes
from policies.placement.place import own_conditions
from policies.placement.selector_misspellings import existing_labels
from policies.placement.wish_annotations import read_wishes
from policies.placement.wish_conflicts import IMPOSSIBLE, wish_problems
from policies.rules.decision import TEMPLATE, Decision

if TYPE_CHECKING:
    from collections.abc import Callable

    from policies.conversion.record import Conversion
    from policies.kubernetes.objects import Object
    from policies.kubernetes.view import ClusterView, Key, Unknown
    from policies.placement.pod_wishes import PodWishes
    from policies.rules.request import Request
    from policies.rules.settings import GPUAdmissionPolicy


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
        consequence = "" if conversion.repeated else "so the pod is not converted"
        findings = tuple(replace(obstacle, consequence=consequence) for obstacle in conversion.obstacles)
        return Decision(findings=findings, object=request.object)
    notices = conversion.notices
    if conversion.record is not None and not conversion.repeated:
        problems = tuple(wish_problems(pod, view, wishes))
        if any(problem.rule in IMPOSSIBLE for problem in problems):
            # No device can ever meet the wish, so a missing device is no news.
            notices = tuple(notice for notice in notices if notice.rule is not existing_device.rule)
        notices = (*wishes.findings, *problems, *notices)
        is_matched = all(notice.rule is not existing_device.rule for notice in notices)
        notices = (*existing_labels(own, view, is_converted=True, is_matched=is_matched), *notices)
    if conversion.edits is None:
        return Decision(findings=tuple(notices), object=request.object)
    edits = conversion.edits
    if conversion.record is not None:
        tolerate_gpu_nodes(pod, edits, request.namespace, settings)
    return Decision(
        findings=tuple(notices),
        patch=tuple(edits.operations),
        object=edits.document,
        templates=(conversion.template,) if conversion.template else (),
        annotations={"template": conversion.template.name} if conversion.template else {},
    )


@review_created_pod
def preview(pod: Pod, request: Request, view: ClusterView, settings: GPUAdmissionPolicy) -> Decision:
    """The conversion that a pod would have; `finish` makes warnings of it."""
    wishes = read_wishes(pod, request.namespace, view, settings)
    own = own_conditions(pod, view, settings, wishes)
    return _converted_pod(own, own, wishes, request.of(own.document), view, settings)


@review_created_pod
def conversion_check(pod: Pod, request: Request, view: ClusterView, settings: GPUAdmissionPolicy) -> Decision:
    """Findings if a pod that must be converted is not, or differs from its conversion."""

    def convert_now() -> Conversion:
        wishes = read_wishes(pod, request.namespace, view, settings)
        own = own_conditions(pod, view, settings, wishes)
        return convert(pod, request.namespace, view, settings, wishes.wish, own)

    return Decision(findings=tuple(check_conversion(pod, settings, convert_now)), object=request.object)


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
    return Decision(findings=tuple(answer.findings), patch=tuple(answer.edits.operations), object=answer.edits.document)


def with_own_templates(request: Request, view: ClusterView, settings: GPUAdmissionPolicy) -> ClusterView:
    """The cluster with the templates of a pod that is being converted, which a cache may not show yet.

    Only templates that the conversion of the pod makes are added, so a forged record adds none.
    """
    keys = [(TEMPLATE, request.namespace, name) for name in references(request.object or {})]
    missing = [key for key in keys if not isinstance(view.get(TEMPLATE, key[2], request.namespace), dict)]
    if not missing:
        return view
    made = cache(partial(_own_templates, request, view, settings))
    return ChangedView(view, {key: partial(_own_template, key, made, view) for key in missing})


def _own_templates(request: Request, view: ClusterView, settings: GPUAdmissionPolicy) -> dict[Key, Object]:
    converted = finish("conversion", conversion(request, view, settings), request, settings)
    return {each.key: each.manifest() for each in converted.templates}


def _own_template(key: Key, made: Callable[[], dict[Key, Object]], view: ClusterView) -> Object | Unknown | None:
    kind, namespace, name = key
    return made().get(key) or view.get(kind, name, namespace)
