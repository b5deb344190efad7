"""Asks: what a pod asks for, piece by piece, and what it got once it is bound."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from policies.checks import Problem, problem
from policies.kubernetes.paths import lookup
from policies.kubernetes.pods import SPEC
from policies.kubernetes.printable import shown
from policies.nvidia.resources import IMPLICIT_PREFIX
from policies.quota.asks.claims import asks_of_template
from policies.quota.asks.extended import Extended
from policies.quota.charges import OWN
from policies.view import UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from policies.kubernetes.paths import FieldPath
    from policies.kubernetes.pods import Pod
    from policies.quota.charges import Ask
    from policies.settings.choices import Quotas
    from policies.view import ClusterView

__all__ = ["PodAsks", "asks_of_pod", "got_by_pod", "priority_class_of"]


@dataclass(frozen=True, slots=True)
class PodAsks:
    """What a pod asks for."""

    pieces: Mapping[str, tuple[Ask, ...]] = field(default_factory=dict)
    """`OWN` for extended resources, and what its claims from templates ask for by their names in `spec.resourceClaims`;
    pieces without a GPU are left out."""
    problems: tuple[Problem, ...] = ()
    """What it names and cannot be found, and what is charged therefore."""


def asks_of_pod(pod: Pod, namespace: str, view: ClusterView, settings: Quotas) -> PodAsks:
    """What a pod asks for that has no node yet.

    A claim that it names by `resourceClaimName` costs nothing here: it was charged when it was made.

    Args:
        pod: as it is stored, after all mutating webhooks.
        namespace: where it is created.
        view: the cluster, with nodes, classes, slices and templates.
        settings: how quotas count.
    """
    extended = Extended(pod, priority_class_of(pod), view, settings)
    pieces = {OWN: tuple(extended.asks.values())}
    problems = [_missing_class(pod, name) for name in extended.missing_classes]
    for index, entry in enumerate(pod.resource_claims):
        template = entry.get("resourceClaimTemplateName")
        if not template:
            continue
        path = SPEC / "resourceClaims" / index / "resourceClaimTemplateName"
        found = view.get("ResourceClaimTemplate", template, namespace)
        if found is None or found is UNKNOWN:
            seen = "can be seen" if found is UNKNOWN else "exists"
            said = f"no ResourceClaimTemplate {shown(template)} {seen} in {namespace}, so nothing is charged for it now"
            problems.append(problem(path, said, "create the template first; its claim is charged when it is made"))
            continue
        asked = asks_of_template(found, view, settings, priority_class_of(pod))
        pieces[entry.get("name") or ""] = asked.asks
        problems += (_of_template(each, template, path) for each in asked.problems)
    return PodAsks({name: asks for name, asks in pieces.items() if asks}, tuple(problems))


def got_by_pod(pod: Pod, view: ClusterView, settings: Quotas, claimed: Collection[str] = ()) -> tuple[Ask, ...]:
    """What a pod holds by extended resources: what its node hands out under their names, or what it asks for without one.

    What a node that is gone, or that shows nothing of the kind, handed out is the most that the pod could have got.

    Args:
        pod: as it is stored.
        view: the cluster, with nodes, classes and slices.
        settings: how quotas count.
        claimed: resources that are left out once the pod has a node, since a claim has them.
    """
    extended = Extended(pod, priority_class_of(pod), view, settings)
    node = pod.spec.get("nodeName")
    return tuple((extended.got(node, claimed) if node else extended.asks).values())


def priority_class_of(pod: Pod) -> str:
    """The name of a pod's PriorityClass; empty where it has none. That of a default class has been filled in by then.

    Source: k8s.io/kubernetes plugin/pkg/admission/priority.
    """
    name = lookup(pod.spec, ("priorityClassName",))
    return name if isinstance(name, str) else ""


def _missing_class(pod: Pod, name: str) -> Problem:
    resource = f"{IMPLICIT_PREFIX}{name}"
    path = next(_places(pod, resource), SPEC)
    said = f"there is no DeviceClass {shown(name)}, so nobody knows which devices it has; whole GPUs are charged"
    return problem(path, said, "write the name of a DeviceClass that exists, or create it first")


def _places(pod: Pod, resource: str) -> Iterator[FieldPath]:
    for container in pod.all_containers:
        for section, amounts in (("limits", container.limits), ("requests", container.requests)):
            if resource in amounts:
                yield container.path / "resources" / section / resource


def _of_template(found: Problem, template: str, path: FieldPath) -> Problem:
    """A problem of a template, told at the pod that names it."""
    said = f"{found.message} (ResourceClaimTemplate {shown(template)}, {found.path})"
    return problem(path, said, found.remedy)
