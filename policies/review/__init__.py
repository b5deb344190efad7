"""The one decision function.

Importing it imports no room whose subject is not always asked about: the rules on configuration alone take longer to
import than an offline review of a pod takes. `load_rooms` imports all of them, for who cannot wait later.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

from policies.conversion.opt_in import Mode, mode_of
from policies.decision import Decision
from policies.entries import CLAIM_KINDS, ENTRIES, Entry
from policies.review.coverage import uncovered
from policies.review.objects import claims, configuration
from policies.review.pods import (
    access,
    conversion,
    conversion_check,
    creates_pod,
    debugs_pod,
    placement,
    preview,
    reapplies_pod,
    reapply,
    refused_amounts,
    unknown_namespace,
    updates_pod,
)
from policies.review.quota import Templates, quota, quota_entry
from policies.rules import rules_on_demand
from policies.settings import settings_for
from policies.settings.exempt_namespaces import exemption, exemption_in_cluster
from policies.settings.workload_kinds import workload_kinds

if TYPE_CHECKING:
    from policies.request import Request
    from policies.settings import GPUAdmissionPolicy
    from policies.view import ClusterView

__all__ = ["entries_called", "leaves_alone", "load_rooms", "review"]


def review(request: Request, view: ClusterView, settings: GPUAdmissionPolicy) -> Decision:
    """Decide on a request: whether it may pass, as what, and what there is to say.

    With `request.entry`, answers as that webhook entry; the API server has decided by namespace and kind that it is
    the one to ask. Without, answers as all of them together: each entry that the API server would call, in its order,
    sees the object as the ones before left it; and the decision says why, if no rule looks at the object.
    """
    if request.entry:
        return _answer(request.entry, request, view, settings)
    decision = Decision(object=request.object)
    called = entries_called(request, view, settings)
    for entry in called:
        # Only what is charged looks at templates that the answer creates; to all others a cache may lack them as well.
        seen = Templates(view, decision.templates) if _REVIEWS[entry.name] is quota else view
        answer = _answer(entry.name, request.of(decision.object), seen, settings)
        decision = _joined(decision, answer)
        if not decision.allowed:
            break
    else:
        amounts = refused_amounts(request.of(decision.object), view)
        findings = settings.judge([*unknown_namespace(request, view), *amounts], request.namespace)
        decision = _joined(decision, Decision(findings=findings, object=decision.object))
        if (request.group, request.kind) == ("", "ConfigMap") and not called:
            # The device plugin reads ConfigMaps of kube-system too, where the API server calls no webhook.
            held = settings_for(request.user, request.namespace, settings)
            decision = _joined(decision, configuration(request, view, held))
        if gap := uncovered(request, view, settings):
            # Early words on a workload say that its pods are not reviewed, and nothing else.
            decision = _joined(replace(decision, remarks=()), Decision(findings=gap.findings, object=decision.object))
            decision = replace(decision, not_reviewed=gap.reason)
    return decision if decision.allowed else replace(decision, patch=(), object=request.object, templates=())


def leaves_alone(entry: str, namespace: str, settings: GPUAdmissionPolicy) -> bool:
    """True if the settings exempt a namespace from the concern of an entry, which then lets everything pass.

    The `namespaceSelector` of an installed webhook knows the default namespaces only, and anybody can forge a call.
    """
    return bool(exemption(ENTRIES[entry].concern, namespace, settings))


def entries_called(request: Request, view: ClusterView, settings: GPUAdmissionPolicy) -> tuple[Entry, ...]:
    """The entries that the API server would call, in its order, without those that leave the namespace alone."""
    names = _names_called(request, view, settings)
    return tuple(
        entry
        for entry in ENTRIES.values()
        if entry.name in names and not exemption_in_cluster(entry.concern, request.namespace, settings)
    )


def _names_called(request: Request, view: ClusterView, settings: GPUAdmissionPolicy) -> tuple[str, ...]:
    """Names of entries, by the rules of their webhooks and the labels of the namespace."""
    kind = request.group, request.kind
    if kind == ("", "Node"):
        return ("nodes",) if request.operation != "DELETE" else ()
    if kind in CLAIM_KINDS:
        return _of_claims(request, view) if request.operation != "DELETE" else ()
    if kind in workload_kinds(settings):
        return ("workloads",) if request.operation in ("CREATE", "UPDATE") else ()
    if debugs_pod(request):
        return ("access",)
    if updates_pod(request):
        return ("reapply",) if reapplies_pod(request) else ()
    if not creates_pod(request):
        return ("configuration",)
    mode = mode_of(request.namespace, view)
    names = {
        Mode.ENABLED: ("conversion", "placement", "conversion-check", "access"),
        Mode.PREVIEW: ("preview", "placement", "access"),
    }.get(mode, ("placement", "access"))
    return (*names, quota_entry(request.namespace, view))


def _of_claims(request: Request, view: ClusterView) -> tuple[str, ...]:
    is_charged = (request.operation, request.kind, request.subresource) == ("CREATE", "ResourceClaim", "")
    return ("claims", quota_entry(request.namespace, view)) if is_charged else ("claims",)


@rules_on_demand
def load_rooms() -> None:
    """Import every room now, rather than with the first request that needs it."""
    import policies.access  # noqa: PLC0415 - see the module
    import policies.configuration  # noqa: PLC0415 - see the module
    import policies.conversion.check  # noqa: PLC0415 - see the module
    import policies.conversion.reapply  # noqa: PLC0415 - see the module
    import policies.dra.claims  # noqa: PLC0415 - see the module
    import policies.placement.priority_classes  # noqa: PLC0415 - see the module
    import policies.placement.resources.findings  # noqa: PLC0415 - see the module
    import policies.placement.selector_misspellings  # noqa: PLC0415 - see the module
    import policies.placement.wishes.node_conditions  # noqa: PLC0415 - see the module
    import policies.placement.wishes.product_misspellings  # noqa: PLC0415 - see the module
    import policies.quota.charging.charging  # noqa: PLC0415 - see the module
    import policies.quota.charging.outcomes  # noqa: PLC0415 - see the module
    import policies.quota.charging.workload_totals  # noqa: PLC0415 - see the module
    import policies.quota.counting.counting  # noqa: PLC0415 - see the module
    import policies.quota.limits.rules  # noqa: PLC0415 - see the module
    import policies.review.documents  # noqa: F401, PLC0415 - see the module


def _workloads(request: Request, view: ClusterView, settings: GPUAdmissionPolicy) -> Decision:
    """Objects that make pods: what these would meet, each by itself and together, as warnings."""
    from policies.review.together import alone, pods_together  # noqa: PLC0415 - see the module
    from policies.workloads import early_words  # noqa: PLC0415 - see the module

    answers: dict[str, Decision] = {}

    def decision_on(pod: Request) -> Decision:
        """A pod is reviewed once, though it is spoken of alone and together with others."""
        text = json.dumps(pod.object, sort_keys=True)
        if text not in answers:
            answers[text] = review(pod, view, settings)
        return answers[text]

    words = early_words(request, view, settings, lambda pod: alone(request, decision_on(pod)))
    together = pods_together(request, view, settings, decision_on)
    return _joined(words, Decision(findings=tuple(together), object=words.object))


_REVIEWS = {
    "conversion": conversion,
    "preview": preview,
    "placement": placement,
    "reapply": reapply,
    "conversion-check": conversion_check,
    "access": access,
    "workloads": _workloads,
    "claims": claims,
    "quota-enforced": quota,
    "quota": quota,
    "configuration": configuration,
    "nodes": configuration,
}


_FOR_OTHERS = frozenset({"workloads"})
"""Entries that speak of what somebody else will create: a workload's author may be exempt, its controller is not."""


def _answer(entry: str, request: Request, view: ClusterView, settings: GPUAdmissionPolicy) -> Decision:
    """The answer of one entry, under the settings that hold for who asks."""
    if leaves_alone(entry, request.namespace, settings):
        return Decision(object=request.object)
    held = settings if entry in _FOR_OTHERS else settings_for(request.user, request.namespace, settings)
    decision = _REVIEWS[entry](request, view, held)
    found = tuple(each if each.entry else replace(each, entry=entry) for each in decision.findings)
    return replace(decision, findings=found) if found else decision


def _joined(first: Decision, then: Decision) -> Decision:
    """The decision of two entries asked one after the other."""
    return Decision(
        findings=tuple(dict.fromkeys((*first.findings, *then.findings))),
        patch=(*first.patch, *then.patch),
        object=then.object,
        remarks=tuple(dict.fromkeys((*first.remarks, *then.remarks))),
        templates=(*first.templates, *then.templates),
        annotations={**first.annotations, **then.annotations},
        retry_after=then.retry_after or first.retry_after,
        left_out=first.left_out + then.left_out,
    )
