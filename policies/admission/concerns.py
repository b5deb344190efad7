"""The concerns: the rules of each, imported when it is first judged.

Importing the rules on configuration takes longer than the offline review of a pod. A server calls `load_rules` at its
start, so that no request waits for an import, and `warm` once it knows the cluster.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from policies.admission.all_rules import rule_book
from policies.admission.pods import is_being_converted, is_of_mode, review_created_pod
from policies.admission.webhooks import CLAIM_KINDS, ENTRIES
from policies.admission.workloads import workloads
from policies.conversion.exemptions import Mode
from policies.fleet import may_request_gpu, probably_gets_gpu
from policies.kubernetes.names import RECORD
from policies.kubernetes.neighbours import KINDS_OF_QUEUES
from policies.nvidia.pod_conditions import has_our_annotations
from policies.rules.decision import Decision
from policies.rules.patch import Editor
from policies.rules.settings import SettingsError, parse_settings, settings_for
from policies.rules.settings.exemptions import exemption

if TYPE_CHECKING:
    from policies.admission.workloads import Review
    from policies.kubernetes.pods import Pod
    from policies.kubernetes.view import ClusterView
    from policies.rules.decision import Finding
    from policies.rules.request import Concern, Request
    from policies.rules.settings import GPUAdmissionPolicy


def judge_concern(
    concern: Concern, request: Request, view: ClusterView, settings: GPUAdmissionPolicy, review: Review
) -> Decision:
    """The findings and changes of a concern's rules, with their own severities.

    Empty in a namespace that is exempt from the concern.

    Args:
        concern: The concern.
        request: The request.
        view: The cluster.
        settings: The administrator's settings; exemptions of the user are applied here.
        review: Decides on the pods of a workload.
    """
    # A webhook's namespaceSelector has the default namespaces only, and a caller can forge a call.
    if exemption(concern, request.namespace, settings):
        return Decision(object=request.object)
    own = settings_for(request.user, request.namespace, settings)
    match concern:
        case "conversion":
            from policies.admission.conversion import conversion

            return conversion(request, view, own)
        case "preview":
            if not is_of_mode(request, Mode.PREVIEW, view):
                return Decision(object=request.object)
            from policies.admission.conversion import preview

            return preview(request, view, own)
        case "placement":
            return _placement(request, view, own)
        case "reapply":
            from policies.admission.conversion import reapply

            return reapply(request, view, own)
        case "conversion-check":
            if not is_of_mode(request, Mode.ENABLED, view):
                return Decision(object=request.object)
            from policies.admission.conversion import conversion_check

            return conversion_check(request, view, own)
        case "access":
            return _access(request, view, own)
        case "quota":
            return quota(request, view, own)
        case "workloads":
            # The author of a workload may be exempt, and the controller that creates its pods is not.
            return workloads(request, view, settings, review)
        case "claims":
            return _claims(request, view, own)
        case "configuration":
            return judge_configuration(request, view, own)
        case "opt-in":
            from policies.admission.opt_in import opt_in

            # Controllers create the pods, and they are not exempt because the user of the label is.
            return opt_in(request, view, settings)


def judge_configuration(request: Request, view: ClusterView, settings: GPUAdmissionPolicy) -> Decision:
    """The findings of `configuration` in any namespace; `settings` have the user's exemptions."""
    match request.group, request.kind:
        case "", "Namespace":
            from policies.admission.namespaces import namespaces

            return namespaces(request, view, settings)
        case "scheduling.k8s.io", "PriorityClass":
            from policies.placement.place import validate_priority_class

            # In files only: no webhook is called for a PriorityClass.
            return Decision(findings=tuple(validate_priority_class(request)), object=request.object)
        case "", "LimitRange" | "ResourceQuota":
            from policies.quota.native_limits import validate as validate_native_limits

            return Decision(
                findings=tuple(validate_native_limits(request, view, settings.quota)), object=request.object
            )
        case "", "ConfigMap":
            from policies.quota.queues import mapped_classes

            decision = _configuration(request, view, settings)
            found = tuple(mapped_classes(request.object or {}, view))
            return replace(decision, findings=(*decision.findings, *found)) if found else decision
        case kind if kind in KINDS_OF_QUEUES:
            from policies.quota.queues import validate as validate_queue

            return Decision(findings=tuple(validate_queue(request, view)), object=request.object)
        case _:
            return _configuration(request, view, settings)


