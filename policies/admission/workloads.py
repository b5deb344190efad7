"""The concern workloads: warnings about the pods that a workload will create.

The controller of a workload creates its pods, so warnings and refusals of these end in events of a ReplicaSet or a Job.
Here the author of the workload sees them. Nothing is changed, and nothing is refused.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from policies.admission.workload_templates import templates_of, unread_pods
from policies.kubernetes.objects import controller_of, lookup
from policies.kubernetes.pod_templates import pod_of, with_defaults
from policies.nvidia.identifiers import VENDOR_PREFIX
from policies.quota.limits.cluster_quota import has_quota
from policies.rules.decision import Decision, Severity
from policies.rules.request import Request
from policies.rules.settings.exemptions import exemption_in_cluster
from policies.rules.waivers import once_per_cause

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from policies.kubernetes.objects import Object
    from policies.kubernetes.pod_templates import PodCount, PodTemplate
    from policies.kubernetes.view import ClusterView
    from policies.rules.decision import Finding
    from policies.rules.settings import GPUAdmissionPolicy


Review = Callable[[Request, "ClusterView", "GPUAdmissionPolicy"], Decision]
"""Decides on a request as all entries together do."""

_OF_FILES = ("GA324", "GA705", "GA709", "GA710")
"""Rules that only a review of files reports."""
_OVER_QUOTA = "GA502"
"""The rule on the GPUs that the namespace has now."""
MOST_TEMPLATES = 16
"""Maximum pods of one workload that are reviewed. The costliest take tens of milliseconds each, while other calls wait;
RayClusters and JobSets have only a few templates."""

LONGEST_TEMPLATE = 64 * 1024
"""Maximum characters of JSON of a pod that is reviewed with its workload, because several entries review it. A larger pod
is reviewed only when it is created."""

_NO_KIND = "not reviewed: the object has no kind, so its pod templates cannot be found"


class TemplatePod(NamedTuple):
    """A pod that a template of a workload makes."""

    template: PodTemplate
    document: Object
    text: str
    """The pod in canonical form; equal pods have equal texts."""


@dataclass(frozen=True)
class WorkloadPods:
    """The pods that a workload will create, and those of its former state."""

    request: Request
    """The creation or update of the workload."""
    view: ClusterView
    """The cluster, with the training runtimes that workloads name."""
    settings: GPUAdmissionPolicy
    review: Review
    """Decides on the creation of a pod as all entries together do."""
    _decisions: dict[str, Decision] = field(default_factory=dict)

    def decision(self, pod: TemplatePod) -> Decision:
        """The decision on the creation of a pod; equal pods are reviewed once."""
        if pod.text not in self._decisions:
            creation = Request(pod.document, namespace=self.request.namespace)
            self._decisions[pod.text] = self.review(creation, self.view, self.settings)
        return self._decisions[pod.text]

    @cached_property
    def now(self) -> Sequence[TemplatePod]:
        """By the templates of the workload as it is now."""
        return self._pods(self.request.object)

    @cached_property
    def before(self) -> Sequence[TemplatePod]:
        """By the templates of its former state."""
        return self._pods(self.request.old_object)

    def _pods(self, document: Object | None) -> Sequence[TemplatePod]:
        """The pods of the workload as it is now, by the templates of one of its states."""
        workload = self.request.object
        if workload is None:
            return ()
        pods = []
        for template in templates_of(document, self.view, self.settings):
            # The API server fills in pods, and leaves the templates of workloads to their authors.
            pod = pod_of(with_defaults(template.template), workload, self.request.namespace)
            pods.append(TemplatePod(template, pod, json.dumps(pod, sort_keys=True)))
        return pods


def workloads(request: Request, view: ClusterView, settings: GPUAdmissionPolicy, review: Review) -> Decision:
    """Warnings about the pods that a workload will create, at the places of their templates.

    None for pods that the workload created before from the same template, and for workloads that another controller
    created or that are being deleted. `review` decides on the creation of a pod as all entries together do.
    """
    workload = request.object
    if not isinstance(workload, dict) or not _is_by_its_author(request, workload):
        return Decision(object=workload)
    if not isinstance(workload.get("kind"), str):
        return Decision(object=workload, remarks=(_NO_KIND,))
    pods = WorkloadPods(request, view, settings, review)
    decision = _warnings_of_pods(pods)
    return replace(decision, findings=tuple(dict.fromkeys((*decision.findings, *shortage(pods)))))


def _warnings_of_pods(pods: WorkloadPods) -> Decision:
    request = pods.request
    known = {pod.text for pod in pods.before}
    new = [pod for pod in pods.now if pod.text not in known]
    judged = [pod for pod in new[:MOST_TEMPLATES] if len(pod.text) <= LONGEST_TEMPLATE]
    warnings = [[*_warnings(pods.decision(pod), pod.template, request)] for pod in judged]
    findings = dict.fromkeys(finding for each in once_per_cause(warnings, "pod template") for finding in each)
    remarks = dict.fromkeys(remark for pod in judged for remark in pods.decision(pod).remarks)
    for pod in new[:MOST_TEMPLATES]:
        if len(pod.text) > LONGEST_TEMPLATE:
            limit = f"only pods of at most {LONGEST_TEMPLATE // 1024} KiB are reviewed with their workload"
            text = f"{pod.template.path}: its pods were not reviewed: {limit}, and this one has {len(pod.text) // 1024}"
            remarks[text] = None
    if len(new) > MOST_TEMPLATES:
        remarks[f"only the first {MOST_TEMPLATES} of {len(new)} pod templates were reviewed"] = None
    if lookup(request.old_object, ("spec",)) != lookup(request.object, ("spec",)):
        remarks |= dict.fromkeys(not_reviewed(request.object, pods.view, pods.settings))
    left_out = sum(pods.decision(pod).left_out for pod in judged)
    return Decision(findings=tuple(findings), object=request.object, remarks=tuple(remarks), left_out=left_out)


def _warnings(answer: Decision, template: PodTemplate, request: Request) -> Iterator[Finding]:
    """The findings on one pod, as warnings at its template.

    On updates, those on what is left of the quota are dropped: the workload's own pods hold it. `shortage` says whether
    all pods fit.
    """
    for finding in answer.findings:
        if finding.rule.id in _OF_FILES or (finding.rule.id == _OVER_QUOTA and request.operation != "CREATE"):
            continue
        told = finding.as_announcement("its pods would be refused") if finding.severity is Severity.DENY else finding
        yield replace(told, path=template.home(finding.path))


def shortage(pods: WorkloadPods) -> Iterable[Finding]:
    """A warning if the pods of a workload that is new or gets more do not fit into the quota."""
    request, view, settings = pods.request, pods.view, pods.settings
    if request.object is None or not _is_by_its_author(request, request.object):
        return ()
    if not has_quota(request.namespace, view) or exemption_in_cluster("quota", request.namespace, settings):
        return ()
    counted = _with_counts(pods.now)
    before = {pod.text: count.pods for pod, count in _with_counts(pods.before)}
    if all(count.pods <= before.get(pod.text, 0) for pod, count in counted):
        return ()
    from policies.quota.workload_totals import shortages

    decided = ((pods.decision(pod), count, pod.template.shared_claims) for pod, count in counted)
    return shortages(decided, request, view, settings)


def _with_counts(pods: Sequence[TemplatePod]) -> list[tuple[TemplatePod, PodCount]]:
    """The pods of each template, with how many there are of them, if the workload says so."""
    counted = [(pod, count) for pod in pods if (count := pod.template.count) is not None][:MOST_TEMPLATES]
    return [(pod, count) for pod, count in counted if len(pod.text) <= LONGEST_TEMPLATE]


def not_reviewed(workload: Object | None, view: ClusterView, settings: GPUAdmissionPolicy) -> Iterator[str]:
    """Remarks on pods that are reviewed only when they are created, if their workload mentions GPUs."""
    unread = unread_pods(workload, view, settings)
    if unread and VENDOR_PREFIX in json.dumps(lookup(workload, ("spec",))):
        yield from (f"{each.path}: not reviewed: {each.reason}" for each in unread)


def _is_by_its_author(request: Request, workload: Object) -> bool:
    """True if its author writes the workload, not a controller, and it still creates pods."""
    if request.operation not in ("CREATE", "UPDATE") or request.subresource:
        return False
    return controller_of(workload) is None and lookup(workload, ("metadata", "deletionTimestamp")) is None
