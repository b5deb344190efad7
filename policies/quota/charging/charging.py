"""Charging: what an object that is being created asks of its namespace's quota."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from policies.checks import problem
from policies.dra.pod_groups import KIND as POD_GROUP
from policies.dra.pod_groups import pod_group_name
from policies.fleet.pod_claims import MOST_CLAIMS, number_of_template_claims, template_claims
from policies.kubernetes.paths import lookup
from policies.kubernetes.pods import SPEC, MalformedPodError, Pod
from policies.quota.asks.claims import asks_of_claim
from policies.quota.asks.pods import asks_of_pod, got_by_pod, priority_class_of
from policies.quota.bills import UnknownMemory, UnknownProduct, bill
from policies.quota.charges import OWN, Charge
from policies.quota.charging.origins import narrow_asks, origin_of
from policies.quota.opt_in import ENTRIES, is_enforced

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from policies.checks import Problem
    from policies.fleet.pod_claims import PodClaim
    from policies.kubernetes.objects import Object
    from policies.quota.asks.pods import PodAsks
    from policies.quota.charges import Ask, Bill, ChargedKind
    from policies.quota.limits.quota import Quota
    from policies.request import Request
    from policies.settings import GPUAdmissionPolicy
    from policies.settings.choices import Quotas
    from policies.view import ClusterView

__all__ = ["MOST_UNSEEN", "Charging", "Key", "TooManyClaims", "Uncountable", "charging"]

MOST_UNSEEN = 31
"""Objects that are read from the API server for one review, beside the GPUQuota."""
_MOST_OF_GROUP = 5
"""Of these, a PodGroup and its claims. Source: k8s.io/api/scheduling/v1alpha2 MaxPodGroupResourceClaims."""
_CLAIMS = SPEC / "resourceClaims"

Key = tuple[str, str, str]
"""Kind, namespace and name of an object."""


class Uncountable(Exception):  # noqa: N818 - it says what is
    """Nobody can say what an object comes to under a quota."""

    def __init__(self, unknown: UnknownProduct | UnknownMemory, mode: Literal["Enforce", "Warn"]) -> None:
        super().__init__(unknown.text)
        self.unknown = unknown
        self.mode = mode
        """Of the quota."""


@dataclass(frozen=True, slots=True)
class TooManyClaims:
    """A pod has more claims than are read or charged for one pod, so none of its claims is charged with it."""

    problem: Problem
    is_lasting: bool
    """True if trying again does not help: the pod itself has to change."""


@dataclass(frozen=True, slots=True)
class Charging:
    """What an object that is being created asks of its namespace's quota."""

    uid: str
    kind: ChargedKind
    namespace: str
    name: str
    pieces: Mapping[str, tuple[Ask, ...]]
    """As `Charge` has them."""
    enforced: bool
    """Whether the namespace's quota fails closed."""
    of: tuple[str, str] | None = None
    """For a claim that somebody trusted made for a pod or a PodGroup: its uid, and for which piece of it."""
    owner: str = ""
    """The name of that pod or PodGroup."""
    shared: Charging | None = None
    """For a pod: what it shares with its PodGroup, which is charged to the group."""
    problems: tuple[Problem, ...] = ()
    """What it names and does not exist, and what is charged therefore."""
    excess: TooManyClaims | None = None
    """Why its claims were not looked at; nothing is charged for these now."""
    unseen: tuple[Key, ...] = ()
    """At most `MOST_UNSEEN` objects that decide and that the view does not show, or may show as they were before:
    templates that a pod names, its PodGroup and the group's claims, the pod that a claim is for, and the claim itself if
    anybody may have made the call."""

    @property
    def is_for_gpus(self) -> bool:
        """Whether it asks for a GPU, or may do so."""
        return bool(self.pieces or self.shared or self.unseen)

    def charge(self, quota: Quota) -> Charge:
        """What it comes to under a quota.

        Raises:
            Uncountable: nobody can say.
        """
        bills = {}
        made: dict[int, Bill] = {}  # claims from the same template come to the same
        for piece, asks in self.pieces.items():
            if id(asks) not in made:
                found = bill(asks, quota)
                if isinstance(found, UnknownProduct | UnknownMemory):
                    raise Uncountable(found, quota.mode)
                made[id(asks)] = found
            bills[piece] = made[id(asks)]
        shared = None if self.shared is None else self.shared.charge(quota)
        return Charge(self.uid, self.kind, self.namespace, self.name, bills, self.of, shared)


def charging(
    request: Request, view: ClusterView, settings: GPUAdmissionPolicy, *, caller_is_known: bool = True
) -> Charging | None:
    """What a request asks of its namespace's quota; None where it creates nothing that could get a GPU.

    A pod that cannot be read asks for nothing: the API server stores none.

    Args:
        request: What it says of the namespace's label by the entry that was called counts before what the view shows.
        view: The cluster, with nodes, classes, slices, templates, and the pods that claims are made for.
        settings: How quotas count, and who makes the claims of pods.
        caller_is_known: False if the caller may not be an API server.
    """
    if request.operation != "CREATE" or request.subresource or not isinstance(request.object, dict):
        return None
    if (request.group, request.kind) == ("", "Pod"):
        return _of_pod(request.object, request, view, settings.quota)
    if (request.group, request.kind) == ("resource.k8s.io", "ResourceClaim"):
        found = _of_claim(request.object, request, view, settings.quota)
        return found if found is None or caller_is_known else _unless_stored(found, view)
    return None


