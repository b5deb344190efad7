"""The claims of a question, the DeviceClasses that they name, and the obstacles to getting any device."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from policies.devices.deviceclasses import class_remedy
from policies.devices.native_quotas import refused_claims, refused_pod
from policies.devices.pod_groups import is_pod_group, pod_group_name
from policies.devices.resource_claims import Claim
from policies.fleet.pod_claims import domain_template, missing_remedy, pod_claims
from policies.kubernetes.names import list_command, printable
from policies.kubernetes.objects import controller_of, lookup, name_of, replace_at
from policies.kubernetes.view import UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from policies.devices.native_quotas import NativeQuotaRefusal, QuotaUse
    from policies.kubernetes.objects import FieldPath, Object
    from policies.kubernetes.pods import Pod
    from policies.kubernetes.view import ClusterView
    from policies.rules.decision import Template


MOST_PODS = 256
"""Pods for which one claim can be reserved. Source: k8s.io/api/resource/v1 ResourceClaimReservedForMaxSize."""


class ObstacleKind(StrEnum):
    """The kind of an obstacle."""

    MALFORMED = "malformed"
    """The document does not have the shape of its kind."""
    REFUSED = "refused"
    """`review` refuses the object; one obstacle for each finding that denies."""
    FACT_UNKNOWN = "fact unknown"
    """A fact is missing; the remedy says which file to add."""
    MISSING = "missing"
    """A claim, template or DeviceClass does not exist."""
    CLAIM_FULL = "claim full"
    """A claim is reserved for the maximum of pods."""
    CLAIM_DELETED = "claim deleted"
    """A claim is being deleted, so no pod can get it."""
    TOO_COSTLY = "too costly"
    """A selector may cost more for one device than the API server accepts."""
    QUOTA_EXCEEDED = "quota exceeded"
    """A ResourceQuota refuses the pod, or a claim that is made for it."""
    ALLOCATION_FAILS = "allocation fails"
    """Kubernetes' scheduler fails with an error for all nodes: a selector does not compile or fails on a device, or the
    cluster does not know the kind of a request."""
    START_FAILS = "start fails"
    """The node of a bound pod cannot start it, or one of its containers."""
    DEVICE_UNHEALTHY = "device unhealthy"
    """A device that the pod or claim holds is unhealthy."""


@dataclass(frozen=True, slots=True)
class Obstacle:
    """A reason why no node can fit."""

    kind: ObstacleKind
    sentence: str
    """The problem and why it matters, without a full stop."""
    remedy: str = ""
    """The remedy, an imperative without a full stop; empty if it is obvious."""
    rule: str = ""
    """The rule that refuses, `GA301`; only with REFUSED."""
    cause: str = field(default="", metadata={"exclude": True})
    """The cause in a few words, for a headline; empty if the kind says enough. pydantic leaves it out of JSON."""


def unknown_kind_remedy(kind: str, namespace: str = "") -> str:
    """The remedy for a kind whose objects are unknown, an imperative."""
    return f"add them: {list_command(kind, namespace)}, or everything at once: gpu-admission snapshot DIR"


@dataclass(frozen=True, slots=True)
class NamedClaim:
    """A ResourceClaim with its name in the question."""

    name: str
    """The name in the pod (`spec.resourceClaims[].name`); without a pod, the name of the claim or template."""
    claim: Claim
    source: str
    """Its origin, for people: `ResourceClaimTemplate gpu-0a1b`, `ResourceClaim team-a/shared`."""
    shared: bool = False
    """True if all pods of a workload use this claim (`resourceClaimName`, or that of a PodGroup)."""
    group: str = ""
    """The PodGroup that it is reserved for; empty if it is reserved for each pod."""
    is_new: bool = False
    """True if it is still to be made from a template."""

    def without_constraint(self, position: int) -> NamedClaim:
        """The claim without one of its constraints."""
        path = self.claim.devices_path / "constraints"
        constraints = lookup(self.claim.document, path)
        return self._with_value(path, [*constraints[:position], *constraints[position + 1 :]])

    def with_count(self, request: str, count: int) -> NamedClaim:
        """The claim with another count in a request, such as `gpu` or `gpu/large`."""
        return self._with_request(request, lambda asked: {**asked, "count": count})

    def with_capacity(self, request: str, amounts: Mapping[str, Any]) -> NamedClaim:
        """The claim with these amounts of capacities in a request, and no others; it may have had none."""
        return self._with_request(
            request, lambda asked: {**asked, "capacity": {**(asked.get("capacity") or {}), "requests": amounts}}
        )

    def with_selector(self, request: str, index: int, expression: str) -> NamedClaim:
        """The claim with another expression for one selector of a request; an empty one removes the selector."""

        def change(asked: dict[str, Any]) -> dict[str, Any]:
            selectors = asked["selectors"]
            instead = [{"cel": {"expression": expression}}] if expression else []
            return {**asked, "selectors": [*selectors[:index], *instead, *selectors[index + 1 :]]}

        return self._with_request(request, change)

    def with_toleration(self, request: str, key: str, effect: str) -> NamedClaim:
        """The claim with a request that tolerates one more taint, whatever its value."""
        toleration = {"key": key, "operator": "Exists", "effect": effect}
        return self._with_request(
            request, lambda asked: {**asked, "tolerations": [*(asked.get("tolerations") or []), toleration]}
        )

    def _with_request(self, name: str, change: Callable[[dict[str, Any]], dict[str, Any]]) -> NamedClaim:
        subrequest = next(each for each in self.claim.subrequests if each.full_name == name)
        return self._with_value(subrequest.path, change(subrequest.fields))

    def _with_value(self, path: FieldPath, value: Any) -> NamedClaim:
        return replace(self, claim=Claim(replace_at(self.claim.document, path, value)))


_Parts = tuple[tuple[NamedClaim, ...], tuple[NamedClaim, ...], tuple[Obstacle, ...]]


def is_stored(document: Object) -> bool:
    """True if the API server has stored the object, and so has given it a uid."""
    return bool(lookup(document, ("metadata", "uid")))


def claims_of_pod(
    pod: Pod, namespace: str, templates: Iterable[Template], view: ClusterView
) -> tuple[tuple[NamedClaim, ...], tuple[Obstacle, ...]]:
    """The claims of a pod, and obstacles for missing ones; `templates` are not yet created."""
    ours = {template.name: template.manifest() for template in templates}
    claims: list[NamedClaim] = []
    obstacles: list[Obstacle] = []
    made = _made_already(pod.document)
    for entry in pod_claims(pod.document, namespace, view):
        name = entry.name
        if entry.kind == "ResourceClaim":
            found = _stored_claim(name, entry.object_name, namespace, view, shared=True)
        elif made.get(name) and not entry.group:
            found = _stored_claim(name, made[name], namespace, view, shared=False)
        elif entry.kind == "ResourceClaimTemplate":
            owner = (entry.group.name if entry.group else name_of(pod.document)) or "pod"
            found = _from_template(owner, name, entry.object_name, namespace, ours, view)
        else:
            sentence = f"claim {name} of the pod names neither a ResourceClaim nor a ResourceClaimTemplate"
            found = Obstacle(ObstacleKind.MALFORMED, sentence, "set resourceClaimTemplateName or resourceClaimName")
        if isinstance(found, Obstacle):
            obstacles.append(found)
        elif all(found.claim.name != other.claim.name for other in claims):
            group = entry.group.name if entry.group else _owning_group(found.claim, pod) if entry.may_be_shared else ""
            claims.append(replace(found, shared=found.shared or bool(group), group=group))
    return tuple(claims), tuple(obstacles)


def _owning_group(claim: Claim, pod: Pod) -> str:
    """The name of the pod's PodGroup if it controls the claim; empty if not.

    Source: k8s.io/dynamic-resource-allocation resourceclaim isForPodGroupByPod.
    """
    owner, name = controller_of(claim.document), pod_group_name(pod.document)
    return name if owner is not None and is_pod_group(owner) and owner.get("name") == name else ""


def split_claims(claims: Iterable[NamedClaim], pod: str) -> _Parts:
    """The claims without devices, those with devices, and why the pod cannot use some of them."""
    unallocated: list[NamedClaim] = []
    allocated: list[NamedClaim] = []
    obstacles: list[Obstacle] = []
    for claim in claims:
        (unallocated if claim.claim.allocation is None else allocated).append(claim)
        pods = reservations(claim.claim)
        if pod and pod not in pods and not claim.group and len(pods) >= MOST_PODS:
            sentence = f"{claim.source} is reserved for {len(pods)} pods, and {MOST_PODS} can share a claim"
            remedy = "wait until one of them ends, or use another claim"
            obstacles.append(Obstacle(ObstacleKind.CLAIM_FULL, sentence, remedy))
        if lookup(claim.claim.document, ("metadata", "deletionTimestamp")):
            sentence = f"{claim.source} is being deleted, so no pod gets it any more"
            obstacles.append(Obstacle(ObstacleKind.CLAIM_DELETED, sentence, "create it again once it is gone"))
    return tuple(unallocated), tuple(allocated), tuple(obstacles)


def quota_obstacles(
    pod: Object, claims: Iterable[NamedClaim], namespace: str, view: ClusterView, use: QuotaUse, *, is_stored: bool
) -> tuple[Obstacle, ...]:
    """Obstacles for ResourceQuotas that refuse the pod, or a claim that is made for it.

    Args:
        pod: The pod as it is, or would be stored.
        claims: The claims of the pod.
        namespace: Its namespace.
        view: The cluster.
        use: What the quotas count already.
        is_stored: True if the pod exists.
    """
    new = [each.claim for each in claims if each.is_new]
    of_pod = () if is_stored else refused_pod(pod, namespace, view, use)
    of_claims = refused_claims(new, pod, namespace, view, use, is_stored=is_stored)
    words = (
        *((each, "a ResourceQuota refuses the pod") for each in of_pod),
        *((each, "the pod does not get its claim, because a ResourceQuota refuses it") for each in of_claims),
    )
    return tuple(
        Obstacle(ObstacleKind.QUOTA_EXCEEDED, f"{sentence}: {refusal.text}", quota_remedy(refusal))
        for refusal, sentence in words
    )


def quota_remedy(refusal: NativeQuotaRefusal) -> str:
    """The remedy for a refusal, an imperative without a full stop."""
    if refusal.is_permanent:
        return f"raise the limit of ResourceQuota {printable(refusal.quota)}, or request fewer devices"
    return f"wait until there is room, or raise the limit of ResourceQuota {printable(refusal.quota)}"


def reservations(claim: Claim) -> list[str]:
    """The names of the pods and PodGroups that a claim is reserved for."""
    return [str(consumer.get("name") or "") for consumer in claim.consumers]


def _made_already(pod: Object) -> dict[str, str]:
    """The names of the claims created for a pod from templates, by their names in the pod."""
    statuses = lookup(pod, ("status", "resourceClaimStatuses"))
    return {
        str(status["name"]): str(status.get("resourceClaimName") or "")
        for status in (statuses if isinstance(statuses, list) else [])
        if isinstance(status, dict) and status.get("name")
    }


def _stored_claim(
    name: str, claim_name: str, namespace: str, view: ClusterView, *, shared: bool
) -> NamedClaim | Obstacle:
    source = f"ResourceClaim {namespace}/{claim_name}"
    claim = view.get("ResourceClaim", claim_name, namespace)
    if claim is UNKNOWN:
        return Obstacle(
            ObstacleKind.FACT_UNKNOWN,
            f"{source} is unknown, so the requests of claim {name} are unknown",
            unknown_kind_remedy("ResourceClaim"),
        )
    if claim is None:
        sentence = f"{source}, which the pod calls {name}, does not exist"
        return Obstacle(ObstacleKind.MISSING, sentence, missing_remedy("ResourceClaim", claim_name, namespace, view))
    return claim_with_spec(NamedClaim(name, Claim(claim), source, shared=shared))


def _from_template(
    owner: str, name: str, template_name: str, namespace: str, ours: dict[str, Object], view: ClusterView
) -> NamedClaim | Obstacle:
    source = f"ResourceClaimTemplate {namespace}/{template_name}"
    template = ours.get(template_name) or view.get("ResourceClaimTemplate", template_name, namespace)
    if not isinstance(template, dict) and (made := domain_template(template_name, namespace, view)) is not None:
        template = made
    if template is UNKNOWN:
        return Obstacle(
            ObstacleKind.FACT_UNKNOWN,
            f"{source} is unknown, so the requests of claim {name} are unknown",
            unknown_kind_remedy("ResourceClaimTemplate", namespace),
        )
    if template is None:
        sentence = f"{source}, from which claim {name} of the pod is to be made, does not exist"
        remedy = missing_remedy("ResourceClaimTemplate", template_name, namespace, view)
        return Obstacle(ObstacleKind.MISSING, sentence, remedy)
    claim = claim_from_template(template, f"{owner}-{name}", namespace)
    return claim_with_spec(NamedClaim(name, claim, source, is_new=True))


def claim_from_template(template: Object, name: str, namespace: str) -> Claim:
    """The claim that Kubernetes makes from a ResourceClaimTemplate."""
    return Claim(
        {
            "apiVersion": template.get("apiVersion"),
            "kind": "ResourceClaim",
            "metadata": {"name": name, "namespace": namespace},
            "spec": lookup(template, ("spec", "spec")),
        }
    )


def claim_with_spec(claim: NamedClaim) -> NamedClaim | Obstacle:
    """The claim, or an obstacle if it has no spec."""
    if isinstance(claim.claim.document.get("spec"), dict):
        return claim
    return Obstacle(ObstacleKind.MALFORMED, f"{claim.source} has no spec that requests devices")


def classes_of(claims: Iterable[NamedClaim], view: ClusterView) -> list[Object]:
    """The known DeviceClasses that claims name."""
    found = (view.get("DeviceClass", name) for name in _names(claims))
    return [device_class for device_class in found if isinstance(device_class, dict)]


def class_obstacles(claims: Sequence[NamedClaim], view: ClusterView) -> tuple[Obstacle, ...]:
    """Obstacles for missing or unknown DeviceClasses, and for unknown ResourceSlices."""
    if not claims:
        return ()
    obstacles: list[Obstacle] = []
    if view.list("ResourceSlice") is UNKNOWN:
        sentence = "no ResourceSlices are known, so the devices are unknown"
        obstacles.append(Obstacle(ObstacleKind.FACT_UNKNOWN, sentence, unknown_kind_remedy("ResourceSlice")))
    unknown = []
    for name in _names(claims):
        found = view.get("DeviceClass", name)
        if found is UNKNOWN:
            unknown.append(name)
        elif found is None:
            sentence = f"DeviceClass {printable(name)} does not exist"
            known = [name_of(each) for each in view.known_objects("DeviceClass")]
            remedy = class_remedy(name, known, before="deviceClassName: ")
            obstacles.append(Obstacle(ObstacleKind.MISSING, sentence, remedy))
    if unknown:
        what = f"DeviceClass {unknown[0]} is" if len(unknown) == 1 else f"DeviceClasses {', '.join(unknown)} are"
        sentence = f"{printable(what)} unknown, so the devices that the claim can get are unknown"
        obstacles.append(Obstacle(ObstacleKind.FACT_UNKNOWN, sentence, unknown_kind_remedy("DeviceClass")))
    return tuple(obstacles)


def _names(claims: Iterable[NamedClaim]) -> list[str]:
    """The distinct classes of claims, in order."""
    subrequests = (each for named in claims for each in named.claim.subrequests)
    return list(dict.fromkeys(each.device_class for each in subrequests if each.device_class))
