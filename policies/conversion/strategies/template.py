"""The strategy `template`: the pod gets a claim, made from a template that its content names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.conversion.amounts import gpu_resources
from policies.conversion.coexistence import node_problems
from policies.conversion.conversion import Conversion
from policies.conversion.exemptions import ignored_opt_out
from policies.conversion.line import requests_by_container
from policies.conversion.native_quota import quota_problems
from policies.conversion.preemption import lost_preemption
from policies.conversion.record import mark, remove_resources
from policies.conversion.references import class_problems, template_problems
from policies.conversion.satisfaction import unsatisfied
from policies.kubernetes.pods import SPEC
from policies.patch import Editor

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.conversion.asked import Asked
    from policies.conversion.conversion import Question
    from policies.decision import Finding
    from policies.kubernetes.pods import Pod

__all__ = ["notices", "template"]


def template(question: Question) -> Conversion:
    """Convert a pod to a claim; works in every cluster that has DRA, from Kubernetes 1.34 on."""
    if question.obstacles:
        return Conversion(obstacles=question.obstacles)
    asked, view, places = question.asked, question.view, question.places
    made = asked.template(question.namespace)
    if obstacles := (*class_problems(asked, view, places), *template_problems(made, view)):
        return Conversion(obstacles=obstacles)
    edits = Editor(question.pod.document)
    _refer(question.pod, asked, made.name, edits)
    if not question.settings.conversion.keep_translated_labels:
        asked.constraints.remove(edits)
    mark(question.pod, asked, edits)
    return Conversion(notices=tuple(notices(question, asked)), edits=edits, template=made, asked=asked)


def notices(question: Question, asked: Asked) -> Iterator[Finding]:
    """What there is to say about a pod that is converted."""
    view, places, settings = question.view, question.places, question.settings
    yield from quota_problems(asked, view, question.namespace, places, settings)
    yield from unsatisfied(asked, view, places, settings)
    yield from lost_preemption(question)
    yield from node_problems(view, next(iter(places.values())))
    yield from ignored_opt_out(question.pod, settings)


def _refer(pod: Pod, asked: Asked, template_name: str, edits: Editor) -> None:
    """Let containers use the requests of the claim in the place of extended resources."""
    claim = _free_claim_name(pod)
    requests = requests_by_container(asked.pieces)
    for container in pod.all_containers:
        uses = [{"name": claim, "request": request} for request in requests.get(container.name, ())]
        edits.extend(container.path / "resources" / "claims", uses)
    for container in pod.all_containers:
        remove_resources(container, gpu_resources(container), edits)
    edits.extend(SPEC / "resourceClaims", [{"name": claim, "resourceClaimTemplateName": template_name}])


def _free_claim_name(pod: Pod) -> str:
    taken = {claim.get("name") for claim in pod.resource_claims}
    names = ("gpu", *(f"gpu-{number}" for number in range(1, len(taken) + 1)))
    return next(name for name in names if name not in taken)