@review_created_pod
def _placement(pod: Pod, request: Request, view: ClusterView, settings: GPUAdmissionPolicy) -> Decision:
    """The pod with tolerations and node conditions, and findings on its wishes and requests."""
    if pod.is_past_scheduling or not (may_request_gpu(pod.document) or has_our_annotations(pod.document)):
        return Decision(object=request.object)
    from policies.placement import TOLERATIONS, is_opted_in, missing_tolerations
    from policies.placement.place import own_conditions, place
    from policies.placement.resource_requests import node_findings
    from policies.placement.selector_misspellings import existing_labels
    from policies.placement.wish_annotations import read_wishes

    edits = Editor(request.object)
    findings: list[Finding] = []
    chooses = _is_converted(pod)
    if not chooses:
        wishes = read_wishes(pod, request.namespace, view, settings)
        findings += place(pod, view, settings, wishes, edits)
        if wishes.wish.nic:
            from policies.placement.node_conditions import unclaimed_nics

            findings += unclaimed_nics(pod, request.namespace, view, wishes)
        placed = replace(pod, document=edits.document) if edits else pod
        findings += node_findings(placed, request.namespace, view, settings)
        findings += existing_labels(own_conditions(pod, view, settings, wishes), view)
        chooses = bool(wishes.wish) or is_opted_in(request.namespace, view, settings)
    tolerations = missing_tolerations(pod, request.namespace, settings, is_opted_in=chooses)
    # The claims of a pod are read only for one that lacks a toleration: conversion has added them already.
    if tolerations and probably_gets_gpu(pod.document, request.namespace, view):
        edits.extend(TOLERATIONS, tolerations)
    return Decision(findings=tuple(findings), patch=tuple(edits.operations), object=edits.document)


def _is_converted(pod: Pod) -> bool:
    """True if a pod was converted, as far as its marks prove it; its conditions are in the claim then."""
    if RECORD not in pod.annotations:
        return False
    from policies.conversion.converted_pods import conversion_record

    return conversion_record(pod) is not None


def _access(request: Request, view: ClusterView, settings: GPUAdmissionPolicy) -> Decision:
    """Findings on new containers, also ephemeral ones, that get GPUs without a request to the scheduler.

    The pod may have any shape; `_placement` reports what is malformed.
    """
    from policies.access import validate

    seen = _with_own_templates(request, view, settings)
    return Decision(findings=tuple(validate(request, seen, settings)), object=request.object)


def quota(request: Request, view: ClusterView, settings: GPUAdmissionPolicy) -> Decision:
    """The charge of the object. The pipeline decides on the object once it is charged."""
    from policies.quota.charging import charge_decision

    entry = ENTRIES.get(request.entry)
    policy = None if entry is None else entry.concerns.get("quota")
    seen = _with_own_templates(request, view, settings)
    # The API server read the label of the namespace to choose the entry.
    return charge_decision(request, seen, settings, enforced=None if policy is None else policy == "Fail")


def _with_own_templates(request: Request, view: ClusterView, settings: GPUAdmissionPolicy) -> ClusterView:
    """The cluster, also with the templates that a pod which is being converted refers to.

    Another replica may have created the template a moment ago, and on a dry run none is created. Its name is the hash of
    its content, so a template that conversion would give this pod need not be read.
    """
    if not is_being_converted(request, view):
        return view
    from policies.admission.conversion import with_own_templates

    return with_own_templates(request, view, settings)


def _claims(request: Request, view: ClusterView, settings: GPUAdmissionPolicy) -> Decision:
    """Findings on a claim, a template, a DeviceClass, a ComputeDomain or a DeviceTaintRule."""
    is_claim = (request.group, request.kind) in CLAIM_KINDS
    if not is_claim or request.subresource or request.operation == "DELETE":
        return Decision(object=request.object)
    from policies.claims import validate

    return Decision(findings=tuple(validate(request, view, settings)), object=request.object)


def _configuration(request: Request, view: ClusterView, settings: GPUAdmissionPolicy) -> Decision:
    """Findings on configuration of GPU clusters, on our own kinds, and on labels of nodes.

    Labels of nodes are also reviewed if the status of the node is written.
    """
    if request.subresource and (request.kind, request.subresource) != ("Node", "status"):
        return Decision(object=request.object)
    from policies.configuration import is_lenient, uses, validate, validate_settings
    from policies.placement.wish_labels import existing_products
    from policies.quota.limits.rules import validate as validate_quota

    match request.group, request.kind:
        case "gpu-admission.io", "GPUQuota" | "ClusterGPUQuota":
            found = [*validate_quota(request, view, settings)]
        case "gpu-admission.io", "GPUAdmissionPolicy":
            found = [*validate_settings(request, view, settings, rule_book())]
            with suppress(SettingsError):  # GA701 has reported it.
                found += existing_products(parse_settings(request.object), view)
        case _:
            found = [*validate(request, view, settings)]
    if not found:
        return Decision(object=request.object)
    if is_lenient(request, view, settings):
        found = [replace(finding, never_refuses=True) for finding in found]
    return Decision(findings=tuple(found), object=request.object, context=uses(request, view, settings))


def load_rules() -> None:
    """Import every module that a review can need."""
    from policies.admission import conversion  # noqa: F401 - the concern, which has no rules itself

    rule_book()


def warm(view: ClusterView) -> None:
    """Compute the digests that take longest: a second for 5,000 nodes with 40,000 GPUs.

    After a change they take a hundredth of that. If several threads use a view, one of them may call this.
    """
    from policies.devices.published_devices import published_devices
    from policies.fleet.gpu_nodes import gpu_nodes
    from policies.kubernetes.versions import proven_features
    from policies.placement.wanted_nodes import gpu_kinds
    from policies.quota.demands.classes import classes
    from policies.quota.demands.device_kinds import node_kinds

    for digest in (published_devices, proven_features, gpu_nodes, gpu_kinds, classes, node_kinds):
        view.derive(digest)
