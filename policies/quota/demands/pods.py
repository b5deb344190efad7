"""Pods: the devices that each piece of a pod requests, and those that it holds once it is bound."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from policies.checks import Problem, problem
from policies.dra.claims.effort import Effort
from policies.kubernetes.paths import lookup
from policies.kubernetes.pods import SPEC
from policies.kubernetes.printable import shown
from policies.nvidia.resources import IMPLICIT_PREFIX
from policies.quota.charges import OWN
from policies.quota.demands.claims import ClaimDemands, demands_of_template
from policies.quota.demands.extended_resources import ExtendedResources
from policies.view import UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from policies.dra.pod_groups import PodGroup
    from policies.fleet.pod_claims import PodClaim
    from policies.kubernetes.paths import FieldPath
    from policies.kubernetes.pods import Pod
    from policies.quota.charges import DeviceDemand
    from policies.settings.choices import Quotas
    from policies.view import ClusterView

__all__ = ["PodDemands", "demands_of_pod", "holdings_of_pod", "priority_class_of"]


@dataclass(frozen=True, slots=True)
class PodDemands:
    """The devices that a pod requests."""

    pieces: Mapping[str, tuple[DeviceDemand, ...]] = field(default_factory=dict)
    """`OWN` for extended resources, and its claims from templates by their names in `spec.resourceClaims`; pieces without
    a GPU are left out."""
    group: PodGroup | None = None
    """The PodGroup with which the pod shares a claim."""
    shared: Mapping[str, tuple[DeviceDemand, ...]] = field(default_factory=dict)
    """The same for the claims that the pod shares with its group and that do not exist yet."""
    problems: tuple[Problem, ...] = ()
    """The missing objects that it names, and the resulting charge."""


def demands_of_pod(pod: Pod, claims: Sequence[PodClaim], view: ClusterView, settings: Quotas) -> PodDemands:
    """The devices that a pod without a node requests.

    Existing claims cost nothing here: a claim that it names by `resourceClaimName`, or one of its PodGroup, was charged
    when it was made.

    Args:
        pod: as it is stored, after all mutating webhooks.
        claims: its claims from templates, as `template_claims` returns them.
        view: the cluster, with nodes, classes and slices.
        settings: how quotas count.
    """
    extended = ExtendedResources(pod, priority_class_of(pod), view, settings)
    pieces: dict[str, tuple[DeviceDemand, ...]] = {OWN: tuple(extended.demands.values())}
    shared: dict[str, tuple[DeviceDemand, ...]] = {}
    problems = [_missing_class(pod, name) for name in extended.missing_classes]
    effort = Effort()
    known: dict[tuple[str, bool], ClaimDemands] = {}
    for claim in claims:
        if claim.kind == "ResourceClaim":
            continue
        key = claim.object_name, claim.group is not None
        if key not in known:
            template = claim.document
            if template is None or template is UNKNOWN:
                known[key] = ClaimDemands(())
                problems.append(_missing_template(claim))
                continue
            # Pods of one group may have different PriorityClasses.
            priority_class = priority_class_of(pod) if claim.group is None else None
            known[key] = demands_of_template(template, view, settings, priority_class, effort)
            problems += (_of_template(each, claim) for each in known[key].problems)
        (pieces if claim.group is None else shared)[claim.name] = known[key].demands
    group = next((claim.group for claim in claims if claim.group is not None), None)
    return PodDemands(_with_gpus(pieces), group, _with_gpus(shared), tuple(problems))


def holdings_of_pod(
    pod: Pod, view: ClusterView, settings: Quotas, claimed: Collection[str] = ()
) -> tuple[DeviceDemand, ...]:
    """The devices that a pod holds by extended resources; without a node, those that it requests.

    If the node is gone or does not show the resource, the pod counts as the most that it could have received.

    Args:
        pod: as it is stored.
        view: the cluster, with nodes, classes and slices.
        settings: how quotas count.
        claimed: resources to leave out once the pod has a node, because a claim holds them.
    """
    extended = ExtendedResources(pod, priority_class_of(pod), view, settings)
    node = pod.spec.get("nodeName")
    return tuple((extended.holdings(node, claimed) if node else extended.demands).values())


def priority_class_of(pod: Pod) -> str:
    """The name of a pod's PriorityClass, or an empty text. The API server has filled in the default class.

    Source: k8s.io/kubernetes plugin/pkg/admission/priority.
    """
    name = lookup(pod.spec, ("priorityClassName",))
    return name if isinstance(name, str) else ""


def _with_gpus(pieces: Mapping[str, tuple[DeviceDemand, ...]]) -> dict[str, tuple[DeviceDemand, ...]]:
    return {name: demands for name, demands in pieces.items() if demands}


def _missing_class(pod: Pod, name: str) -> Problem:
    resource = f"{IMPLICIT_PREFIX}{name}"
    path = next(_places(pod, resource), SPEC)
    said = f"there is no DeviceClass {shown(name)}, so its devices are unknown; whole GPUs are charged"
    return problem(path, said, "write the name of a DeviceClass that exists, or create it first")


def _missing_template(claim: PodClaim) -> Problem:
    seen = "can be seen" if claim.document is UNKNOWN else "exists"
    template = f"ResourceClaimTemplate {shown(claim.object_name)}"
    said = f"no {template} {seen} in {claim.namespace}, so nothing is charged for it now"
    return problem(claim.path, said, "create the template first; its claim is charged when it is made")


def _places(pod: Pod, resource: str) -> Iterator[FieldPath]:
    for container in pod.all_containers:
        for section, amounts in (("limits", container.limits), ("requests", container.requests)):
            if resource in amounts:
                yield container.path / "resources" / section / resource


def _of_template(found: Problem, claim: PodClaim) -> Problem:
    """A problem of a template, reported at the pod that names it."""
    said = f"{found.message} (ResourceClaimTemplate {shown(claim.object_name)}, {found.path})"
    return problem(claim.path, said, found.remedy)
