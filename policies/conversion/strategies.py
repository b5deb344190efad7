"""Strategies of conversion: how the pods of a namespace get GPUs by DRA."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Literal

from policies.conversion.converted_pods import mark, remove_resources
from policies.conversion.device_layout import requests_by_container
from policies.conversion.exemptions import NAMESPACE, allowed_opt_out
from policies.conversion.gpu_amounts import gpu_resources
from policies.conversion.preemption import no_lost_preemption
from policies.conversion.record import Conversion
from policies.conversion.surroundings import (
    admitted_claims,
    device_findings,
    effective_quotas,
    kubelet_problem,
    node_problems,
    own_template,
    server_problem,
)
from policies.devices.deviceclasses import GPU_CLASS
from policies.fleet.gpu_nodes import gpu_nodes
from policies.fleet.known_classes import known_classes
from policies.kubernetes.names import PREFIX
from policies.kubernetes.objects import FieldPath
from policies.kubernetes.pods import SPEC
from policies.kubernetes.versions import Feature
from policies.kubernetes.view import UNKNOWN
from policies.nvidia.identifiers import GPU_RESOURCE
from policies.nvidia.labels import device_predicate
from policies.nvidia.mig import IMPLICIT_PREFIX, parse_resource
from policies.nvidia.predicates import TRUE
from policies.rules.checks import PODS, Problem
from policies.rules.decision import Severity
from policies.rules.patch import Editor

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from policies.conversion.record import ConversionCandidate, ConversionRecord
    from policies.kubernetes.pods import Pod
    from policies.kubernetes.view import ClusterView
    from policies.rules.decision import Finding
    from policies.rules.settings import GPUAdmissionPolicy


def template(candidate: ConversionCandidate) -> Conversion:
    """Convert a pod to a claim; works in every cluster that has DRA, from Kubernetes 1.34 on."""
    if candidate.obstacles:
        return Conversion(obstacles=candidate.obstacles)
    record, view, places = candidate.record, candidate.view, candidate.places
    made = record.template(candidate.namespace)
    if obstacles := (*existing_classes(classes_of(record, places), places, view), *own_template(made, view)):
        return Conversion(obstacles=obstacles)
    edits = Editor(candidate.pod.document)
    _refer(candidate.pod, record, made.name, edits)
    if not candidate.settings.conversion.keep_translated_labels:
        record.constraints.remove(edits)
    mark(candidate.pod, record, edits)
    found = (*notices(candidate, record), *admitted_claims([made], candidate, edits.document))
    return Conversion(notices=found, edits=edits, template=made, record=record)


def notices(candidate: ConversionCandidate, record: ConversionRecord) -> Iterator[Finding]:
    """Findings about a pod that is converted."""
    view, places, settings = candidate.view, candidate.places, candidate.settings
    yield from effective_quotas(record, view, candidate.namespace, places, settings, candidate.pod.document)
    yield from device_findings(record, view, places, settings)
    yield from no_lost_preemption(candidate)
    yield from node_problems(view, next(iter(places.values())))
    yield from allowed_opt_out(candidate.pod, settings)


def _refer(pod: Pod, record: ConversionRecord, template_name: str, edits: Editor) -> None:
    """Let containers use the requests of the claim instead of extended resources."""
    taken = {claim.get("name") for claim in pod.resource_claims}
    names = ("gpu", *(f"gpu-{number}" for number in range(1, len(taken) + 1)))
    claim = next(name for name in names if name not in taken)
    requests = requests_by_container(record.claim.pieces)
    for container in pod.all_containers:
        if container.name in requests:
            uses = [{"name": claim, "request": request} for request in requests[container.name]]
            edits.extend(container.path / "resources" / "claims", uses)
    for container in pod.all_containers:
        remove_resources(container, [*gpu_resources(container), *record.foreign], edits)
    edits.extend(SPEC / "resourceClaims", [{"name": claim, "resourceClaimTemplateName": template_name}])


def leave(candidate: ConversionCandidate) -> Conversion:
    """Leave a pod as it is if the cluster hands out by DRA what it requests."""
    nic = claimable_nic(candidate.record, candidate.view, candidate.settings, "left")
    return Conversion(obstacles=(*mapped_resources(candidate), *capable_cluster(candidate, "leave"), *nic))


@PODS.rule(
    "GA331",
    "The cluster must support the conversion strategy",
    remedy="ask your administrator for the strategy template or auto",
    administrator="upgrade what is older, or set gpu-admission.io/dra-strategy to template or auto on the namespace",
    source="KEP-5004; k8s.io/kubernetes pkg/features/kube_features.go DRAExtendedResource, "
    "pkg/kubelet/lifecycle/predicate.go",
)
def capable_cluster(
    candidate: ConversionCandidate, strategy: Literal["leave", "rename"], *, needs_classes: bool = True
) -> Iterator[Problem]:
    """DRA hands out extended resources where DRAExtendedResource is on (by default since 1.36).

    An older API server or scheduler would leave the pod Pending; an older kubelet may start it without its GPU.
    Where a version, a node or a DeviceClass is not known, nothing is assumed. The administrator's choice is not
    exchanged for another; the strategy auto is the one that chooses.
    """
    view = candidate.view
    if needs_classes and not known_classes(view).are_listed:
        text = (
            "is left to a DeviceClass that stands for it"
            if strategy == "leave"
            else "becomes the name of a DeviceClass"
        )
        for path in candidate.places.values():
            yield Problem(path, f"{text}, and the DeviceClasses are not known")
    if strategy == "leave":
        # Nodes with a device plugin need nothing of DRA, and their kubelets may be older.
        older, where = [kubelet_problem(view, of_dra_only=True)], "every node whose GPUs are handed out by DRA"
    else:
        older, where = [server_problem(view), kubelet_problem(view)], "the API server and every GPU node"
    needed = f"{Feature.DRAExtendedResource.name} (Kubernetes {Feature.DRAExtendedResource.on_since})"
    for reason in filter(None, older):
        yield Problem(NAMESPACE, f"{reason}, and the strategy {strategy} needs {needed} on {where}")


@PODS.rule(
    "GA332",
    "A resource that is left as it is must stand for a DeviceClass",
    remedy="ask your administrator for the strategy template or auto",
    administrator="set extendedResourceName on the DeviceClass, or set gpu-admission.io/dra-strategy to template or auto on the "
    "namespace",
    source="KEP-5004; k8s.io/kubernetes pkg/scheduler/framework/plugins/dynamicresources/extendeddynamicresources.go "
    "preFilterExtendedResources; github.com/NVIDIA/gpu-operator issue 2859",
)
def mapped_resources(candidate: ConversionCandidate) -> Iterator[Problem]:
    """The strategy leave changes nothing.

    The scheduler makes a claim for nvidia.com/gpu because a DeviceClass carries that name. Where none does, only
    nodes with a device plugin hand it out: as long as there is one, the pod runs there, and this is only a warning. The
    GPU Operator's own class gpu.nvidia.com does not carry the name; the one of the DRA driver's Helm chart does.
    """
    classes, nodes = known_classes(candidate.view), gpu_nodes(candidate.view)
    for resource, path in candidate.places.items():
        if classes.are_listed and not classes.standing_for(resource):
            is_offered = nodes is not UNKNOWN and any(resource in traits.offers for traits in nodes.traits)
            text = f"no DeviceClass has extendedResourceName: {resource}"
            if is_offered:
                text += ", and only nodes with a device plugin hand it out"
            yield Problem(path, text, severity=Severity.WARN if is_offered else None)


_LONGEST_NAME = 63
"""Characters of the part of a resource's name that follows the slash."""


