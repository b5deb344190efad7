"""The concern placement: tolerations, wishes, and the nodes that could run a pod."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from policies.admission.pods import review_created_pod
from policies.fleet import may_request_gpu, probably_gets_gpu
from policies.kubernetes.names import RECORD
from policies.nvidia.pod_conditions import has_our_annotations
from policies.placement import TOLERATIONS, missing_tolerations
from policies.placement.place import own_conditions, place
from policies.placement.resource_requests import node_findings
from policies.placement.selector_misspellings import selector_misspellings
from policies.placement.wish_annotations import read_wishes
from policies.rules.decision import Decision
from policies.rules.patch import Editor

if TYPE_CHECKING:
    from collections.abc import Iterable

    from policies.kubernetes.pods import Pod
    from policies.kubernetes.view import ClusterView
    from policies.rules.decision import Finding
    from policies.rules.request import Request
    from policies.rules.settings import GPUAdmissionPolicy

__all__ = ["placement"]


@review_created_pod
def placement(pod: Pod, request: Request, view: ClusterView, settings: GPUAdmissionPolicy) -> Decision:
    """The pod with tolerations and node conditions, and findings on its wishes and requests."""
    if pod.is_past_scheduling or not (may_request_gpu(pod.document) or has_our_annotations(pod.document)):
        return Decision(object=request.object)
    edits = Editor(request.object)
    findings = tuple(_place(pod, request, view, settings, edits))
    tolerations = missing_tolerations(pod, request.namespace, settings)
    # The claims of a pod are read only for one that lacks a toleration: conversion has added them already.
    if tolerations and probably_gets_gpu(pod.document, request.namespace, view):
        edits.extend(TOLERATIONS, tolerations)
    return Decision(findings=findings, patch=tuple(edits.operations), object=edits.document)


def _place(
    pod: Pod, request: Request, view: ClusterView, settings: GPUAdmissionPolicy, edits: Editor
) -> Iterable[Finding]:
    """Findings on what a pod requests of its node; a converted pod has its conditions in the claim."""
    if RECORD in pod.annotations:
        from policies.admission.conversion import is_converted

        if is_converted(pod):
            return
    wishes = read_wishes(pod, request.namespace, view, settings)
    yield from place(pod, view, settings, wishes, edits)
    placed = replace(pod, document=edits.document) if edits else pod
    yield from node_findings(placed, request.namespace, view, settings)
    yield from selector_misspellings(own_conditions(pod, view, settings, wishes), view)
