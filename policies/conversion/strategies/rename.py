"""The strategy `rename`: the resource goes by the implicit name of a DeviceClass, and the scheduler makes the claim.

A name says which class and how many, and nothing else: what needs a selector on devices cannot be renamed. Containers
share devices as under the device plugin, and no template is needed.

Source: KEP-5004; k8s.io/kubernetes pkg/scheduler/framework/plugins/dynamicresources/extendeddynamicresources.go.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from policies.conversion.amounts import gpu_resources
from policies.conversion.conversion import Conversion
from policies.conversion.mapped_classes import class_for, usual_class
from policies.conversion.opt_in import NAMESPACE
from policies.conversion.record import mark, remove_resources
from policies.conversion.references import NO_CLASS
from policies.conversion.strategies.leave import INCAPABLE
from policies.conversion.strategies.template import notices
from policies.conversion.translations import translations
from policies.conversion.versions import kubelet_problem, server_problem
from policies.decision import Severity
from policies.nvidia.resources import IMPLICIT_PREFIX
from policies.patch import Editor
from policies.rules import rule
from policies.view import UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from policies.conversion.conversion import Question
    from policies.decision import Finding
    from policies.kubernetes.pods import Container, Pod

__all__ = ["rename"]

_LONGEST_NAME = 63
"""Characters of the part of a resource's name that follows the slash."""


def rename(question: Question) -> Conversion:
    """Convert a pod by new names of its resources."""
    if obstacles := question.obstacles or tuple(_unable(question)):
        return Conversion(obstacles=obstacles)
    classes, obstacles = _classes(question)
    if obstacles := (*obstacles, *_asked_twice(question.pod, classes)):
        return Conversion(obstacles=obstacles)
    asked = replace(question.asked, classes=classes)
    edits = Editor(question.pod.document)
    counts = {ask.name: ask.resources for ask in asked.containers}
    for container in question.pod.all_containers:
        _rename_in(container, counts.get(container.name, {}), classes, edits)
    if not question.settings.conversion.keep_translated_labels:
        asked.constraints.remove(edits)
    mark(question.pod, asked, edits)
    return Conversion(notices=tuple(notices(question, asked)), edits=edits, asked=asked)


NOT_RENAMED = rule(
    "GA330",
    "A pod that is renamed must need nothing beyond a DeviceClass",
    default=Severity.DENY,
    why="""
    The strategy rename asks for a DeviceClass by its implicit resource name, deviceclass.resource.kubernetes.io/<class>.
    Such a name says which class and how many. Conditions on GPU labels, wishes and shares become selectors and
    capacities of a claim, and would be lost; the pod would get another GPU than it asked for.""",
    remedy="set gpu-admission.io/dra-strategy: template on the namespace, or drop the condition",
    source="KEP-5004",
)


def _unable(question: Question) -> Iterator[Finding]:
    """Why this pod, or any in this cluster, cannot be renamed."""
    for path, text in translations(question):
        yield NOT_RENAMED.finding(path, f"{text}, and a renamed resource can only name a DeviceClass")
    for problem in (server_problem(question.view), kubelet_problem(question.view)):
        if problem is not None:
            text = f"{problem}, and the strategy rename needs Kubernetes 1.36 on the API server and every GPU node"
            yield INCAPABLE.finding(NAMESPACE, text)


def _classes(question: Question) -> tuple[dict[str, str], tuple[Finding, ...]]:
    """The DeviceClass of each resource, and what is wrong with it."""
    classes, findings = {}, []
    for resource, path in question.places.items():
        name = class_for(resource, question.view)
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


def _asked_twice(pod: Pod, classes: Mapping[str, str]) -> Iterator[Finding]:
    """Containers that ask for a class by its implicit name already, or for one class by two names."""
    for container in pod.all_containers:
        new = [classes[resource] for resource in gpu_resources(container) if resource in classes]
        for name in dict.fromkeys(new):
            resource = IMPLICIT_PREFIX + name
            if new.count(name) > 1 or resource in container.limits or resource in container.requests:
                path = container.path / "resources" / "limits"
                text = f"asks for DeviceClass {name} by two names, and one is left of them when it is renamed"
                yield NOT_RENAMED.finding(path, text, "ask for all of these GPUs by one name")


def _rename_in(container: Container, counts: Mapping[str, int], classes: Mapping[str, str], edits: Editor) -> None:
    for resource, count in sorted(counts.items()):
        if count:
            for section in ("limits", "requests"):
                edits.add(container.path / "resources" / section / (IMPLICIT_PREFIX + classes[resource]), str(count))
    remove_resources(container, gpu_resources(container), edits)