def rename(candidate: ConversionCandidate) -> Conversion:
    """Convert a pod by renaming its resources."""
    if candidate.obstacles:
        return Conversion(obstacles=candidate.obstacles)
    if unfit := (*only_a_class(candidate), *capable_cluster(candidate, "rename", needs_classes=False)):
        return Conversion(obstacles=unfit)
    if not known_classes(candidate.view).are_listed:
        return Conversion(obstacles=tuple(capable_cluster(candidate, "rename")))
    named = {resource: class_for(resource, candidate.view) for resource in candidate.places}
    classes = {resource: name for resource, name in named.items() if name is not None}
    missing = existing_classes(named.items(), candidate.places, candidate.view)
    if obstacles := (*missing, *only_a_class(candidate, classes)):
        return Conversion(obstacles=obstacles)
    record = replace(candidate.record, classes=classes)
    edits = Editor(candidate.pod.document)
    counts = {each.name: each.resources for each in record.containers}
    for container in candidate.pod.all_containers:
        resources = container.path / "resources"
        for resource, count in sorted(counts.get(container.name, {}).items()):
            for section in ("limits", "requests") if count else ():
                edits.add(resources / section / (IMPLICIT_PREFIX + classes[resource]), str(count))
        remove_resources(container, gpu_resources(container), edits)
    if not candidate.settings.conversion.keep_translated_labels:
        record.constraints.remove(edits)
    mark(candidate.pod, record, edits)
    found = (*notices(candidate, record), *admitted_claims((), candidate, edits.document))
    return Conversion(notices=found, edits=edits, record=record)


