"""PodGroups of Kubernetes, whose pods can share claims."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from policies.kubernetes.objects import controller_of, lookup, mappings_at
from policies.kubernetes.versions import Feature
from policies.kubernetes.view import UNKNOWN, ChangedView

if TYPE_CHECKING:
    from collections.abc import Sequence

    from policies.kubernetes.objects import Object
    from policies.kubernetes.view import ClusterView, Unknown


POD_GROUP: Final = "PodGroup"
POD_GROUP_VERSIONS: Final = {
    "v1beta1": Feature.PodGroupV1Beta1,
    "v1alpha3": Feature.PodGroupV1Alpha3,
    "v1alpha2": Feature.PodGroupV1Alpha2,
}
"""The versions of scheduling.k8s.io that have PodGroups, the preferred one first."""
_API_GROUP = "scheduling.k8s.io"
_REFERENCES = ("resourceClaimName", "resourceClaimTemplateName")


@dataclass(frozen=True, slots=True)
class PodGroup:
    """A PodGroup of any version of scheduling.k8s.io, with the claims that its pods share.

    The fields that are read are the same in v1alpha2, v1alpha3 and v1beta1.

    Source: k8s.io/api/scheduling types.go of each version.
    """

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


def pod_group(pod: Object, namespace: str, view: ClusterView) -> PodGroup | Unknown | None:
    """The PodGroup that a pod belongs to; None if it names none, or one that does not exist.

    An API server stores the name of the group only with the feature gate GenericWorkload, and the claims of a PodGroup
    only with DRAWorkloadResourceClaims.
    """
    name = pod_group_name(pod)
    found = view.get(POD_GROUP, name, namespace) if name else None
    if found is UNKNOWN:
        return UNKNOWN
    if found is None or not is_pod_group(found):
        return None
    uid = lookup(found, ("metadata", "uid"))
    return PodGroup(name, uid if isinstance(uid, str) and uid else f"{POD_GROUP}/{name}", namespace, found)


def pod_group_name(pod: Object) -> str:
    """The name of the PodGroup that a pod belongs to; empty if it has none."""
    name = lookup(pod, ("spec", "schedulingGroup", "podGroupName"))
    return name if isinstance(name, str) else ""


def names_pod_group(pod: Object) -> Literal[True] | None:
    """True if a pod belongs to a PodGroup; None if not, so that stores can count it."""
    return True if pod_group_name(pod) else None


def is_pod_group(reference: Object) -> bool:
    """True if an object or ownerReference is Kubernetes' PodGroup; other projects have kinds of that name."""
    group = str(reference.get("apiVersion", "")).partition("/")[0]
    return (group, reference.get("kind")) == (_API_GROUP, POD_GROUP)


def with_shared_claims(
    pod: Object, claims: Sequence[Object], name: str, namespace: str, view: ClusterView
) -> tuple[Object, ClusterView]:
    """A pod of a Job that shares claims, in the PodGroup that the Job controller makes; the view with it.

    Both unchanged if the API server drops `spec.scheduling` of a Job: before Kubernetes 1.37, and where it shows that the
    gate is off. A gate that is not shown counts as on, because the author expects it. Likewise if the template names a
    PodGroup, for the Job controller makes none then.

    Args:
        pod: The pod of the template.
        claims: The entries of `spec.scheduling.resourceClaims`.
        name: The name of the PodGroup; with a blank, it is that of no other group.
        namespace: The namespace of the Job.
        view: The cluster.
    """
    spec = pod.get("spec")
    is_dropped = Feature.JobScheduling.is_on(view) is False or Feature.WorkloadWithJob.is_off(view)
    if not isinstance(spec, dict) or is_dropped or pod_group_name(pod):
        return pod, view
    group = {
        "apiVersion": f"{_API_GROUP}/v1alpha3",
        "kind": POD_GROUP,
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"resourceClaims": [*claims]},
    }
    grouped = {**pod, "spec": {**spec, "schedulingGroup": {"podGroupName": name}}}
    return grouped, ChangedView(view, {(POD_GROUP, namespace, name): group})
