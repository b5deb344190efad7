"""Reviews of a request by a view: by all entries that are called, by one entry, or by one concern.

This drives the pipeline (`policies.admission.pipeline`) without effects: no template is created, and charges are compared
with the quotas that the view shows. Upkeep finds the templates that pods and workloads need by the same reviews, so that only
templates of conversion are created or kept.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from policies.admission.concerns import judge_concern, judge_configuration
from policies.admission.coverage import OFFLINE_KINDS, find_gap
from policies.admission.pipeline import Charge, Course, Ensure, Finish, Judge, Read, decide
from policies.admission.pods import accepted_fields, creates_pod, known_namespace, reapplies_pod, refused_amounts
from policies.admission.severities import finish, judged_findings
from policies.admission.webhooks import CALLS, CLAIM_KINDS, ENTRIES, WRITES
from policies.admission.workload_templates import templates_of
from policies.conversion.exemptions import Mode, mode_of
from policies.kubernetes.bounds import count_work
from policies.kubernetes.names import MANAGED
from policies.kubernetes.objects import controller_of, has_ended, lookup, namespace_of
from policies.kubernetes.pod_templates import pod_of, with_defaults
from policies.kubernetes.pod_validation import refused_fields
from policies.kubernetes.pods import MalformedPodError
from policies.kubernetes.view import ChangedView
from policies.nvidia.pod_conditions import ChangeCondition, PodCondition
from policies.quota.limits.cluster_quota import has_quota
from policies.rules.decision import Decision
from policies.rules.request import Request
from policies.rules.settings import settings_for
from policies.rules.settings.choices import workload_kinds
from policies.rules.settings.exemptions import NEVER_MATCHED, is_excluded

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from policies.admission.webhooks import Call, Entry
    from policies.conversion.templates import Key
    from policies.kubernetes.objects import Object
    from policies.kubernetes.view import ClusterView
    from policies.rules.decision import Finding, Template
    from policies.rules.request import Concern
    from policies.rules.settings import GPUAdmissionPolicy


def review(request: Request, view: ClusterView, settings: GPUAdmissionPolicy) -> Decision:
    """The decision on a request: whether it is admitted, its patch, findings, templates and charges.

    With `request.entry`, the answer of that webhook entry. Without, the answer of all entries that the API server would
    call, in its order; each concern reviews the object as those before changed it, and `not_reviewed` has the reason if no
    rule looks at the object.
    """
    course = Course.start(request)
    if request.entry:
        _decide_by_view(ENTRIES[request.entry], course, view, settings)
        return course.decision
    called = entries_called(request, view, settings)
    for entry in called:
        _decide_by_view(entry, course, view, settings)
        if not course.decision.allowed:
            break
    decision = course.decision
    if not decision.allowed:
        return _without_changes(decision, request)
    if (request.group, request.kind) == ("", "ConfigMap") and not called:
        # The device plugin reads ConfigMaps of kube-system too, where the API server calls no webhook.
        own = settings_for(request.user, request.namespace, settings)
        judged = judge_configuration(request, view, own)
        decision = decision.then(finish("configuration", judged, request, settings))
    found = [*known_namespace(request, view), *refused_amounts(course.request, view), *_refused_fields(request)]
    gap = find_gap(request, view, settings)
    if gap is not None:
        found += gap.findings
        # The remarks on such a workload would only repeat that its pods are not reviewed.
        decision = replace(decision, remarks=())
    findings = judged_findings(found, request, settings)
    decision = decision.then(Decision(findings=findings, object=decision.object))
    if not decision.allowed:
        decision = _without_changes(decision, request)
    return decision if gap is None else replace(decision, not_reviewed=gap.reason)


def review_concern(concern: Concern, request: Request, view: ClusterView, settings: GPUAdmissionPolicy) -> Decision:
    """The answer of one concern, without effects; charges are not compared with a quota."""
    decision = judge_concern(concern, request, view, settings, review)
    return finish(concern, decision, request, settings)


def judge(step: Judge, view: ClusterView, settings: GPUAdmissionPolicy) -> Decision:
    """The decision of the rules of a step's concern, in a cluster with the objects of the step."""
    seen = ChangedView(view, step.objects) if step.objects else view
    return judge_concern(step.part.concern, step.part.request, seen, settings, review)


def _refused_fields(request: Request) -> Iterator[Finding]:
    """The fields of a new pod with which an API server would not store it."""
    if creates_pod(request) and request.object is not None and request.namespace not in NEVER_MATCHED:
        yield from accepted_fields(refused_fields(request.object))


def _decide_by_view(entry: Entry, course: Course, view: ClusterView, settings: GPUAdmissionPolicy) -> None:
    """Continue a course with an entry; a view answers each step."""
    for step in decide(entry, settings, course, entry.concerns):
        match step:
            # Without a quota nothing is charged, so the rules are neither imported nor run.
            case Judge(part=part) if part.concern == "quota" and not has_quota(part.request.namespace, view):
                step.decision = Decision(object=part.request.object)
            case Judge():
                step.decision = judge(step, view, settings)
            case Finish(part=part, decision=decision):
                step.answer = finish(part.concern, decision, part.request, settings)
            case Charge():
                from policies.quota.counting import outcomes_by_view

                step.outcomes = outcomes_by_view(step.charge, ChangedView(view, step.objects), settings)
            case Ensure() | Read():
                # Later concerns see the templates, and there is nothing else to read.
                pass