@PODS.rule(
    "GA330",
    "A pod that is renamed must need nothing beyond a DeviceClass",
    remedy="drop the condition, or ask your administrator for the strategy template",
    administrator="set gpu-admission.io/dra-strategy: template on the namespace",
    source="KEP-5004",
)
def only_a_class(candidate: ConversionCandidate, classes: Mapping[str, str] | None = None) -> Iterator[Problem]:
    """The strategy rename requests a DeviceClass by its implicit resource name.

    That is deviceclass.resource.kubernetes.io/<class>. Such a name says which class and how many. Conditions on GPU
    labels, wishes and shares become selectors and capacities of a claim, and would be lost; the pod would get
    another GPU than it requested.
    """
    if classes is None:
        for path, text in translations(candidate):
            yield Problem(path, f"{text}, and a renamed resource can only name a DeviceClass")
        return
    for resource, name in classes.items():
        if len(name) > _LONGEST_NAME:
            text = (
                f'the name of DeviceClass "{name}" has {len(name)} characters, and {_LONGEST_NAME} can be in a resource'
            )
            yield Problem(candidate.places[resource], text)
    for container in candidate.pod.all_containers:
        new = [classes[resource] for resource in gpu_resources(container) if resource in classes]
        for name in dict.fromkeys(new):
            resource = IMPLICIT_PREFIX + name
            if new.count(name) > 1 or resource in container.limits or resource in container.requests:
                path = container.path / "resources" / "limits"
                text = f"requests DeviceClass {name} by two names, of which renaming leaves only one"
                yield Problem(path, text, "request all of these GPUs by one name")


@PODS.rule(
    "GA310",
    "The DeviceClass of a converted request must exist",
    remedy="ask your administrator to install NVIDIA's DRA driver or to turn conversion off",
    administrator="install NVIDIA's DRA driver, or remove the label gpu-admission.io/dra from the namespace",
    source="k8s.io/kubernetes pkg/scheduler/framework/plugins/dynamicresources PreFilter",
)
def existing_classes(
    classes: Iterable[tuple[str, str | None]], places: Mapping[str, FieldPath], view: ClusterView
) -> Iterator[Problem]:
    """A claim of a class that does not exist keeps its pod Pending ("device class does not exist").

    NVIDIA's DRA driver brings the classes gpu.nvidia.com and mig.nvidia.com; where they are missing, it is not
    installed.
    """
    for resource, name in classes:
        if name is None:
            text = f'no DeviceClass stands for it, by extendedResourceName or by the name "{usual_class(resource)}"'
            yield Problem(places[resource], text, f"create a DeviceClass with extendedResourceName: {resource}")
        elif view.get("DeviceClass", name) is None:
            yield Problem(places[resource], f'becomes a claim of DeviceClass "{name}", which does not exist')