def _of_pod(document: Object, request: Request, view: ClusterView, settings: Quotas) -> Charging | None:
    try:
        pod = Pod.read(document)
    except MalformedPodError:
        return None
    excess = _too_many_claims(pod)
    claims = () if excess is not None else template_claims(document, request.namespace, view)
    unseen = _unseen_templates(claims)
    excess = excess or _too_many_unseen(pod, unseen)
    asked = asks_of_pod(pod, claims if excess is None else (), view, settings)
    if not asked.pieces and not asked.shared and not asked.problems and excess is None:
        return None
    pieces = asked.pieces
    if pod.past_scheduling and OWN in pieces:
        pieces = {**pieces, OWN: got_by_pod(pod, view, settings)}
    found = replace(_nothing("Pod", document, request, view), pieces=pieces, problems=asked.problems)
    if excess is not None:
        return replace(found, excess=excess)
    return replace(
        found,
        shared=_shared(asked, found),
        unseen=(*unseen, *_unseen_of_group(pod, claims, asked, view)),
    )


def _shared(asked: PodAsks, found: Charging) -> Charging | None:
    if asked.group is None or not asked.shared:
        return None
    return Charging(
        asked.group.uid, POD_GROUP, found.namespace, asked.group.name, pieces=asked.shared, enforced=found.enforced
    )


def _unseen_templates(claims: Sequence[PodClaim]) -> tuple[Key, ...]:
    templates: dict[str, PodClaim] = {}
    for claim in claims:
        if claim.kind == "ResourceClaimTemplate":
            templates.setdefault(claim.object_name, claim)
    return tuple(
        ("ResourceClaimTemplate", claim.namespace, name)
        for name, claim in templates.items()
        if not isinstance(claim.document, dict)
    )


def _unseen_of_group(pod: Pod, claims: Sequence[PodClaim], asked: PodAsks, view: ClusterView) -> Iterator[Key]:
    """The PodGroup of a pod, and claims of it that exist as far as it says so.

    A claim is made as soon as its group exists. What is counted already must not be charged once more because a watch
    is late. Where PodGroups are unknown, they stay so: RBAC may keep them from us.
    """
    name = pod_group_name(pod.document)
    if not name or not claims:
        return
    namespace = claims[0].namespace
    if asked.group is None:
        if view.get(POD_GROUP, name, namespace) is None:
            yield POD_GROUP, namespace, name
    elif asked.shared:
        yield POD_GROUP, namespace, name
        made = (asked.group.claim_name(piece) for piece in asked.shared)
        yield from (("ResourceClaim", namespace, claim) for claim in made if claim)


def _too_many_claims(pod: Pod) -> TooManyClaims | None:
    claims = number_of_template_claims(pod.document)
    if claims <= MOST_CLAIMS:
        return None
    said = f"has {claims:,} claims from templates, and at most {MOST_CLAIMS:,} can be charged for one pod"
    return TooManyClaims(problem(_CLAIMS, said, "request fewer claims"), is_lasting=True)


def _too_many_unseen(pod: Pod, unseen: Sequence[Key]) -> TooManyClaims | None:
    most = MOST_UNSEEN - _MOST_OF_GROUP if pod_group_name(pod.document) else MOST_UNSEEN
    if len(unseen) <= most:
        return None
    said = f"names {len(unseen):,} ResourceClaimTemplates that are not known yet, and at most {most} are read for a pod"
    found = problem(_CLAIMS, said, "create the templates first, or request fewer claims")
    return TooManyClaims(found, is_lasting=False)


def _of_claim(claim: Object, request: Request, view: ClusterView, settings: Quotas) -> Charging | None:
    made = origin_of(claim) if request.user.username in settings.trusted_creators else None
    pod = None if made is None else made.pod(request.namespace, view)
    asked = asks_of_claim(claim, view, settings, None if pod is None else priority_class_of(pod))
    if not asked.asks:
        return None
    found = replace(_nothing("ResourceClaim", claim, request, view), pieces={OWN: asked.asks}, problems=asked.problems)
    if made is None:
        return found
    found = replace(found, of=(made.uid, made.piece), owner=made.owner)
    if made.kind == POD_GROUP:
        return found
    if pod is None:
        return replace(found, unseen=(("Pod", request.namespace, made.owner),))
    if made.piece == OWN:
        return replace(found, pieces={OWN: narrow_asks(asked.asks, got_by_pod(pod, view, settings))})
    return found


def _unless_stored(found: Charging, view: ClusterView) -> Charging | None:
    """What a claim asks, if nobody can know its uid yet; None if it is stored, so that no API server asks about it.

    The origin of a claim is believed of whoever calls, and a claim counts with the pod that it was made for. Whoever could
    say of a claim that was counted by itself that it was made for a pod would have one of the two for nothing.
    """
    if found.of is None:
        return found
    stored = view.get(found.kind, found.name, found.namespace)
    if lookup(stored, ("metadata", "uid")) == found.uid:
        return None
    return replace(found, unseen=(*found.unseen, (found.kind, found.namespace, found.name)))


def _nothing(kind: ChargedKind, document: Object, request: Request, view: ClusterView) -> Charging:
    """A charging of an object without its pieces; one out of a file may have neither uid nor name."""
    uid = _text(document, "uid") or request.uid
    name = _text(document, "name") or request.name or _text(document, "generateName") or uid
    return Charging(uid, kind, request.namespace, name, {}, _fails_closed(request, view))


def _fails_closed(request: Request, view: ClusterView) -> bool:
    """Whether the quota does; the API server has read the namespace's label when it calls one of the two entries."""
    if request.entry in ENTRIES:
        return ENTRIES[request.entry]
    return is_enforced(request.namespace, view)


def _text(document: Object, field: str) -> str:
    found = lookup(document, ("metadata", field))
    return found if isinstance(found, str) else ""
