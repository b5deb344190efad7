"""Workloads under a quota: whether all pods that one runs side by side fit in."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from policies.kubernetes.workload_counts import pods_at_once
from policies.request import Request
from policies.review.quota import QUOTA_NAME, Templates, quota_entry
from policies.workloads import MOST_TEMPLATES, is_by_its_author, made_by

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from policies.decision import Decision, Finding
    from policies.kubernetes.objects import Object
    from policies.kubernetes.workload_counts import PodCount
    from policies.quota.charging.together import PodsAtOnce
    from policies.quota.limits.quota import Quota
    from policies.settings import GPUAdmissionPolicy
    from policies.view import ClusterView
    from policies.workloads import Made

__all__ = ["alone", "pods_together"]

_OVER_QUOTA = "GA502"


def alone(request: Request, answer: Decision) -> Decision:
    """What is told of one pod of a workload: of one that exists, nothing about what is left of the quota now.

    Its own pods hold what the new ones will have: whether all of them fit is told by `pods_together`.
    """
    if request.operation == "CREATE":
        return answer
    return replace(answer, findings=tuple(each for each in answer.findings if each.rule != _OVER_QUOTA))


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
    document = view.get("GPUQuota", QUOTA_NAME, namespace)
    if workload is None or not isinstance(document, dict) or not quota_entry(namespace, view):
        return ()
    counted = _counted(workload, workload, namespace) if is_by_its_author(request, workload) else []
    before = {made.text: count.pods for made, count in _counted(request.old_object, workload, namespace)}
    if all(count.pods <= before.get(made.text, 0) for made, count in counted):
        return ()
    from policies.quota.charging.together import together  # noqa: PLC0415 - see policies.review
    from policies.quota.counting.counting import counted_ledger  # noqa: PLC0415 - see policies.review
    from policies.quota.limits.quota import QuotaError, parse_quota  # noqa: PLC0415 - see policies.review

    try:
        quota = parse_quota(document)
    except QuotaError:
        # Each pod is told so.
        return ()
    pods = [*_charged(counted, namespace, quota, view, settings, review)]
    ledger = counted_ledger(document, view, settings.quota)
    found = together(pods, quota, ledger, is_new=request.operation == "CREATE")
    return settings.judge(found, namespace)


def _counted(document: Object | None, workload: Object, namespace: str) -> list[tuple[Made, PodCount]]:
    """The pods of each template and how many there are of them, where the workload says it."""
    if document is None:
        return []
    counted = ((made, pods_at_once(document, made.template)) for made in made_by(document, workload, namespace))
    return [(made, count) for made, count in counted if count is not None][:MOST_TEMPLATES]


def _charged(
    counted: Iterable[tuple[Made, PodCount]],
    namespace: str,
    quota: Quota,
    view: ClusterView,
    settings: GPUAdmissionPolicy,
    review: Callable[[Request], Decision],
) -> Iterator[PodsAtOnce]:
    from policies.quota.charging.charging import Uncountable, charging  # noqa: PLC0415 - see policies.review
    from policies.quota.charging.together import PodsAtOnce  # noqa: PLC0415 - see policies.review

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
