"""The charge of an object that is being created: its pieces, its origin, and what is missing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from policies.devices.pod_groups import POD_GROUP, is_pod_group, pod_group_name
from policies.fleet.pod_claims import MOST_CLAIMS, number_of_template_claims, template_claims
from policies.kubernetes.objects import controller_of, generate_name_of, lookup
from policies.kubernetes.pods import SPEC, MalformedPodError, Pod
from policies.quota.demands.claims import demands_of_claim
from policies.quota.demands.pods import demands_of_pod, holdings_of_pod, priority_class_of
from policies.quota.limits.quota import is_enforced
from policies.rules.charges import OWN, ChargeRequest, TooManyClaims
from policies.rules.checks import PODS, Problem
from policies.rules.decision import TEMPLATE, Decision, Severity

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from policies.fleet.pod_claims import PodClaim
    from policies.kubernetes.objects import Object
    from policies.kubernetes.view import ClusterView, Key
    from policies.quota.demands.pods import PodDemands
    from policies.rules.charges import ChargedKind, DeviceDemand, DeviceKind
    from policies.rules.request import Request
    from policies.rules.settings import GPUAdmissionPolicy
    from policies.rules.settings.choices import Quotas


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


MOST_UNSEEN = 31
"""Objects that are read from the API server for one review, beside the GPUQuota."""
_MOST_OF_GROUP = 5
"""Of these, a PodGroup and its claims. Source: k8s.io/api/scheduling MaxPodGroupResourceClaims, in all versions."""
_CLAIMS = SPEC / "resourceClaims"

_Found = tuple[ChargeRequest, Sequence[Problem]] | None
"""A charge, and problems for the missing objects that it refers to; None if nothing is charged."""


def charge_decision(
    request: Request, view: ClusterView, settings: GPUAdmissionPolicy, *, enforced: bool | None = None
) -> Decision:
    """The charge of a new object, with a warning for each missing object that it refers to.

    Without a charge, nothing is created that could get a GPU: a pod that cannot be read is not stored by the API server.

    Args:
        request: The creation of the object.
        view: The cluster, with nodes, classes, slices, templates, and the pods that claims are made for.
        settings: How quotas count, and who makes the claims of pods.
        enforced: True if the namespace's quota fails closed; None for what the label of the namespace says in the view.
    """
    found: _Found = None
    if enforced is None:
        enforced = is_enforced(request.namespace, view)
    if request.operation == "CREATE" and not request.subresource and isinstance(request.object, dict):
        if (request.group, request.kind) == ("", "Pod"):
            found = _of_pod(request, view, settings.quota, enforced=enforced)
        elif (request.group, request.kind) == ("resource.k8s.io", "ResourceClaim"):
            found = _of_claim(request.object, request, view, settings.quota, enforced=enforced)
    if found is None:
        return Decision(object=request.object)
    charge, problems = found
    return Decision(tuple(existing_references(charge, problems)), object=request.object, charges=(charge,))


@PODS.rule(
    "GA505",
    "Objects that a pod or claim refers to must exist when it is charged",
    default=Severity.WARN,
    remedy="create what is named first",
    source="docs/quota.md",
    fixed=True,
    shared_cause=True,
)
def existing_references(charge: ChargeRequest, missing: Iterable[Problem]) -> Iterator[Problem]:
    """A pod pays for its claims from templates when it is created.

    Where a template does not exist yet, nothing can be charged for it. Its claim is charged when it is made; if the
    claim does not fit then, the pod is not refused but waits, with the reason in its events. The same holds where the
    PodGroup of the pod is unknown, because its pods may share the claim. Where a DeviceClass does not exist, more may be
    charged than is needed.
    """
    yield from missing
    if charge.excess is not None and not charge.enforced:
        yield Problem(charge.excess.path, charge.excess.message, charge.excess.remedy)


def _of_pod(request: Request, view: ClusterView, settings: Quotas, *, enforced: bool) -> _Found:
    try:
        pod = request.pod
    except MalformedPodError:
        return None
    document = pod.document
    excess = _too_many_claims(pod)
    claims = () if excess is not None else template_claims(document, request.namespace, view)
    unseen = _unseen_templates(claims)
    excess = excess or _too_many_unseen(pod, unseen)
    demands = demands_of_pod(pod, claims if excess is None else (), view, settings)
    if not demands.pieces and not demands.shared and not demands.problems and excess is None:
        return None
    pieces = demands.pieces
    if pod.is_past_scheduling and OWN in pieces:
        pieces = {**pieces, OWN: holdings_of_pod(pod, view, settings)}
    found = replace(_without_pieces("Pod", document, request, enforced=enforced), pieces=pieces)
    if excess is not None:
        return replace(found, excess=excess), demands.problems
    unseen = (*unseen, *_unseen_of_group(pod, claims, demands, view))
    return replace(found, shared=_group_charge(demands, found), unseen=unseen), demands.problems


def _group_charge(demands: PodDemands, found: ChargeRequest) -> ChargeRequest | None:
    if demands.group is None or not demands.shared:
        return None
    return ChargeRequest(
        demands.group.uid,
        POD_GROUP,
        found.namespace,
        demands.group.name,
        pieces=demands.shared,
        enforced=found.enforced,
    )


def _unseen_templates(claims: Sequence[PodClaim]) -> tuple[Key, ...]:
    templates: dict[str, PodClaim] = {}
    for claim in claims:
        if claim.kind == TEMPLATE:
            templates.setdefault(claim.object_name, claim)
    return tuple(
        (TEMPLATE, claim.namespace, name) for name, claim in templates.items() if not isinstance(claim.document, dict)
    )


def _unseen_of_group(pod: Pod, claims: Sequence[PodClaim], demands: PodDemands, view: ClusterView) -> Iterator[Key]:
    """The PodGroup of a pod, and the claims that exist according to it.

    A claim is made as soon as its group exists, and a counted claim must not be charged again because a watch is late.
    Unknown PodGroups are not read: RBAC may forbid it.
    """
    name = pod_group_name(pod.document)
    if not name or not claims:
        return
    namespace = claims[0].namespace
    if demands.group is None:
        if view.get(POD_GROUP, name, namespace) is None:
            yield POD_GROUP, namespace, name
    elif demands.shared:
        yield POD_GROUP, namespace, name
        made = (demands.group.claim_name(piece) for piece in demands.shared)
        yield from (("ResourceClaim", namespace, claim) for claim in made if claim)


def _too_many_claims(pod: Pod) -> TooManyClaims | None:
    claims = number_of_template_claims(pod.document)
    if claims <= MOST_CLAIMS:
        return None
    said = f"has {claims:,} claims from templates, and at most {MOST_CLAIMS:,} can be charged for one pod"
    return TooManyClaims(_CLAIMS, said, "request fewer claims", is_lasting=True)


def _too_many_unseen(pod: Pod, unseen: Sequence[Key]) -> TooManyClaims | None:
    most = MOST_UNSEEN - _MOST_OF_GROUP if pod_group_name(pod.document) else MOST_UNSEEN
    if len(unseen) <= most:
        return None
    said = f"names {len(unseen):,} ResourceClaimTemplates that are not known yet, and at most {most} are read for a pod"
    return TooManyClaims(_CLAIMS, said, "create the templates first, or request fewer claims", is_lasting=False)


def _of_claim(claim: Object, request: Request, view: ClusterView, settings: Quotas, *, enforced: bool) -> _Found:
    origin = origin_of(claim) if request.user.username in settings.trusted_creators else None
    pod = None if origin is None else origin.pod(request.namespace, view)
    claimed = demands_of_claim(claim, view, settings, None if pod is None else priority_class_of(pod))
    if not claimed.demands:
        return None
    found = replace(_without_pieces("ResourceClaim", claim, request, enforced=enforced), pieces={OWN: claimed.demands})
    if origin is not None:
        found = replace(found, of=(origin.uid, origin.piece), owner=origin.owner)
        if origin.kind != POD_GROUP and pod is None:
            found = replace(found, unseen=(("Pod", request.namespace, origin.owner),))
        elif pod is not None and origin.piece == OWN:
            found = replace(found, pieces={OWN: narrow_demands(claimed.demands, holdings_of_pod(pod, view, settings))})
    charge = found if request.caller_is_known else _unless_stored(found, view)
    return None if charge is None else (charge, claimed.problems)


def _unless_stored(found: ChargeRequest, view: ClusterView) -> ChargeRequest | None:
    """The charge of a claim from an unknown caller; None if the claim is stored already.

    An API server creates no claim twice. An unknown caller can name any origin, and a claim is counted with the pod that
    it was made for: the caller could move a claim that was counted by itself to a pod, and get one of the two free.
    """
    if found.of is None:
        return found
    stored = view.get(found.kind, found.name, found.namespace)
    if lookup(stored, ("metadata", "uid")) == found.uid:
        return None
    return replace(found, unseen=(*found.unseen, (found.kind, found.namespace, found.name)))


def _without_pieces(kind: ChargedKind, document: Object, request: Request, *, enforced: bool) -> ChargeRequest:
    """The charge of an object without its pieces; one out of a file may have neither uid nor name."""
    uid = _text(document, "uid") or request.uid
    name = _text(document, "name") or request.name or generate_name_of(document) or uid
    return ChargeRequest(uid, kind, request.namespace, name, {}, enforced)


def _text(document: Object, field: str) -> str:
    found = lookup(document, ("metadata", field))
    return found if isinstance(found, str) else ""
