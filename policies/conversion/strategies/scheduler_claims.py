"""The strategies `leave` and `rename`: the scheduler makes the claim for an extended resource.

With `leave`, a DeviceClass carries the name of the resource (`spec.extendedResourceName`). With `rename`, the resource
becomes the implicit name of a DeviceClass. A name says which class and how many, and nothing else: a resource that needs
a selector on devices cannot be renamed. Containers share devices as under the device plugin, and no template is needed.

Source: KEP-5004; k8s.io/kubernetes pkg/scheduler/framework/plugins/dynamicresources/extendeddynamicresources.go.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from policies.conversion.conversion import Conversion
from policies.conversion.converted_pods import mark, remove_resources
from policies.conversion.gpu_amounts import gpu_resources
from policies.conversion.opt_in import NAMESPACE
from policies.conversion.strategies.template import notices
from policies.conversion.surroundings import NO_CLASS, claim_refusals
from policies.conversion.versions import kubelet_problem, server_problem
from policies.decision import Severity
from policies.dra.deviceclasses import GPU_CLASS
from policies.fleet.known_classes import known_classes
from policies.kubernetes.paths import FieldPath
from policies.metadata_keys import PREFIX
from policies.nvidia.identifiers import GPU_RESOURCE
from policies.nvidia.predicates import TRUE
from policies.nvidia.resources import IMPLICIT_PREFIX, parse_resource
from policies.nvidia.wishes.device_predicate import device_predicate
from policies.patch import Editor
from policies.rules import rule
from policies.view import UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from policies.conversion.conversion import ConversionCandidate
    from policies.decision import Finding
    from policies.kubernetes.pods import Container, Pod
    from policies.view import ClusterView, Unknown


__all__ = ["leave", "rename", "translations"]


def leave(candidate: ConversionCandidate) -> Conversion:
    """Leave a pod as it is if the cluster hands out by DRA what it requests."""
    return Conversion(obstacles=tuple(_unmapped_resources(candidate)))


INCAPABLE = rule(
    "GA331",
    "The cluster must support the conversion strategy",
    default=Severity.DENY,
    why="""
    DRA hands out extended resources since Kubernetes 1.36. An older API server or scheduler would leave the pod Pending;
    an older kubelet may start it without its GPU. Where a version, a node or a DeviceClass is not known, nothing is
    assumed. The administrator's choice is not exchanged for another; the strategy auto is the one that chooses.""",
    remedy="upgrade what is older, or set gpu-admission.io/dra-strategy to template or auto on the namespace",
    source="KEP-5004; k8s.io/kubernetes pkg/features/kube_features.go DRAExtendedResource, "
    "pkg/kubelet/lifecycle/predicate.go",
)

UNMAPPED = rule(
    "GA332",
    "A resource that is left as it is must stand for a DeviceClass",
    default=Severity.DENY,
    why="""
    The strategy leave changes nothing: the scheduler makes a claim for nvidia.com/gpu because a DeviceClass carries that
    name. Where none does, only nodes with a device plugin hand it out, and the namespace would not use DRA at all. The
    GPU Operator's own class gpu.nvidia.com does not carry the name; the one of the DRA driver's Helm chart does.""",
    remedy="set extendedResourceName on the DeviceClass, or set gpu-admission.io/dra-strategy to template or auto",
    source="KEP-5004; github.com/NVIDIA/gpu-operator issue 2859",
)


def _unmapped_resources(candidate: ConversionCandidate) -> Iterator[Finding]:
    classes = known_classes(candidate.view)
    for resource, path in candidate.places.items():
        if not classes.are_listed:
            text = "is left to a DeviceClass that stands for it, and the DeviceClasses are not known"
            yield INCAPABLE.finding(path, text)
        elif not classes.standing_for(resource):
            yield UNMAPPED.finding(path, f"no DeviceClass has extendedResourceName: {resource}")
    # Nodes with a device plugin need nothing of DRA, and their kubelets may be older.
    problem = kubelet_problem(candidate.view, of_dra_only=True)
    if problem is not None:
        text = f"{problem}, and the strategy leave needs Kubernetes 1.36 on every node whose GPUs are handed out by DRA"
        yield INCAPABLE.finding(NAMESPACE, text)


_LONGEST_NAME = 63
"""Characters of the part of a resource's name that follows the slash."""


