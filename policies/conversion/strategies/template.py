"""The strategy `template`: the pod gets a claim, made from a template that its content names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.conversion.conversion import Conversion
from policies.conversion.converted_pods import mark, remove_resources
from policies.conversion.device_layout import requests_by_container
from policies.conversion.exemptions import ignored_opt_out
from policies.conversion.gpu_amounts import gpu_resources
from policies.conversion.preemption import lost_preemption
from policies.conversion.satisfaction import unmatched_requests
from policies.conversion.surroundings import (
    claim_refusals,
    class_problems,
    node_problems,
    quota_problems,
    template_problems,
)
from policies.kubernetes.pods import SPEC
from policies.patch import Editor

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.conversion.conversion import ConversionCandidate
    from policies.conversion.record import ConversionRecord
    from policies.decision import Finding
    from policies.kubernetes.pods import Pod

__all__ = ["notices", "template"]


def template(candidate: ConversionCandidate) -> Conversion:
    """Convert a pod to a claim; works in every cluster that has DRA, from Kubernetes 1.34 on."""
    if candidate.obstacles:
        return Conversion(obstacles=candidate.obstacles)
    record, view, places = candidate.record, candidate.view, candidate.places
    made = record.template(candidate.namespace)
    if obstacles := (*class_problems(record, view, places), *template_problems(made, view)):
        return Conversion(obstacles=obstacles)
    edits = Editor(candidate.pod.document)
    _refer(candidate.pod, record, made.name, edits)
    if not candidate.settings.conversion.keep_translated_labels:
        record.constraints.remove(edits)
    mark(candidate.pod, record, edits)
    found = (*notices(candidate, record), *claim_refusals([made], candidate, edits.document))
    return Conversion(notices=found, edits=edits, template=made, record=record)


def notices(candidate: ConversionCandidate, record: ConversionRecord) -> Iterator[Finding]:
    """Findings about a pod that is converted."""
    view, places, settings = candidate.view, candidate.places, candidate.settings
    yield from quota_problems(record, view, candidate.namespace, places, settings, candidate.pod.document)
    yield from unmatched_requests(record, view, places, settings)
    yield from lost_preemption(candidate)
    yield from node_problems(view, next(iter(places.values())))
    yield from ignored_opt_out(candidate.pod, settings)


def _refer(pod: Pod, record: ConversionRecord, template_name: str, edits: Editor) -> None:
    """Let containers use the requests of the claim instead of extended resources."""
    claim = _free_claim_name(pod)
    requests = requests_by_container(record.claim.pieces)
    for container in pod.all_containers:
        if container.name in requests:
            uses = [{"name": claim, "request": request} for request in requests[container.name]]
            edits.extend(container.path / "resources" / "claims", uses)
    for container in pod.all_containers:
        remove_resources(container, gpu_resources(container), edits)
    edits.extend(SPEC / "resourceClaims", [{"name": claim, "resourceClaimTemplateName": template_name}])


def _free_claim_name(pod: Pod) -> str:
    taken = {claim.get("name") for claim in pod.resource_claims}
    names = ("gpu", *(f"gpu-{number}" for number in range(1, len(taken) + 1)))
    return next(name for name in names if name not in taken)