def _without_changes(decision: Decision, request: Request) -> Decision:
    return replace(decision, patch=(), object=request.object, templates=())


def entries_called(request: Request, view: ClusterView, settings: GPUAdmissionPolicy) -> tuple[Entry, ...]:
    """The entries that the API server calls for a request, in its order.

    Of the webhooks' conditions, only those of `reapply` and those on what pods request or change are evaluated; a malformed
    pod meets all of these, so that a concern reports it. Kinds that settings add count as installed. Three kinds of requests are
    reviewed although no webhook is called: updates of claims, objects of `OFFLINE_KINDS`, and those of a kind that may be
    misspelt.
    """
    kind = request.group, request.kind
    is_malformed = kind == ("", "Pod") and _is_malformed(request)
    called = {
        call.webhook.entry.name
        for call in CALLS.get(kind, ())
        if _is_called(call, request, view) and (is_malformed or _conditions_hold(call, request))
    }
    if request.operation in WRITES and not request.subresource:
        if kind in workload_kinds(settings):
            called.add("workloads")
        elif kind in CLAIM_KINDS:
            called.add("claims")
        elif kind not in CALLS or kind in OFFLINE_KINDS:
            called.add("configuration")
    return tuple(
        entry
        for entry in ENTRIES.values()
        if entry.name in called and not is_excluded(entry.exempt_from, request.namespace, settings)
    )


def _is_called(call: Call, request: Request, view: ClusterView) -> bool:
    """True if the rules and selectors of a webhook match a request."""
    if request.operation not in call.operations or request.subresource != call.subresource:
        return False
    if call.webhook.objects is not None:
        return reapplies_pod(request)
    labels = lookup(view.get("Namespace", request.namespace), ("metadata", "labels"))
    for key, operator, value in call.webhook.namespaces:
        if (lookup(labels, (key,)) == value) is not (operator == "In"):
            return False
    return True


def _conditions_hold(call: Call, request: Request) -> bool:
    """True if what a new pod requests, or what changes of a pod, meets the conditions of a webhook.

    Other objects always do.
    """
    if request.kind != "Pod":
        return True
    for condition in call.webhook.conditions.values():
        if isinstance(condition, ChangeCondition) and not condition.holds(request.object, request.old_object):
            return False
        is_new = request.operation == "CREATE"
        if is_new and isinstance(condition, PodCondition) and not condition.holds(request.object):
            return False
    return True


def _is_malformed(request: Request) -> bool:
    """True if the API server would refuse the pod for its shape before it calls a webhook."""
    try:
        _ = request.pod
    except MalformedPodError:
        return True
    return False


_POD_UNITS, _CONVERSION_UNITS = 4, 500
"""Units of work to look at a pod, and to convert one."""


def missing_templates(pods: Iterable[Object], view: ClusterView, settings: GPUAdmissionPolicy) -> tuple[Template, ...]:
    """The templates that converted pods wait for and that do not exist.

    A pod that has a node has its claims already. Marks alone prove nothing: the template must be that of the pod's
    conversion, in a namespace that converts, and must have the name that the pod refers to.
    """
    from policies.conversion.templates import is_our_name, references

    missing: dict[Key, Template] = {}
    for pod in pods:
        count_work(_POD_UNITS)
        namespace = namespace_of(pod)
        names = {name for name in references(pod) if is_our_name(name) and (namespace, name) not in missing}
        if not names or not _waits(pod) or mode_of(namespace, view) is not Mode.ENABLED:
            continue
        if all(view.get("ResourceClaimTemplate", name, namespace) is not None for name in names):
            continue
        for template in templates_made_for(pod, namespace, view, settings):
            if template.name in names and view.get("ResourceClaimTemplate", template.name, namespace) is None:
                missing[namespace, template.name] = template
    return tuple(missing.values())


def needed_by_workloads(workloads: Iterable[Object], view: ClusterView, settings: GPUAdmissionPolicy) -> frozenset[Key]:
    """The templates of pods that workloads will create: by conversion, or named in their templates.

    Objects with a controller are skipped, such as a ReplicaSet of a Deployment: the templates of the owner count.
    """
    from policies.conversion.templates import references

    needed: set[Key] = set()
    for workload in workloads:
        namespace = namespace_of(workload)
        if controller_of(workload) is not None:
            continue
        for found in templates_of(workload, view, settings):
            needed.update((namespace, name) for name in references(found.template))
            if mode_of(namespace, view) in (Mode.ENABLED, Mode.UNKNOWN):
                pod = pod_of(with_defaults(found.template), workload, namespace)
                needed.update((namespace, made.name) for made in templates_made_for(pod, namespace, view, settings))
    return frozenset(needed)


def _waits(pod: Object) -> bool:
    """True if a pod has our mark and still waits for a node."""
    return (
        lookup(pod, ("metadata", "labels", MANAGED)) == "true"
        and lookup(pod, ("metadata", "deletionTimestamp")) is None
        and not lookup(pod, ("spec", "nodeName"))
        and not has_ended(pod)
    )


def templates_made_for(
    pod: Object, namespace: str, view: ClusterView, settings: GPUAdmissionPolicy
) -> tuple[Template, ...]:
    """The templates that conversion makes for a pod, converted or not."""
    count_work(_CONVERSION_UNITS)
    return review_concern("conversion", Request(pod, namespace=namespace), view, settings).templates
