"""Origins: the pod or PodGroup that a claim was made for, and the devices that the claim can get."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from policies.dra.pod_groups import is_pod_group
from policies.kubernetes.objects import controller_of
from policies.kubernetes.paths import lookup
from policies.kubernetes.pods import MalformedPodError, Pod
from policies.quota.charges import OWN

if TYPE_CHECKING:
    from collections.abc import Iterable

    from policies.kubernetes.objects import Object
    from policies.quota.charges import DeviceDemand, DeviceKind
    from policies.view import ClusterView

__all__ = ["ObjectOrigin", "narrow_demands", "origin_of"]

_OF_TEMPLATE = "resource.kubernetes.io/pod-claim-name"
_OF_EXTENDED = "resource.kubernetes.io/extended-resource-claim"
"""Annotations of claims: the name in `spec.resourceClaims` of a claim from a template, and `true` for a claim that the
scheduler makes for extended resources. Source: k8s.io/api/resource/v1/types.go."""


@dataclass(frozen=True, slots=True)
class ObjectOrigin:
    """The pod or PodGroup that a claim names as its origin."""

    kind: Literal["Pod", "PodGroup"]
    owner: str
    """Its name."""
    uid: str
    piece: str
    """The piece of its charge that the claim belongs to; `OWN` for a pod's extended resources."""

    def pod(self, namespace: str, view: ClusterView) -> Pod | None:
        """The pod; None for a PodGroup, and if the view has no pod of this name and uid."""
        found = view.get("Pod", self.owner, namespace) if self.kind == "Pod" else None
        if lookup(found, ("metadata", "uid")) != self.uid:
            return None
        try:
            return Pod.read(found)
        except MalformedPodError:
            return None


def origin_of(claim: Object) -> ObjectOrigin | None:
    """The origin that a claim names; believe it only if a trusted creator made the claim."""
    owner = controller_of(claim)
    if owner is None:
        return None
    is_group = is_pod_group(owner)
    if not is_group and (owner.get("apiVersion"), owner.get("kind")) != ("v1", "Pod"):
        return None
    name, uid = owner.get("name"), owner.get("uid")
    piece = lookup(claim, ("metadata", "annotations", _OF_TEMPLATE))
    if not piece and not is_group and lookup(claim, ("metadata", "annotations", _OF_EXTENDED)) == "true":
        piece = OWN
    elif not piece:
        return None
    if not (isinstance(name, str) and name and isinstance(uid, str) and uid and isinstance(piece, str)):
        return None
    return ObjectOrigin("PodGroup" if is_group else "Pod", name, uid, piece)


def narrow_demands(demands: Iterable[DeviceDemand], own: Iterable[DeviceDemand]) -> tuple[DeviceDemand, ...]:
    """The demands of a claim for a pod's extended resources, without devices that the pod cannot get.

    Such a claim names classes only, while its pod may name nodes as well.

    Args:
        demands: Of the claim.
        own: Of the pod, for its extended resources.
    """
    choices = [choice for demand in own for choice in demand.choices]
    kinds = frozenset(kind for choice in choices for kind in choice.kinds)
    is_open = any(choice.is_open for choice in choices)
    return tuple(
        replace(
            _narrow(demand, kinds, is_open=is_open),
            alternatives=tuple(_narrow(each, kinds, is_open=is_open) for each in demand.alternatives),
        )
        for demand in demands
    )


def _narrow(demand: DeviceDemand, kinds: frozenset[DeviceKind], *, is_open: bool) -> DeviceDemand:
    profiles = {kind.profile for kind in demand.unseen} if demand.is_open else set()
    left = frozenset(kind for kind in kinds if kind in demand.kinds or kind.profile in profiles)
    stays_open = demand.is_open and is_open
    # If nothing is left, the view is incomplete.
    return replace(demand, kinds=left, is_open=stays_open) if left or stays_open else demand
