"""Early words on workloads: what would become of their pods, told to who applies them.

The pods of a workload are created by its controller, and what a webhook says about them then stands in an event of a
ReplicaSet or a Job. Here it is said when the workload itself is created or its pods change, as warnings: nothing is
changed, and nothing refused.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from policies.conversion.rules import NAMESPACE_UNKNOWN
from policies.decision import Decision, Severity
from policies.kubernetes.defaults import with_defaults
from policies.kubernetes.objects import controller_of
from policies.kubernetes.paths import lookup
from policies.kubernetes.workload_pods import home_of, pod_of
from policies.kubernetes.workloads import pod_templates
from policies.request import Request

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from policies.decision import Finding
    from policies.kubernetes.objects import Object
    from policies.kubernetes.paths import FieldPath

__all__ = ["MOST_TEMPLATES", "Made", "early_words", "is_by_its_author", "made_by"]

MOST_TEMPLATES = 16
"""Pods of one workload that are reviewed: the costliest take tens of milliseconds each, in which other calls wait, and
RayClusters and JobSets have a handful of templates."""


def early_words(request: Request, review: Callable[[Request], Decision]) -> Decision:
    """What there is to say about the pods that a workload would make, at the places of their templates.

    Pods that the workload made before, from the same template anywhere in it, are not spoken of again; nor are those of
    workloads that another controller made, whose author nobody can tell, or that are being deleted.

    Args:
        request: the creation or update of an object; of one without pod templates there is nothing to say.
        review: decides on the creation of a pod as all entries together would; equal pods are asked about once.
    """
    workload = request.object
    if workload is None or not is_by_its_author(request, workload):
        return Decision(object=workload)
    before = {made.text for made in made_by(request.old_object, workload, request.namespace)}
    new = [made for made in made_by(workload, workload, request.namespace) if made.text not in before]
    judged = new[:MOST_TEMPLATES]
    pods = {made.text: made.pod for made in judged}
    answers = {text: review(Request(pod, namespace=request.namespace)) for text, pod in pods.items()}
    findings = dict.fromkeys(
        _told(finding, made.template)
        for made in judged
        for finding in answers[made.text].findings
        if _concerns_pods(finding)
    )
    remarks = dict.fromkeys(remark for answer in answers.values() for remark in answer.remarks)
    if len(new) > MOST_TEMPLATES:
        remarks[f"only the first {MOST_TEMPLATES} of {len(new)} pod templates were reviewed"] = None
    return Decision(findings=tuple(findings), object=workload, remarks=tuple(remarks))


class Made(NamedTuple):
    """A pod that a workload makes."""

    template: FieldPath
    """Where in the workload its template is."""
    pod: Object
    text: str
    """The pod in canonical form, by which equal ones are known."""


def is_by_its_author(request: Request, workload: Object) -> bool:
    """Whether somebody who reads warnings writes the workload, and it will go on making pods."""
    if request.operation not in ("CREATE", "UPDATE") or request.subresource:
        return False
    return controller_of(workload) is None and lookup(workload, ("metadata", "deletionTimestamp")) is None


def made_by(document: Object | None, workload: Object, namespace: str) -> Iterator[Made]:
    """The pods that a workload makes, by the templates of its present or former state.

    Args:
        document: The state whose templates are read.
        workload: The workload as it is now, which owns the pods.
        namespace: Where it is.
    """
    for path, template in pod_templates(document):
        # The API server fills in pods, and leaves the templates of workloads to their authors.
        pod = pod_of(with_defaults(template), workload, namespace)
        yield Made(path, pod, json.dumps(pod, sort_keys=True))


def _concerns_pods(finding: Finding) -> bool:
    """Whether a webhook would say it of a pod; of a namespace that no file holds only an offline review speaks."""
    return finding.rule != NAMESPACE_UNKNOWN.id


def _told(finding: Finding, template: FieldPath) -> Finding:
    told = replace(finding, path=home_of(finding.path, template))
    if finding.severity is Severity.DENY:
        return replace(told, severity=Severity.WARN, message=f"its pods would be refused: {finding.message}")
    return told
