"""Workloads under a quota: whether all pods that one runs side by side fit in."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from policies.request import Request
from policies.review.quota import QUOTA_NAME, Templates
from policies.settings.exempt_namespaces import exemption_in_cluster
from policies.view import PassingView
from policies.workloads import LONGEST_TEMPLATE, MOST_TEMPLATES, is_by_its_author, made_by

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from policies.decision import Decision, Finding
    from policies.kubernetes.objects import Object
    from policies.kubernetes.pod_templates import PodCount
    from policies.quota.charging.workload_totals import PodsAtOnce
    from policies.quota.limits.quota import Quota
    from policies.settings import GPUAdmissionPolicy
    from policies.view import ClusterView, Unknown
    from policies.workloads import Made

__all__ = ["alone", "pods_together"]


def alone(request: Request, answer: Decision) -> Decision:
    """What is told of one pod of a workload: of one that exists, nothing about what is left of the quota now.

    Its own pods hold what the new ones will have: whether all of them fit is told by `pods_together`.
    """
    if request.operation == "CREATE":
        return answer
    from policies.quota.charging.outcomes import FITS  # noqa: PLC0415 - see policies.review

    return replace(answer, findings=tuple(each for each in answer.findings if each.rule is not FITS))


def pods_together(
    request: Request, view: ClusterView, settings: GPUAdmissionPolicy, review: Callable[[Request], Decision]
) -> Iterable[Finding]:
    """What there is to say of the pods of a workload together, when it is created or more of them are asked for.

    Args:
        request: The creation or update of a workload.
        view: The cluster, with the GPUQuota of the namespace.
        settings: The administrator's choices.
        review: Decides on the creation of one pod; what it makes of that is what is charged.
    """
    workload, namespace = request.object, request.namespace
    if (
        not isinstance(workload, dict)
        or not is_by_its_author(request, workload)
        or not isinstance(workload.get("kind"), str)
    ):
        return ()
    document = view.get("GPUQuota", QUOTA_NAME, namespace)
    if not isinstance(document, dict) or exemption_in_cluster("quota", namespace, settings):
        return ()
    counted = _counts_of_pods(workload, request, view, settings)
    before = {made.text: count.pods for made, count in _counts_of_pods(request.old_object, request, view, settings)}
    if all(count.pods <= before.get(made.text, 0) for made, count in counted):
        return ()
    from policies.quota.charging.workload_totals import find_shortage  # noqa: PLC0415 - see policies.review
    from policies.quota.counting.counting import counted_ledger  # noqa: PLC0415 - see policies.review
    from policies.quota.limits.quota import QuotaError, parse_quota  # noqa: PLC0415 - see policies.review

    try:
        quota = parse_quota(document)
    except QuotaError:
        # Each pod is told so.
        return ()
    is_new = request.operation == "CREATE"
    pods = [*_charged(counted, namespace, quota, view if is_new else _Unclaimed(view), settings, review)]
    ledger = counted_ledger(document, view, settings.quota)
    found = find_shortage(pods, quota, ledger, is_new=is_new)
    return settings.judge(found, namespace)


class _Unclaimed(PassingView):
    """The cluster without ResourceClaims, where a PodGroup asks for its claims again that were made already."""

    def get(self, kind: str, name: str, namespace: str = "") -> Object | Unknown | None:
        """One object; None for a claim."""
        return None if kind == "ResourceClaim" else super().get(kind, name, namespace)


def _counts_of_pods(
    document: Object | None, request: Request, view: ClusterView, settings: GPUAdmissionPolicy
) -> list[tuple[Made, PodCount]]:
    """The pods of each template and how many there are of them, where the workload says it."""
    if document is None:
        return []
    made = made_by(document, request, view, settings)
    read = [(each, count) for each in made if (count := each.template.count) is not None][:MOST_TEMPLATES]
    return [(made, count) for made, count in read if len(made.text) <= LONGEST_TEMPLATE]


def _charged(
    counted: Iterable[tuple[Made, PodCount]],
    namespace: str,
    quota: Quota,
    view: ClusterView,
    settings: GPUAdmissionPolicy,
    review: Callable[[Request], Decision],
) -> Iterator[PodsAtOnce]:
    from policies.quota.charging.charging import Uncountable, charging  # noqa: PLC0415 - see policies.review
    from policies.quota.charging.workload_totals import PodsAtOnce  # noqa: PLC0415 - see policies.review

    for made, count in counted:
        pod = Request(made.pod, namespace=namespace)
        answer = review(pod)
        asked = charging(pod.of(answer.object), Templates(view, answer.templates), settings)
        if asked is None:
            continue
        try:
            yield PodsAtOnce(asked.charge(quota), count)
        except Uncountable:
            # Its pods are told so, each by itself.
            continue
