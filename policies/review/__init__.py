"""The one decision function.

`policies.review.on_demand` imports what an entry needs when it is first called.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from policies.conversion.opt_in import Mode
from policies.decision import Decision
from policies.entries import ENTRIES
from policies.kubernetes.paths import lookup
from policies.kubernetes.pods import MalformedPodError
from policies.pod_conditions import ChangeCondition, PodCondition
from policies.quota.opt_in import quota_shown
from policies.review.coverage import OFFLINE_KINDS, find_gap
from policies.review.on_demand import Review, load_function, load_rooms
from policies.review.pods import is_of_mode, reapplies_pod, refused_amounts, unknown_namespace
from policies.settings import settings_for
from policies.settings.exempt_namespaces import exemption, exemption_in_cluster, is_excluded
from policies.settings.workload_kinds import workload_kinds
from policies.view import Overlay
from policies.waivers import decision_with_waivers
from policies.webhooks import CALLS, CLAIM_KINDS, WRITES

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from policies.entries import Concern, Entry
    from policies.request import Request
    from policies.settings import GPUAdmissionPolicy
    from policies.view import ClusterView
    from policies.webhooks import Call

__all__ = ["entries_called", "load_rooms", "review", "review_concern", "with_new_templates"]

_MODES: Mapping[Concern, Mode] = {"preview": Mode.PREVIEW, "conversion-check": Mode.ENABLED}
"""The modes of namespaces that concerns are about, if their entries are called for other namespaces too."""


def review(request: Request, view: ClusterView, settings: GPUAdmissionPolicy) -> Decision:
    """The decision on a request: whether it is admitted, its patch, findings, templates and charges.

    With `request.entry`, the answer of that webhook entry, which the API server chose by namespace and kind. Its caller
    writes the charges and templates. Without, the answer of all entries that the API server would call, in its order;
    each concern reviews the object as those before changed it. Charges are then compared with the quota that the view
    shows, and `not_reviewed` has the reason if no rule looks at the object.
    """
    if request.entry:
        entry = ENTRIES[request.entry]
        return _decision_after(entry, review_concern, Decision(object=request.object), request, view, settings)
    decision = Decision(object=request.object)
    called = entries_called(request, view, settings)
    for entry in called:
        decision = _decision_after(entry, _settled_concern, decision, request, view, settings)
        if not decision.allowed:
            break
    else:
        amounts = refused_amounts(request.of(decision.object), view)
        findings = settings.judge([*unknown_namespace(request, view), *amounts], request.namespace)
        decision = decision.then(Decision(findings=findings, object=decision.object))
        if (request.group, request.kind) == ("", "ConfigMap") and not called:
            # The device plugin reads ConfigMaps of kube-system too, where the API server calls no webhook.
            held = settings_for(request.user, request.namespace, settings)
            decision = decision.then(load_function("configuration")(request, view, held))
        if gap := find_gap(request, view, settings):
            # The remarks on such a workload would only repeat that its pods are not reviewed.
            decision = replace(decision, remarks=()).then(Decision(findings=gap.findings, object=decision.object))
            decision = replace(decision, not_reviewed=gap.reason)
    decision = decision_with_waivers(decision, request, settings)
    return decision if decision.allowed else replace(decision, patch=(), object=request.object, templates=())


def review_concern(concern: Concern, request: Request, view: ClusterView, settings: GPUAdmissionPolicy) -> Decision:
    """The answer of one concern, under the settings for the user and with the waivers of the object."""
    # A webhook's namespaceSelector has the default namespaces only, and a caller can forge a call.
    if exemption(concern, request.namespace, settings):
        return Decision(object=request.object)
    if (mode := _MODES.get(concern)) is not None and not is_of_mode(request, mode, view):
        return Decision(object=request.object)
    if concern == "workloads":
        # The author of a workload may be exempt, and the controller that creates its pods is not.
        decision: Decision = load_function(concern)(request, view, settings, review)
    else:
        is_special = concern == "configuration" and (request.group, request.kind) in OFFLINE_KINDS
        answer: Review = load_function(request.kind if is_special else concern)
        decision = answer(request, view, settings_for(request.user, request.namespace, settings))
    return decision_with_waivers(decision, request, settings)


def with_new_templates(decision: Decision, view: ClusterView) -> ClusterView:
    """The cluster with the templates that a decision creates, which the view does not show yet."""
    if not decision.templates:
        return view
    return Overlay(view, {each.key: each.manifest() for each in decision.templates})


def _decision_after(
    entry: Entry,
    answer: Callable[[Concern, Request, ClusterView, GPUAdmissionPolicy], Decision],
    decision: Decision,
    request: Request,
    view: ClusterView,
    settings: GPUAdmissionPolicy,
) -> Decision:
    """The decision on a request after the concerns of an entry, up to the first that refuses."""
    for concern in entry.concerns:
        seen = with_new_templates(decision, view)
        found = answer(concern, request.of(decision.object), seen, settings)
        decision = decision.then(found.found_by(entry.name))
        if not decision.allowed:
            break
    return decision


def _settled_concern(concern: Concern, request: Request, view: ClusterView, settings: GPUAdmissionPolicy) -> Decision:
    """The answer of one concern in a cluster; a charge is decided by the quota that the view shows."""
    if exemption_in_cluster(concern, request.namespace, settings):
        return Decision(object=request.object)
    if concern != "quota":
        return review_concern(concern, request, view, settings)
    if quota_shown(request.namespace, view) is None:
        return Decision(object=request.object)
    charged = review_concern(concern, request, view, settings)
    settled: Decision = load_function("charges by view")(charged, view, settings)
    return settled


def entries_called(request: Request, view: ClusterView, settings: GPUAdmissionPolicy) -> tuple[Entry, ...]:
    """The entries that the API server calls for a request, in its order.

    Of the webhooks' conditions, only those of `reapply` and those on what pods request or change are evaluated; a malformed
    pod meets all of these, so that a concern reports it. Kinds that settings add count as installed. Three kinds of requests are
    reviewed although no webhook is called: updates of claims, namespaces and PriorityClasses, and objects of a kind that
    may be misspelt.
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
        elif kind not in CALLS:
            called.add("configuration")
    return tuple(
        entry
        for entry in ENTRIES.values()
        if entry.name in called and not is_excluded(entry, request.namespace, settings)
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
