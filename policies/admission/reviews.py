"""Reviews of a request by a view: by all entries that are called, by one entry, or by one concern.

This drives the pipeline (`policies.admission.pipeline`) without effects: no template is created, and charges are compared
with the quotas that the view shows.
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
from policies.kubernetes.objects import lookup
from policies.kubernetes.pod_validation import refused_fields
from policies.kubernetes.pods import MalformedPodError
from policies.kubernetes.view import ChangedView
from policies.nvidia.pod_conditions import ChangeCondition, PodCondition
from policies.quota.limits.cluster_quota import has_quota
from policies.rules.decision import Decision
from policies.rules.settings import settings_for
from policies.rules.settings.choices import workload_kinds
from policies.rules.settings.exemptions import NEVER_MATCHED, is_excluded

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.admission.webhooks import Call, Entry
    from policies.kubernetes.view import ClusterView
    from policies.rules.decision import Finding
    from policies.rules.request import Concern, Request
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
