"""Workloads under a quota: a warning if the pods that a workload runs at once do not fit."""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.kubernetes.view import ChangedView, PassingView
from policies.quota.charging.charging import charge_decision
from policies.quota.charging.workload_totals import PodsAtOnce, find_shortage
from policies.quota.counting.counting import decisive_ledger
from policies.quota.demands.bills import Uncountable, charge_under
from policies.quota.limits.quota import QuotaError, parse_quota
from policies.rules.request import Request

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from policies.kubernetes.objects import Object
    from policies.kubernetes.pod_templates import PodCount
    from policies.kubernetes.view import ClusterView, Unknown
    from policies.quota.limits.quota import Quota
    from policies.rules.decision import Decision, Finding
    from policies.rules.settings import GPUAdmissionPolicy

__all__ = ["shortages"]


def shortages(
    pods: Iterable[tuple[Decision, PodCount]],
    document: Object,
    request: Request,
    view: ClusterView,
    settings: GPUAdmissionPolicy,
) -> Iterable[Finding]:
    """A warning if all pods of a workload together exceed the quota.

    Args:
        pods: The decision on a pod of each template, and how many there are. A pod is charged as that leaves it.
        document: The GPUQuota of the namespace.
        request: The creation or update of the workload.
        view: The cluster.
        settings: The administrator's settings.
    """
    try:
        quota = parse_quota(document)
    except QuotaError:
        # Each pod has a finding for it.
        return ()
    is_new = request.operation == "CREATE"
    charged = [*_charges(pods, request.namespace, quota, view if is_new else _Unclaimed(view), settings)]
    ledger = decisive_ledger(document, view, settings.quota)
    return find_shortage(charged, quota, ledger, is_new=is_new)


class _Unclaimed(PassingView):
    """The cluster without ResourceClaims, so that claims that a PodGroup has are counted again."""

    def get(self, kind: str, name: str, namespace: str = "") -> Object | Unknown | None:
        """One object; None for a claim."""
        return None if kind == "ResourceClaim" else super().get(kind, name, namespace)


def _charges(
    pods: Iterable[tuple[Decision, PodCount]],
    namespace: str,
    quota: Quota,
    view: ClusterView,
    settings: GPUAdmissionPolicy,
) -> Iterator[PodsAtOnce]:
    for decision, count in pods:
        seen = ChangedView(view, {each.key: each.manifest() for each in decision.templates})
        for charge in charge_decision(Request(decision.object, namespace=namespace), seen, settings).charges:
            try:
                yield PodsAtOnce(charge_under(charge, quota), count)
            except Uncountable:
                # The pod has its own finding.
                continue