def classes_of(record: ConversionRecord, resources: Iterable[str]) -> list[tuple[str, str]]:
    """Each resource with each DeviceClass that it becomes."""
    return [(resource, name) for resource in resources for name in record.device_classes(resource)]


def class_for(resource: str, view: ClusterView) -> str | None:
    """The DeviceClass whose devices are exactly those of a resource; None if no such class exists.

    This is the class that stands for the resource, or else the one with the usual name.
    """
    classes = known_classes(view)
    mapped = classes.standing_for(resource)
    if mapped:
        return mapped[0]
    usual = usual_class(resource)
    return usual if usual in classes else None


def usual_class(resource: str) -> str:
    """The usual name of a resource's DeviceClass: that of the MIG profile, or of all whole GPUs.

    Source: github.com/kubernetes-sigs/dra-driver-nvidia-gpu demo/specs/extended-resources.
    """
    parsed = parse_resource(resource)
    if parsed is not None and parsed.profile is not None:
        return f"mig-{parsed.profile.label.replace('.', '-').lower()}.gpu.nvidia.com"
    return GPU_CLASS


_ANNOTATIONS = FieldPath(["metadata", "annotations"])
_NIC = _ANNOTATIONS / f"{PREFIX}nic"
_WITHOUT_NIC = f"remove the annotation {PREFIX}nic"


@PODS.rule(
    "GA342",
    "A wish for network devices must be one that a claim can request",
    default=Severity.WARN,
    remedy=_WITHOUT_NIC,
    source="docs/conversion.md; github.com/kubernetes-sigs/dra-driver-nvidia-gpu cmd/gpu-kubelet-plugin/deviceinfo.go Attributes, "
    "mig.go CommonAttributesMig",
)
def claimable_nic(
    record: ConversionRecord,
    view: ClusterView,
    settings: GPUAdmissionPolicy,
    state: Literal["new", "left", "converted"] = "new",
) -> Iterator[Problem]:
    """The claim requests a network device beside each GPU, of the DeviceClass that the settings name.

    Without the setting or the class no claim can say which device is meant, and a share of a GPU, or a part of one by
    gpu-memory, has no network device of its own. The pod is left as it is then. A pod that was converted with another class
    than the settings name now is refused: conversion would not write its claim.
    """
    nic = settings.conversion.nic
    if state == "converted":
        if record.nic is not None and record.nic != nic:
            before = f'was converted with network devices of DeviceClass "{record.nic.device_class}"'
            text = f"{before} that have the same {record.nic.match_attribute}, and spec.conversion.nic differs now"
            remedy = "create the pod from its own manifest, without what gpu-admission wrote"
            yield Problem(_NIC, text, remedy, severity=Severity.DENY)
    elif record.wish.nic is None:
        return
    elif state == "left":
        text = "only a claim requests network devices, and the strategy leave makes none"
        yield Problem(_NIC, text, f"ask your administrator for the strategy template, or {_WITHOUT_NIC}")
    elif nic is None:
        remedy = f"ask your administrator to set spec.conversion.nic in the GPUAdmissionPolicy, or {_WITHOUT_NIC}"
        administrator = "set spec.conversion.nic in the GPUAdmissionPolicy to the DeviceClass of the network devices"
        yield Problem(_NIC, "no DeviceClass of network devices is set", remedy, administrator=administrator)
    elif record.is_divided:
        text = (
            "the pod gets parts of GPUs that others may share, and only whole devices are paired with network devices"
        )
        yield Problem(_NIC, text, f"request whole GPUs, or {_WITHOUT_NIC}")
    elif view.get("DeviceClass", nic.device_class) is None:
        remedy = f"ask your administrator to install the driver of the network devices, or {_WITHOUT_NIC}"
        administrator = "install the driver of the network devices, or correct spec.conversion.nic.deviceClass"
        text = f'DeviceClass "{nic.device_class}" of the network devices does not exist'
        yield Problem(_NIC, text, remedy, administrator=administrator)


