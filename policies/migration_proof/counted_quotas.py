"""Quotas of a workload that count something else after its migration."""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.admission import review
from policies.kubernetes.objects import name_of
from policies.kubernetes.paths import lookup
from policies.migration_proof.cells import Cell
from policies.nvidia.resources import parse_resource
from policies.outcome import Outcome
from policies.phrases import format_list
from policies.pod_creation import created_pod
from policies.quota.bills import Uncountable
from policies.quota.charging.charging import charge_decision
from policies.quota.counting.by_view import charged_amounts
from policies.quota.limits.amounts import amount_with_unit
from policies.quota.limits.quota import QuotaError, parse_quota
from policies.quota.opt_in import QUOTA_NAME, quota_shown
from policies.request import Request
from policies.view import UNKNOWN, ChangedView

if TYPE_CHECKING:
    from policies.outcome import Certainty, Situation, Subject
    from policies.quota.charges import Amounts, ChargeRequest
    from policies.quota.limits.quota import Quota
    from policies.view import ClusterView

__all__ = ["quota_cell"]

_REQUESTS = "requests."


def quota_cell(subject: Subject, before: Situation, after: Situation, certainty: Certainty) -> Cell:
    """The cell about the quotas of the namespace: kept if they count the same.

    Args:
        subject: The pods of a template.
        before: The cluster before its migration.
        after: The cluster after it.
        certainty: How sure the devices of the pods are after it.
    """
    if uncounted := _find_uncounted(subject.namespace, before.view):
        return Cell(Outcome.LOST, uncounted)
    document = quota_shown(subject.namespace, before.view)
    if document is None:
        return Cell(Outcome.KEPT, "no quota counts it")
    try:
        quota = parse_quota(document)
        charges = (_charge_of(subject, each) for each in (before, after))
        was, will_be = (charged_amounts([(each, subject.count)] if each is not None else [], quota) for each in charges)
    except (QuotaError, Uncountable) as error:
        return Cell(Outcome.UNKNOWN, f"the GPUQuota cannot count it: {error}")
    if was == will_be:
        return Cell(Outcome.KEPT, f"the GPUQuota counts the same: {_amounts(will_be, quota)}", certainty)
    text = f"the GPUQuota counts {_amounts(will_be, quota)} instead of {_amounts(was, quota)}"
    return Cell(Outcome.LOST, text, certainty)


def _find_uncounted(namespace: str, view: ClusterView) -> str:
    """The problem if a ResourceQuota limits the resources of device plugins but no claims; else empty."""
    quotas = view.list("ResourceQuota", namespace)
    for quota in () if quotas is UNKNOWN else quotas:
        hard = lookup(quota, ("spec", "hard"))
        names = [key for key in hard if isinstance(key, str)] if isinstance(hard, dict) else []
        counted = [key for key in names if parse_resource(key.removeprefix(_REQUESTS)) is not None]
        if counted and not any("deviceclass.resource.k8s.io/" in key for key in names):
            return f"ResourceQuota {name_of(quota)} limits {format_list(sorted(counted))}, which claims do not use"
    return ""


def _charge_of(subject: Subject, situation: Situation) -> ChargeRequest | None:
    """The charge of a pod of the subject, as it is admitted; None if it is refused, or requests no GPUs."""
    settings = situation.settings
    # The pods of the subject may use up the quota themselves.
    view = ChangedView(situation.view, {("GPUQuota", subject.namespace, QUOTA_NAME): None})
    created = Request(created_pod(subject.document, subject.namespace, view), namespace=subject.namespace)
    decision = review(created, view, settings)
    if not decision.allowed:
        return None
    seen = ChangedView(view, {each.key: each.manifest() for each in decision.templates})
    charges = charge_decision(created.of(decision.object), seen, settings).charges
    return charges[0] if charges else None


def _amounts(amounts: Amounts, quota: Quota) -> str:
    texts = [
        f"{limit.name} {amount_with_unit(limit.unit, amounts[limit.name])}"
        for limit in quota.limits
        if amounts.get(limit.name)
    ]
    return format_list(texts) if texts else "nothing"
