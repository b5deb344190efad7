"""The one decision function.

Importing it imports no room whose subject is not always asked about: the rules on configuration alone take longer to
import than an offline review of a pod takes. `load_rooms` imports all of them, for who cannot wait later.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from policies.conversion.opt_in import Mode, mode_of
from policies.decision import Decision
from policies.entries import CLAIM_KINDS, ENTRIES, NEVER_MATCHED, Entry
from policies.kubernetes.workloads import WORKLOAD_KINDS
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
    unknown_namespace,
    updates_pod,
)
from policies.review.quota import Templates, quota, quota_entry
from policies.rules import rules_on_demand
from policies.settings import settings_for

if TYPE_CHECKING:
    from collections.abc import Container

    from policies.request import Request
    from policies.settings import GPUAdmissionPolicy
    from policies.view import ClusterView

__all__ = ["entries_called", "load_rooms", "review"]


def review(request: Request, view: ClusterView, settings: GPUAdmissionPolicy) -> Decision:
    """Decide on a request: whether it may pass, as what, and what there is to say.

    With `request.entry`, answers as that webhook entry; the API server has decided by namespace and kind that it is
    the one to ask. Without, answers as all of them together: each entry that the API server would call, in its order,
    sees the object as the ones before left it.
    """
    if request.entry:
        return _answer(request.entry, request, view, settings)
    decision = Decision(object=request.object)
    for entry in entries_called(request, view):
        # Only what is charged looks at templates that the answer creates; to all others a cache may lack them as well.
        seen = Templates(view, decision.templates) if _REVIEWS[entry.name] is quota else view
        answer = _answer(entry.name, request.of(decision.object), seen, settings)
        decision = _joined(decision, answer)
        if not decision.allowed:
            break
    else:
        findings = settings.judge(unknown_namespace(request, view), request.namespace)
        decision = _joined(decision, Decision(findings=findings, object=decision.object))
    return decision if decision.allowed else replace(decision, patch=(), object=request.object, templates=())


def entries_called(request: Request, view: ClusterView) -> tuple[Entry, ...]:
    """The entries that the API server would call, in its order, by the rules and selectors of their webhooks."""
    if request.namespace in NEVER_MATCHED:
        return ()
    kind = request.group, request.kind
    if kind == ("", "Node"):
        return (ENTRIES["nodes"],)
    if kind in CLAIM_KINDS:
        return _called(_of_claims(request, view)) if request.operation != "DELETE" else ()
    if kind in WORKLOAD_KINDS:
        return (ENTRIES["workloads"],) if request.operation in ("CREATE", "UPDATE") else ()
    if debugs_pod(request):
        return (ENTRIES["access"],)
    if updates_pod(request):
        return (ENTRIES["reapply"],) if reapplies_pod(request) else ()
    if not creates_pod(request):
        return (ENTRIES["configuration"],)
    mode = mode_of(request.namespace, view)
    names = {
        Mode.ENABLED: ("conversion", "placement", "conversion-check", "access"),
        Mode.PREVIEW: ("preview", "placement", "access"),
    }.get(mode, ("placement", "access"))
    return _called((*names, quota_entry(request.namespace, view)))


def _of_claims(request: Request, view: ClusterView) -> tuple[str, ...]:
    is_charged = (request.operation, request.kind, request.subresource) == ("CREATE", "ResourceClaim", "")
    return ("claims", quota_entry(request.namespace, view)) if is_charged else ("claims",)


def _called(names: Container[str]) -> tuple[Entry, ...]:
    return tuple(entry for entry in ENTRIES.values() if entry.name in names)


@rules_on_demand
def load_rooms() -> None:
    """Import every room now, rather than with the first request that needs it."""
    import policies.access  # noqa: PLC0415 - see the module
    import policies.configuration  # noqa: PLC0415 - see the module
    import policies.conversion.check  # noqa: PLC0415 - see the module
    import policies.dra.claims  # noqa: PLC0415 - see the module
    import policies.placement.resources.findings  # noqa: PLC0415 - see the module
    import policies.placement.wishes.kept  # noqa: PLC0415 - see the module
    import policies.quota.charging.charging  # noqa: PLC0415 - see the module
    import policies.quota.charging.outcomes  # noqa: PLC0415 - see the module
    import policies.quota.charging.together  # noqa: PLC0415 - see the module
    import policies.quota.counting.counting  # noqa: PLC0415 - see the module
    import policies.quota.limits.rules  # noqa: F401, PLC0415 - see the module


def _workloads(request: Request, view: ClusterView, settings: GPUAdmissionPolicy) -> Decision:
    """Objects that make pods: what these would meet, each by itself and together, as warnings."""
    from policies.review.together import alone, pods_together  # noqa: PLC0415 - see the module
    from policies.workloads import early_words  # noqa: PLC0415 - see the module

    words = early_words(request, lambda pod: alone(request, review(pod, view, settings)))
    together = pods_together(request, view, settings, lambda pod: review(pod, view, settings))
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
    held = settings if entry in _FOR_OTHERS else settings_for(request.user, request.namespace, settings)
    return _REVIEWS[entry](request, view, held)


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
    )