def translations(candidate: ConversionCandidate) -> Iterator[tuple[FieldPath, str]]:
    """Paths and texts of conditions that only a claim can express, and no name of a DeviceClass.

    `candidate.obstacles` must be empty.
    """
    record, places = candidate.record, candidate.places
    subjects = [record.subject(resource) for resource in places]
    if any(record.constraints.predicate(subject) != TRUE for subject in subjects):
        path, key = next(record.constraints.places())
        yield path, f"the condition on {key} becomes a selector on devices"
    if any(device_predicate(record.wish, subject) != TRUE for subject in subjects):
        word = next(word for word in record.wish.words() if word != "sharing")
        yield _ANNOTATIONS / (PREFIX + word), f"the wish for {word} becomes a selector on devices"
    if record.nic is not None:
        yield _NIC, "the wish for nic becomes requests of network devices beside the GPUs"
    for resource in dict.fromkeys((*record.shares, *record.memory, *record.shareable)):
        yield places[resource], f"{resource} stands for {record.part(resource).words()}"
    for resource in record.apart:
        yield places[resource], f"{resource} stands for devices that must differ"
    if record.gpu == "mig" and GPU_RESOURCE in places:
        yield places[GPU_RESOURCE], f"{GPU_RESOURCE} stands for MIG devices on the nodes of this pod"


@PODS.rule(
    "GA333",
    "The strategy auto must report what it chooses",
    default=Severity.WARN,
    remedy="set gpu-admission.io/dra-strategy to template or leave on the namespace to have one of them always",
    source="docs/conversion.md",
)
def reported_choice(candidate: ConversionCandidate, reason: str | None) -> Iterator[Problem]:
    """The strategy auto leaves a pod as it is, or makes a claim from a template.

    It leaves the pod if a DeviceClass stands for what it requests, nothing needs translating and every GPU node's
    kubelet has DRAExtendedResource on by default (1.36); every other pod gets a claim from a template. The choice may
    change, so a warning says for each pod what was chosen and why.
    """
    text = f"the strategy auto makes a claim from a template: {reason}"
    if reason is None:
        classes = known_classes(candidate.view)
        named = " and ".join(f'"{classes.standing_for(resource)[0]}"' for resource in candidate.places)
        text = f"the strategy auto leaves the pod as it is: DRA hands out its GPUs by DeviceClass {named}"
    yield Problem(NAMESPACE, text)


def auto(candidate: ConversionCandidate) -> Conversion:
    """Choose `leave` or `template` for a pod, and report why; anything unknown leads to `template`."""
    if candidate.obstacles:
        return template(candidate)
    reason = _reason_for_template(candidate)
    if reason is None:
        return Conversion(notices=tuple(reported_choice(candidate, None)))
    converted = template(candidate)
    if converted.obstacles:
        return converted
    return replace(converted, notices=(*converted.notices, *reported_choice(candidate, reason)))


def _reason_for_template(candidate: ConversionCandidate) -> str | None:
    classes = known_classes(candidate.view)
    if not classes.are_listed:
        return "the DeviceClasses are not known"
    unmapped = next((resource for resource in candidate.places if not classes.standing_for(resource)), None)
    if unmapped is not None:
        return f"no DeviceClass has extendedResourceName: {unmapped}"
    translated = next((text for _, text in translations(candidate)), None)
    return translated or server_problem(candidate.view) or kubelet_problem(candidate.view)


STRATEGIES = {"template": template, "rename": rename, "leave": leave, "auto": auto}
"""By the value of the namespace label `gpu-admission.io/dra-strategy`."""
