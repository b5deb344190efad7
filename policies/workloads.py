"""Early words on workloads: what would become of their pods, told to who applies them.

The pods of a workload are created by its controller, and what a webhook says about them then stands in an event of a
ReplicaSet or a Job. Here it is said when the workload itself is created or its pods change, as warnings: nothing is
changed, and nothing refused.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from policies.causes import once_per_cause
from policies.decision import Decision, Severity
from policies.kubernetes.defaults import with_defaults
from policies.kubernetes.objects import controller_of
from policies.kubernetes.paths import lookup
from policies.kubernetes.pod_templates import pod_of
from policies.nvidia.identifiers import VENDOR_PREFIX
from policies.request import Request
from policies.workload_templates import templates_of, unread_pods

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from policies.decision import Finding
    from policies.kubernetes.objects import Object
    from policies.kubernetes.pod_templates import PodTemplate
    from policies.settings import GPUAdmissionPolicy
    from policies.view import ClusterView

__all__ = [
    "LONGEST_TEMPLATE",
    "MOST_TEMPLATES",
    "Made",
    "early_words",
    "is_by_its_author",
    "made_by",
    "not_reviewed",
]

MOST_TEMPLATES = 16
"""Pods of one workload that are reviewed: the costliest take tens of milliseconds each, in which other calls wait, and
RayClusters and JobSets have a handful of templates."""


_NO_KIND = "not reviewed: the object has no kind, which tells where its pod templates are"


LONGEST_TEMPLATE = 64 * 1024
"""Characters of JSON of a pod that is reviewed with its workload. Several entries review it; a larger one is reviewed when
it is created, where every object has to be."""


def early_words(
    request: Request, view: ClusterView, settings: GPUAdmissionPolicy, review: Callable[[Request], Decision]
) -> Decision:
    """What there is to say about the pods that a workload would make, at the places of their templates.

    Pods that the workload made before, from the same template anywhere in it, are not spoken of again; nor are those of
    workloads that another controller made, whose author nobody can tell, or that are being deleted.

    Args:
        request: the creation or update of an object; of one without pod templates there is nothing to say.
        view: the cluster, with the training runtimes that workloads name.
        settings: the administrator's choices, with the kinds that they add.
        review: decides on the creation of a pod as all entries together would; equal pods are asked about once.
    """
    workload = request.object
    if not isinstance(workload, dict) or not is_by_its_author(request, workload):
        return Decision(object=workload)
    if not isinstance(workload.get("kind"), str):
        return Decision(object=workload, remarks=(_NO_KIND,))
    before = {made.text for made in made_by(request.old_object, request, view, settings)}
    new = [made for made in made_by(workload, request, view, settings) if made.text not in before]
    judged = [made for made in new[:MOST_TEMPLATES] if len(made.text) <= LONGEST_TEMPLATE]
    pods = {made.text: made.pod for made in judged}
    answers = {text: review(Request(pod, namespace=request.namespace)) for text, pod in pods.items()}
    told = [
        [_early_word(finding, made.template) for finding in answers[made.text].findings if not finding.rule.offline]
        for made in judged
    ]
    findings = dict.fromkeys(finding for each in once_per_cause(told, "pod template") for finding in each)
    remarks = dict.fromkeys(remark for answer in answers.values() for remark in answer.remarks)
    for made in new[:MOST_TEMPLATES]:
        if len(made.text) > LONGEST_TEMPLATE:
            limit = f"only pods of at most {LONGEST_TEMPLATE // 1024} KiB are reviewed with their workload"
            remarks[
                f"{made.template.path}: its pods were not reviewed: {limit}, and this one has {len(made.text) // 1024}"
            ] = None
    if len(new) > MOST_TEMPLATES:
        remarks[f"only the first {MOST_TEMPLATES} of {len(new)} pod templates were reviewed"] = None
    if lookup(request.old_object, ("spec",)) != workload.get("spec"):
        remarks |= dict.fromkeys(not_reviewed(workload, view, settings))
    left_out = sum(answers[made.text].left_out for made in judged)
    return Decision(findings=tuple(findings), object=workload, remarks=tuple(remarks), left_out=left_out)


def not_reviewed(workload: Object, view: ClusterView, settings: GPUAdmissionPolicy) -> Iterator[str]:
    """Which pods of a workload no review sees before they are created; only said of workloads that mention GPUs."""
    unread = unread_pods(workload, view, settings)
    if unread and VENDOR_PREFIX in json.dumps(workload.get("spec")):
        yield from (f"{each.path}: not reviewed: {each.reason}" for each in unread)


class Made(NamedTuple):
    """A pod that a workload makes."""

    template: PodTemplate
    pod: Object
    text: str
    """The pod in canonical form, by which equal ones are known."""


def is_by_its_author(request: Request, workload: Object) -> bool:
    """Whether somebody who reads warnings writes the workload, and it will go on making pods."""
    if request.operation not in ("CREATE", "UPDATE") or request.subresource:
        return False
    return controller_of(workload) is None and lookup(workload, ("metadata", "deletionTimestamp")) is None


def made_by(
    document: Object | None, request: Request, view: ClusterView, settings: GPUAdmissionPolicy
) -> Iterator[Made]:
    """The pods that a workload makes, by the templates of its present or former state.

    Args:
        document: The state whose templates are read.
        request: Its `object` is the workload as it is now, which owns the pods.
        view: The cluster, with the training runtimes that workloads name.
        settings: The administrator's choices, with the kinds that they add.
    """
    workload = request.object
    if workload is None:
        return
    for template in templates_of(document, view, settings):
        # The API server fills in pods, and leaves the templates of workloads to their authors.
        pod = pod_of(with_defaults(template.template), workload, request.namespace)
        yield Made(template, pod, json.dumps(pod, sort_keys=True))


def _early_word(finding: Finding, template: PodTemplate) -> Finding:
    told = replace(finding, path=template.home(finding.path))
    if finding.severity is Severity.DENY:
        return replace(told, severity=Severity.WARN, message=f"its pods would be refused: {finding.message}")
    return told
