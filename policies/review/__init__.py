"""The one decision function.

`policies.review.on_demand` imports what an entry needs when it is first called.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from policies.decision import Decision
from policies.entries import ENTRIES, Entry
from policies.kubernetes.paths import lookup
from policies.quota.opt_in import QUOTA_NAME
from policies.review.coverage import OFFLINE_KINDS, find_gap
from policies.review.on_demand import Review, load_function, load_rooms
from policies.review.pods import reapplies_pod, refused_amounts, unknown_namespace
from policies.settings import settings_for
from policies.settings.exempt_namespaces import exemption, exemption_in_cluster
from policies.settings.workload_kinds import workload_kinds
from policies.view import Overlay
from policies.webhooks import CALLS, CLAIM_KINDS, WRITES

if TYPE_CHECKING:
    from policies.request import Request
    from policies.settings import GPUAdmissionPolicy
    from policies.view import ClusterView
    from policies.webhooks import Call

__all__ = ["entries_called", "load_rooms", "review"]


def review(request: Request, view: ClusterView, settings: GPUAdmissionPolicy) -> Decision:
    """The decision on a request: whether it is admitted, its patch, findings, templates and charges.

    With `request.entry`, the answer of that webhook entry, which the API server chose by namespace and kind. An entry for
    quotas returns the charge, and its caller writes it. Without, the answer of all entries that the API server would
    call, in its order; each reviews the object as the entries before changed it. Charges are then compared with the quota
    that the view shows, and `not_reviewed` has the reason if no rule looks at the object.
    """
    if request.entry:
        return _answer(request.entry, request, view, settings)
    decision = Decision(object=request.object)
    called = entries_called(request, view, settings)
    for entry in called:
        seen = view
        if decision.templates:
            # The view does not show yet what the decision creates.
            seen = Overlay(view, {each.key: each.manifest() for each in decision.templates})
        decision = _join(decision, _settled_answer(entry, request.of(decision.object), seen, settings))
        if not decision.allowed:
            break
    else:
        amounts = refused_amounts(request.of(decision.object), view)
        findings = settings.judge([*unknown_namespace(request, view), *amounts], request.namespace)
        decision = _join(decision, Decision(findings=findings, object=decision.object))
        if (request.group, request.kind) == ("", "ConfigMap") and not called:
            # The device plugin reads ConfigMaps of kube-system too, where the API server calls no webhook.
            held = settings_for(request.user, request.namespace, settings)
            decision = _join(decision, load_function("configuration")(request, view, held))
        if gap := find_gap(request, view, settings):
            # The remarks on such a workload would only repeat that its pods are not reviewed.
            decision = _join(replace(decision, remarks=()), Decision(findings=gap.findings, object=decision.object))
            decision = replace(decision, not_reviewed=gap.reason)
    return (
        decision if decision.allowed else replace(decision, patch=(), object=request.object, templates=(), charges=())
    )


def entries_called(request: Request, view: ClusterView, settings: GPUAdmissionPolicy) -> tuple[Entry, ...]:
    """The entries that the API server calls, in its order, without those that exempt the namespace.

    Of the webhooks' conditions, only those of `reapply` are evaluated. Kinds that settings add count as installed. Three
    kinds of requests are reviewed although no webhook is called: updates of claims, namespaces and PriorityClasses, and
    objects of a kind that may be misspelt.
    """
    kind = request.group, request.kind
    called = {call.webhook.entry.name for call in CALLS.get(kind, ()) if _is_called(call, request, view)}
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
        if entry.name in called and not exemption_in_cluster(entry.concern, request.namespace, settings)
    )


def _is_called(call: Call, request: Request, view: ClusterView) -> bool:
    """True if the rules and selectors of a webhook match a request."""
    if request.operation not in call.operations or request.subresource != call.subresource:
        return False
    if call.webhook.objects is not None:
        return reapplies_pod(request)
    if call.webhook.namespaces is None:
        return True
    label, operator, value = call.webhook.namespaces
    labelled = lookup(view.get("Namespace", request.namespace), ("metadata", "labels", label)) == value
    return labelled is (operator == "In")


def _settled_answer(entry: Entry, request: Request, view: ClusterView, settings: GPUAdmissionPolicy) -> Decision:
    """The answer of one entry; a charge is decided by the quota that the view shows."""
    if entry.concern != "quota":
        return _answer(entry.name, request, view, settings)
    if not isinstance(view.get("GPUQuota", QUOTA_NAME, request.namespace), dict):
        return Decision(object=request.object)
    decision = _answer(entry.name, request, view, settings)
    settled: Decision = load_function("charges by view")(decision, view, settings)
    return settled.found_by(entry.name)


def _answer(entry: str, request: Request, view: ClusterView, settings: GPUAdmissionPolicy) -> Decision:
    """The answer of one entry, under the settings that hold for the user."""
    # A webhook's namespaceSelector has the default namespaces only, and a caller can forge a call.
    if exemption(ENTRIES[entry].concern, request.namespace, settings):
        return Decision(object=request.object)
    if entry == "workloads":
        # The author of a workload may be exempt, and the controller that creates its pods is not.
        decision: Decision = load_function(entry)(request, view, settings, review)
    else:
        is_special = entry == "configuration" and (request.group, request.kind) in OFFLINE_KINDS
        answer: Review = load_function(request.kind if is_special else entry)
        decision = answer(request, view, settings_for(request.user, request.namespace, settings))
    return decision.found_by(entry)


def _join(first: Decision, then: Decision) -> Decision:
    """The decision of two entries called one after the other."""
    return Decision(
        findings=tuple(dict.fromkeys((*first.findings, *then.findings))),
        patch=(*first.patch, *then.patch),
        object=then.object,
        remarks=tuple(dict.fromkeys((*first.remarks, *then.remarks))),
        templates=(*first.templates, *then.templates),
        charges=(*first.charges, *then.charges),
        annotations={**first.annotations, **then.annotations},
        retry_after=then.retry_after or first.retry_after,
        left_out=first.left_out + then.left_out,
    )