def rename(candidate: ConversionCandidate) -> Conversion:
    """Convert a pod by renaming its resources."""
    if obstacles := candidate.obstacles or tuple(_unfit_for_renaming(candidate)):
        return Conversion(obstacles=obstacles)
    classes, obstacles = _classes(candidate)
    if obstacles := (*obstacles, *_classes_with_two_names(candidate.pod, classes)):
        return Conversion(obstacles=obstacles)
    record = replace(candidate.record, classes=classes)
    edits = Editor(candidate.pod.document)
    counts = {each.name: each.resources for each in record.containers}
    for container in candidate.pod.all_containers:
        _rename_in(container, counts.get(container.name, {}), classes, edits)
    if not candidate.settings.conversion.keep_translated_labels:
        record.constraints.remove(edits)
    mark(candidate.pod, record, edits)
    found = (*notices(candidate, record), *claim_refusals((), candidate, edits.document))
    return Conversion(notices=found, edits=edits, record=record)


NOT_RENAMED = rule(
    "GA330",
    "A pod that is renamed must need nothing beyond a DeviceClass",
    default=Severity.DENY,
    why="""
    The strategy rename requests a DeviceClass by its implicit resource name,
    deviceclass.resource.kubernetes.io/<class>. Such a name says which class and how many. Conditions on GPU labels,
    wishes and shares become selectors and capacities of a claim, and would be lost; the pod would get another GPU than it
    requested.""",
    remedy="set gpu-admission.io/dra-strategy: template on the namespace, or drop the condition",
    source="KEP-5004",
)


def _unfit_for_renaming(candidate: ConversionCandidate) -> Iterator[Finding]:
    """Findings about why this pod, or any pod of this cluster, cannot be renamed."""
    for path, text in translations(candidate):
        yield NOT_RENAMED.finding(path, f"{text}, and a renamed resource can only name a DeviceClass")
    for problem in (server_problem(candidate.view), kubelet_problem(candidate.view)):
        if problem is not None:
            text = f"{problem}, and the strategy rename needs Kubernetes 1.36 on the API server and every GPU node"
            yield INCAPABLE.finding(NAMESPACE, text)


def _classes(candidate: ConversionCandidate) -> tuple[dict[str, str], tuple[Finding, ...]]:
    """The DeviceClass of each resource, and what is wrong with it."""
    classes, findings = {}, []
    for resource, path in candidate.places.items():
        name = class_for(resource, candidate.view)
        if name is UNKNOWN:
            text = "becomes the name of a DeviceClass, and the DeviceClasses are not known"
            findings.append(INCAPABLE.finding(path, text))
        elif name is None:
            usual = usual_class(resource)
            text = f'no DeviceClass stands for it, by extendedResourceName or by the name "{usual}"'
            findings.append(NO_CLASS.finding(path, text, f"create a DeviceClass with extendedResourceName: {resource}"))
        elif len(name) > _LONGEST_NAME:
            text = (
                f'the name of DeviceClass "{name}" has {len(name)} characters, and {_LONGEST_NAME} can be in a resource'
            )
            findings.append(NOT_RENAMED.finding(path, text))
        else:
            classes[resource] = name
    return classes, tuple(findings)


def _classes_with_two_names(pod: Pod, classes: Mapping[str, str]) -> Iterator[Finding]:
    """Findings about containers that request one class by two names, such as its implicit name."""
    for container in pod.all_containers:
        new = [classes[resource] for resource in gpu_resources(container) if resource in classes]
        for name in dict.fromkeys(new):
            resource = IMPLICIT_PREFIX + name
            if new.count(name) > 1 or resource in container.limits or resource in container.requests:
                path = container.path / "resources" / "limits"
                text = f"requests DeviceClass {name} by two names, of which renaming leaves only one"
                yield NOT_RENAMED.finding(path, text, "request all of these GPUs by one name")


def _rename_in(container: Container, counts: Mapping[str, int], classes: Mapping[str, str], edits: Editor) -> None:
    for resource, count in sorted(counts.items()):
        if count:
            for section in ("limits", "requests"):
                edits.add(container.path / "resources" / section / (IMPLICIT_PREFIX + classes[resource]), str(count))
    remove_resources(container, gpu_resources(container), edits)


def class_for(resource: str, view: ClusterView) -> str | Unknown | None:
    """The DeviceClass whose devices are exactly those of a resource; None if no such class exists.

    This is the class that stands for the resource, or else the one with the usual name.
    """
    classes = known_classes(view)
    if not classes.are_listed:
        return UNKNOWN
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
    for resource, count in record.shares.items():
        shares = "1 share" if count == 1 else f"{count} shares"
        yield places[resource], f"{resource} stands for {shares} of a device"
    if record.gpu == "mig" and GPU_RESOURCE in places:
        yield places[GPU_RESOURCE], f"{GPU_RESOURCE} stands for MIG devices on the nodes of this pod"
