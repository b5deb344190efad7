"""Pod claims: the ResourceClaims and ResourceClaimTemplates of a pod, and their requests."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING, Any

from policies.devices.pod_groups import pod_group
from policies.devices.resource_claims import Claim, ClaimKind
from policies.kubernetes.names import closest, printable
from policies.kubernetes.objects import FieldPath, lookup, name_of, namespace_of, uid_of
from policies.kubernetes.view import UNKNOWN
from policies.nvidia.identifiers import CHANNEL_CLASS, COMPUTE_DOMAIN_DRIVER

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.devices.pod_groups import PodGroup
    from policies.devices.resource_claims import DeviceRequest
    from policies.kubernetes.objects import Object
    from policies.kubernetes.view import ClusterView, Unknown


MOST_CLAIMS = 1000
"""Claims of a pod that are read; Kubernetes has no limit. Further claims count as giving no GPU, so a container that
justifies its access by one of them is refused. A quota refuses a pod with more claims from templates, or charges these
claims when they are created."""

_CHANNEL = ("spec", "channel")
_NAMED_BY: dict[ClaimKind, str] = {
    "ResourceClaim": "resourceClaimName",
    "ResourceClaimTemplate": "resourceClaimTemplateName",
}


@dataclass(frozen=True)
class PodClaim:
    """One entry of `spec.resourceClaims`. The object is read when `document` or `claim` is used."""

    index: int
    """In `spec.resourceClaims`."""
    name: str
    """The name by which containers refer to the claim; empty if it is missing."""
    field: str
    """The field of the entry that names an object; empty if it names none."""
    kind: ClaimKind | None
    """The kind of the object that the entry names, or of the claim that was made from it; None if it names none."""
    object_name: str
    namespace: str
    view: ClusterView
    group: PodGroup | None = None
    """The PodGroup whose pods share the claim; None if they do not, or it is unknown."""
    may_be_shared: bool = False
    """True if the claim is made from a template, and the PodGroup of the pod is unknown: its pods may share the claim."""

    @property
    def path(self) -> FieldPath:
        """The field that names the object, or the entry if it names none."""
        entry = FieldPath(("spec", "resourceClaims", self.index))
        return entry / self.field if self.field else entry

    @cached_property
    def document(self) -> Object | Unknown | None:
        """The ResourceClaim or ResourceClaimTemplate; None if it does not exist or the entry names none."""
        return None if self.kind is None else self.view.get(self.kind, self.object_name, self.namespace)

    @cached_property
    def requests(self) -> tuple[DeviceRequest, ...] | None:
        """The requests of the claim; None if the object is missing or unknown."""
        if self.kind is None or not isinstance(self.document, dict):
            return None
        return Claim(self.document, self.kind).requests


def pod_claims(pod: Object, namespace: str, view: ClusterView) -> tuple[PodClaim, ...]:
    """The claims that a pod names, in the order of `spec.resourceClaims`; at most `MOST_CLAIMS`.

    The pod may have any shape: entries that are not mappings are skipped. Claims that were generated for a pod that
    exists (`status.resourceClaimStatuses`) are not looked up, because a user can write anything into the status of a pod
    that is being created. A claim that the pod shares with its PodGroup is the group's as soon as that exists: the
    template may have been replaced since.
    """
    group = pod_group(pod, namespace, view)
    return tuple(
        _pod_claim(entry, index, namespace, group, view) for index, entry in islice(_entries(pod), MOST_CLAIMS)
    )


def missing_remedy(kind: ClaimKind, name: str, namespace: str, view: ClusterView) -> str:
    """The remedy for a missing claim or template of a pod, with a similar name if there is one."""
    other: ClaimKind = "ResourceClaim" if kind == "ResourceClaimTemplate" else "ResourceClaimTemplate"
    if isinstance(view.get(other, name, namespace), dict):
        return f"create it, or write {_NAMED_BY[other]}: {printable(name)}, for a {other} has that name"
    names = [name_of(each) for each in view.known_objects(kind) if namespace_of(each) == namespace]
    guess = closest(name, sorted(names))
    return f"create it, or {f'write {_NAMED_BY[kind]}: {printable(guess)}' if guess else f'correct {_NAMED_BY[kind]}'}"


def template_claims(pod: Object, namespace: str, view: ClusterView) -> tuple[PodClaim, ...]:
    """The claims of a pod that are made from templates, as `pod_claims` has them; at most `MOST_CLAIMS`.

    A claim that was made already, for the PodGroup of the pod, is of the kind ResourceClaim.
    """
    group = pod_group(pod, namespace, view)
    named = ((index, entry) for index, entry in _entries(pod) if _names_template(entry))
    return tuple(_pod_claim(entry, index, namespace, group, view) for index, entry in islice(named, MOST_CLAIMS))


def number_of_template_claims(pod: Object) -> int:
    """The number of claims of a pod that are made from templates, without the limit of `template_claims`."""
    return sum(_names_template(entry) for _, entry in _entries(pod))


def domain_template(name: str, namespace: str, view: ClusterView) -> Object | None:
    """The ResourceClaimTemplate that the controller of a ComputeDomain makes; None if none names it.

    It is for explanations. Access and quotas count only templates that exist, because until the controller makes it, any
    user may create another template of this name.

    Source: dra-driver-nvidia-gpu cmd/compute-domain-controller/resourceclaimtemplate.go, and
    templates/compute-domain-workload-claim-template.tmpl.yaml.
    """
    for domain in view.known_or_reviewed("ComputeDomain", namespace):
        if lookup(domain, (*_CHANNEL, "resourceClaimTemplate", "name")) != name:
            continue
        parameters = {
            "apiVersion": "resource.nvidia.com/v1beta1",
            "kind": "ComputeDomainChannelConfig",
            "domainID": uid_of(domain),
            "allocationMode": lookup(domain, (*_CHANNEL, "allocationMode")) or "Single",
        }
        devices = {
            "requests": [
                {
                    "name": "channel",
                    "exactly": {"deviceClassName": CHANNEL_CLASS, "allocationMode": "ExactCount", "count": 1},
                }
            ],
            "config": [
                {"requests": ["channel"], "opaque": {"driver": COMPUTE_DOMAIN_DRIVER, "parameters": parameters}},
            ],
        }
        return {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceClaimTemplate",
            "metadata": {"name": name, "namespace": namespace},
            "spec": {"spec": {"devices": devices}},
        }
    return None


def _entries(pod: Object) -> Iterator[tuple[int, dict[Any, Any]]]:
    entries = lookup(pod, ("spec", "resourceClaims"))
    for index, entry in enumerate(entries if isinstance(entries, list) else ()):
        if isinstance(entry, dict):
            yield index, entry


def _names_template(entry: dict[Any, Any]) -> bool:
    name = entry.get(_NAMED_BY["ResourceClaimTemplate"])
    return isinstance(name, str) and bool(name)


def _pod_claim(
    entry: dict[Any, Any], index: int, namespace: str, group: PodGroup | Unknown | None, view: ClusterView
) -> PodClaim:
    name = entry.get("name")
    named = ((kind, entry.get(field)) for kind, field in _NAMED_BY.items())
    kind, object_name = next(((kind, text) for kind, text in named if isinstance(text, str) and text), (None, ""))
    field = "" if kind is None else _NAMED_BY[kind]
    found = PodClaim(index, name if isinstance(name, str) else "", field, kind, object_name, namespace, view)
    if group is UNKNOWN:
        return replace(found, may_be_shared=kind == "ResourceClaimTemplate")
    if group is None or not group.shares(entry):
        return found
    if (made := group.claim(entry, view)) is not None:
        found = replace(found, kind="ResourceClaim", object_name=name_of(made))
    return replace(found, group=group)
