"""Holders of devices: the pods, PodGroups or claims for which devices are allocated."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from policies.kubernetes.names import format_count
from policies.kubernetes.objects import Object, controller_of, lookup, mappings_at

if TYPE_CHECKING:
    from collections.abc import Sequence

    from policies.devices.resource_claims import Claim
    from policies.kubernetes.view import ClusterView

__all__ = ["KIND", "UNUSED", "Holder", "PodGroup", "is_pod_group", "pod_group", "pod_group_name"]


UNUSED = "which no pod uses"
"""The clause after a claim without pods and PodGroups."""


class Holder(NamedTuple):
    """A pod that holds devices of a device plugin, or a claim that holds devices of DRA."""

    namespace: str
    pods: tuple[str, ...]
    """The names of the pods that use the devices together; empty if no pod does, or a PodGroup."""
    claim: str = ""
    """The name of the ResourceClaim; empty for the device plugin."""
    pod_groups: tuple[str, ...] = ()
    """The names of the PodGroups that the claim is reserved for."""

    @classmethod
    def of_claim(cls, claim: Claim) -> Holder:
        """The holder of the devices of an allocated claim."""
        return cls(
            claim.namespace or "default", claim.consumer_names("pods"), claim.name, claim.consumer_names("podgroups")
        )

    @property
    def is_used(self) -> bool:
        """False for a claim that no pod and no PodGroup uses."""
        return bool(self.pods or self.pod_groups)

    @property
    def words(self) -> str:
        """The holder in sentences: `team-b/train-0`, `claim team-b/gpus, which no pod uses now`."""
        if self.pods:
            return f"{self.namespace}/{_first(self.pods, 'pod')}"
        if self.pod_groups:
            return f"the pods of PodGroup {self.namespace}/{_first(self.pod_groups, 'group')}"
        return f"claim {self.namespace}/{self.claim}, {UNUSED} now"


def _first(names: Sequence[str], noun: str) -> str:
    others = len(names) - 1
    return f"{names[0]} and {format_count(others, f'more {noun}')}" if others else names[0]


KIND: Final = "PodGroup"
_API_GROUP = "scheduling.k8s.io"
_REFERENCES = ("resourceClaimName", "resourceClaimTemplateName")


@dataclass(frozen=True, slots=True)
class PodGroup:
    """A PodGroup, with the claims that its pods share."""

    name: str
    uid: str
    """The kind and the name if the object has no uid, as in a file."""
    namespace: str
    document: Object

    def shares(self, entry: Object) -> bool:
        """True if an entry of a pod's `spec.resourceClaims` is a claim of the group.

        The name and the references must be equal.

        Source: k8s.io/dynamic-resource-allocation resourceclaim BindTo, 1.36.
        """
        return any(
            each.get("name") == entry.get("name") and all(each.get(field) == entry.get(field) for field in _REFERENCES)
            for each in mappings_at(self.document, ("spec", "resourceClaims"))
        )

    def claim_name(self, entry: str) -> str:
        """The name of the claim made for an entry; empty until the status names it.

        Only the resource claim controller may write that status.
        """
        for each in mappings_at(self.document, ("status", "resourceClaimStatuses")):
            if each.get("name") == entry and isinstance(each.get("resourceClaimName"), str):
                return str(each["resourceClaimName"])
        return ""

    def claim(self, entry: Object, view: ClusterView) -> Object | None:
        """The claim made from the template of an entry; None if the view does not show it.

        A claim of that name that the group does not control is a different claim.
        """
        name = self.claim_name(str(entry.get("name")))
        found = view.get("ResourceClaim", name, self.namespace) if name else None
        if not isinstance(found, dict):
            return None
        owner = controller_of(found)
        return found if owner is not None and is_pod_group(owner) and owner.get("uid") == self.uid else None


def pod_group(pod: Object, namespace: str, view: ClusterView) -> PodGroup | None:
    """The PodGroup that a pod belongs to; None if it has none or the view does not show it.

    An API server stores the name of the group only with the feature gate GenericWorkload, and the claims of a PodGroup
    only with DRAWorkloadResourceClaims.
    """
    name = pod_group_name(pod)
    found = view.get(KIND, name, namespace) if name else None
    if not isinstance(found, dict) or not is_pod_group(found):
        return None
    uid = lookup(found, ("metadata", "uid"))
    return PodGroup(name, uid if isinstance(uid, str) and uid else f"{KIND}/{name}", namespace, found)


def pod_group_name(pod: Object) -> str:
    """The name of the PodGroup that a pod belongs to; empty if it has none."""
    name = lookup(pod, ("spec", "schedulingGroup", "podGroupName"))
    return name if isinstance(name, str) else ""


def is_pod_group(reference: Object) -> bool:
    """True if an object or ownerReference is Kubernetes' PodGroup; other projects have kinds of that name."""
    group = str(reference.get("apiVersion", "")).partition("/")[0]
    return (group, reference.get("kind")) == (_API_GROUP, KIND)
