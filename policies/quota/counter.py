"""Measuring: the amounts of existing pods and claims under a quota, also if their devices are unknown."""

from __future__ import annotations

import marshal
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import ceil
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from policies.devices.published_devices import published_devices
from policies.devices.resource_claims import Claim
from policies.fleet.pod_claims import template_claims
from policies.kubernetes.bounds import count_work
from policies.kubernetes.objects import has_ended, items_at, lookup, name_of, namespace_of
from policies.kubernetes.pods import MalformedPodError, Pod, resources_in_claim
from policies.quota.charging import narrow_demands, origin_of
from policies.quota.demands.bills import bill, gpus_by_kind
from policies.quota.demands.claims import demands_of_claim, holdings_of_claim
from policies.quota.demands.classes import classes
from policies.quota.demands.device_kinds import node_kinds, visible_kinds
from policies.quota.demands.pods import holdings_of_pod, priority_class_of
from policies.quota.ledger.gpu_hours import GPUKind
from policies.quota.ledger.open_charges import ZERO, add_amounts, larger_amounts, sum_amounts
from policies.quota.ledger.recount import Counted, SharedClaims
from policies.rules.charges import OWN, Bill

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from fractions import Fraction

    from policies.kubernetes.objects import Object
    from policies.kubernetes.view import ClusterView
    from policies.quota.demands.pods import ExtendedResources
    from policies.quota.limits.quota import Quota
    from policies.rules.charges import Amounts, DeviceDemand, DeviceKind
    from policies.rules.settings.choices import Quotas


_MOST_REMEMBERED = 4096


def largest_memory(view: ClusterView) -> int:
    """The bytes of the largest GPU on nodes or in slices; 0 if unknown. Use it by `view.derive`.

    If only a part of a GPU is known, its memory is scaled up to the whole GPU.
    """
    return max((ceil(kind.memory / kind.gpus) for kind in visible_kinds(view) if kind.memory and kind.gpus), default=0)


class Measured(NamedTuple):
    """The amounts of some demands."""

    amounts: Amounts
    """By limit."""
    gpus: Mapping[tuple[str, str], Fraction]
    """By product and MIG profile, whatever the limits are."""


class Measure:
    """Computes the amounts of granted demands, also if products or memory are unknown.

    Most pods are alike, so amounts are cached, and equal demands get the identical mapping.
    """

    def __init__(self, quota: Quota, view: ClusterView) -> None:
        """Keep the quota and the view. Unknown products count even if the quota refuses them."""
        self._quota = replace(quota, unknown_products="WorstCase")
        self._largest = view.derive(largest_memory)
        self._known: dict[tuple[DeviceDemand, ...], Measured] = {}

    def measure(self, demands: Iterable[DeviceDemand]) -> Measured:
        """The largest possible amounts of the demands."""
        demands = tuple(demands)
        found = self._known.get(demands)
        if found is None:
            if len(self._known) >= _MOST_REMEMBERED:
                self._known.clear()
            found = self._known[demands] = Measured(self._bill(demands), gpus_by_kind(demands))
        return found

    def _bill(self, demands: tuple[DeviceDemand, ...]) -> Amounts:
        found = bill(demands, self._quota)
        return found.amounts if isinstance(found, Bill) else self._bill(tuple(map(self._with_known_memory, demands)))

    def _with_known_memory(self, demand: DeviceDemand) -> DeviceDemand:
        """The demand with the memory of the largest GPU for kinds whose memory is unknown."""
        return replace(
            demand,
            kinds=self._kinds_with_memory(demand.kinds),
            unseen=self._kinds_with_memory(demand.unseen),
            alternatives=tuple(map(self._with_known_memory, demand.alternatives)),
        )

    def _kinds_with_memory(self, kinds: frozenset[DeviceKind]) -> frozenset[DeviceKind]:
        return frozenset(kind if kind.memory is not None else replace(kind, memory=self._largest) for kind in kinds)


_KNOWN, _NEW = 5, 150
"""Units of work for an object that is as it was, and for one to be counted."""
_NONE: Mapping[tuple[str, str], tuple[str, str]] = MappingProxyType({})


def uid_of(document: Object) -> str:
    """The uid of an object; of one out of a file, which may have none, its kind, namespace and name."""
    uid = lookup(document, ("metadata", "uid"))
    if isinstance(uid, str) and uid:
        return uid
    return f"{document.get('kind', '')}/{namespace_of(document)}/{name_of(document)}"


@dataclass(frozen=True)
class Terms:
    """The quota, cluster and settings that counting depends on."""

    quota: Quota
    view: ClusterView
    """With nodes, classes and slices."""
    settings: Quotas

    @property
    def guesses_memory(self) -> bool:
        """True if memory is limited while the memory of every GPU is unknown, so that some may count as 0."""
        return any(limit.unit == "memory" for limit in self.quota.limits) and not self.view.derive(largest_memory)

    @cached_property
    def facts(self) -> tuple[Any, ...]:
        """The inputs of counting other than the objects: while they are equal, so are the amounts.

        They are read once, so that a change of the cluster during a count does not count objects again.
        """
        derived = (self.view.derive(function) for function in (node_kinds, classes, published_devices))
        return (self.quota.limits, self.settings, *derived)


@dataclass(frozen=True, slots=True)
class _Seen:
    """An object and its amounts."""

    document: Object
    counted: Counted
    gpus: Mapping[tuple[str, str], Fraction]
    """Those that it uses by product and MIG profile, or requests while it has none; of a pod without those in claims."""


@dataclass(frozen=True, slots=True)
class _SeenPod(_Seen):
    held: tuple[DeviceDemand, ...]
    """The devices that it holds by extended resources."""
    priority_class: str
    is_bound: bool
    made: Mapping[str, str]
    """The claims that its status says were made for it, by name, and for which piece. Users cannot write there."""
    unclaimed: Amounts | None = None
    """The amounts of extended resources that no claim holds for it; None if no claim holds any."""


@dataclass(frozen=True, slots=True)
class _Origin:
    """The verified origin of a claim."""

    pod: str
    """Its uid."""
    piece: str
    priority_class: str
    is_bound: bool
    """True if the pod has a node, so that the claim keeps its devices while the pod runs."""


@dataclass(frozen=True, slots=True)
class _SeenClaim(_Seen):
    origin: _Origin | None
    got: Amounts
    """The amounts of its allocated devices."""


class Counter:
    """Counts the pods and claims of one namespace, and caches the amounts of unchanged objects.

    An object that is identical to the one of the last count is not counted again while quota, settings, nodes, classes
    and devices are equal. Any thread may call, one at a time.
    """

    def __init__(self) -> None:
        self._basis: tuple[tuple[Any, ...], Measure] | None = None
        """The facts that the cached amounts depend on, and what measures by them."""
        self._pods: dict[str, _SeenPod] = {}
        self._claims: dict[str, _SeenClaim] = {}
        self._origins: dict[str, _Origin] = {}

    def count(
        self,
        pods: Iterable[Object],
        claims: Iterable[Object],
        terms: Terms,
        *,
        charged: Mapping[tuple[str, str], tuple[str, str]] = _NONE,
    ) -> tuple[Mapping[str, Counted], Mapping[str, Counted]]:
        """The amounts of pods and of claims, by uid.

        Args:
            pods: Of one namespace; those without GPUs count as nothing.
            claims: Of the same.
            terms: The quota, cluster and settings.
            charged: The pod and piece that the charge of a claim names, by uid and name of the claim. This is reliable: when
                the claim was charged, no claim of that uid and name was stored.
        """
        facts = terms.facts
        if self._basis is None or self._basis[0] != facts:
            self._basis, self._pods, self._claims = (facts, Measure(terms.quota, terms.view)), {}, {}
        work = _Work(terms, self._basis[1])
        pods, listed = tuple(pods), tuple(claims)
        count_work(_KNOWN * (len(pods) + len(listed)))
        self._pods = {uid_of(pod): self._pod(pod, work) for pod in pods}
        self._origins = {
            uid_of(claim): origin for claim in listed if (origin := self._origin(claim, charged)) is not None
        }
        self._claims = {uid_of(claim): self._claim(claim, work) for claim in listed}
        return self._pod_counts(), {uid: seen.counted for uid, seen in self._claims.items()}

    def held_amounts(self) -> Amounts:
        """The amounts that the bound pods and allocated claims of the last count hold now."""
        bound = (pod for pod in self._pods.values() if pod.is_bound)
        own = (pod.counted.amounts if pod.unclaimed is None else pod.unclaimed for pod in bound)
        return sum_amounts([*own, *(claim.got for claim in self._claims.values())])

    def gpus(self) -> dict[GPUKind, Fraction]:
        """The GPUs of the pods and claims of the last count, each once, however the quota limits them."""
        times: dict[tuple[str, int], tuple[Mapping[tuple[str, str], Fraction], int]] = {}
        claims = (claim for claim in self._claims.values() if not self._is_with_pod(claim))
        for seen in (*self._pods.values(), *claims):
            alike = namespace_of(seen.document), id(seen.gpus)
            times[alike] = seen.gpus, times.get(alike, (seen.gpus, 0))[1] + 1
        found: dict[GPUKind, Fraction] = {}
        for (namespace, _), (gpus, count) in times.items():
            for named, amount in gpus.items():
                kind = GPUKind(namespace, *named)
                found[kind] = found.get(kind, ZERO) + count * amount
        return found

    def _is_with_pod(self, claim: _SeenClaim) -> bool:
        """True if the devices of a claim are still among the extended resources of its pod."""
        if claim.origin is None or claim.origin.piece != OWN:
            return False
        pod = self._pods.get(claim.origin.pod)
        return pod is not None and not pod.counted.ended and pod.unclaimed is None

    def shares(self, charged: Iterable[str], view: ClusterView) -> Mapping[str, SharedClaims]:
        """The claims that pods of the last count share with their PodGroups, by the uids of these pods.

        Args:
            charged: The uids of those that have a charge; others are left out.
            view: The cluster as it is now, with PodGroups.
        """
        found = {uid: _shares(self._pods[uid].document, view) for uid in charged if uid in self._pods}
        return {uid: shares for uid, shares in found.items() if shares is not None}

    def _pod_counts(self) -> dict[str, Counted]:
        """The amounts of pods; extended resources in a claim count as its allocated devices."""
        counted = {uid: seen.counted for uid, seen in self._pods.items()}
        for claim in self._claims.values():
            pod = self._pods.get(claim.origin.pod) if claim.origin is not None else None
            if pod is None or pod.unclaimed is None or pod.made.get(claim.counted.name) != OWN:
                continue
            if Claim(claim.document).allocation is not None:
                amounts = add_amounts(pod.unclaimed, claim.counted.amounts)
                counted[pod.counted.uid] = replace(pod.counted, amounts=amounts)
        return counted

    def _pod(self, document: Object, work: _Work) -> _SeenPod:
        known = self._pods.get(uid_of(document))
        return known if known is not None and known.document is document else work.pod(document)

    def _origin(self, claim: Object, charged: Mapping[tuple[str, str], tuple[str, str]]) -> _Origin | None:
        """The verified origin of a claim; it stays valid when the pod is gone.

        The ownerReference and the annotation alone may be forged. A forged claim would count for another pod's devices
        or PriorityClass.
        """
        uid, name, made = uid_of(claim), name_of(claim), origin_of(claim)
        pod = None if made is None or made.kind != "Pod" else self._pods.get(made.uid)
        if made is None or pod is None:
            return self._origins.get(uid)
        if pod.made.get(name) == made.piece or charged.get((uid, name)) == (made.uid, made.piece):
            return _Origin(made.uid, made.piece, pod.priority_class, pod.is_bound)
        return self._origins.get(uid)

    def _claim(self, document: Object, work: _Work) -> _SeenClaim:
        known, origin = self._claims.get(uid_of(document)), self._origins.get(uid_of(document))
        if known is not None and known.document is document and known.origin == origin:
            return known
        pod = self._pods.get(origin.pod) if origin is not None and origin.piece == OWN else None
        return work.claim(document, origin, None if pod is None else pod.held)


@dataclass(frozen=True, slots=True)
class _Work:
    """The counting of objects that have changed."""

    terms: Terms
    measure: Measure
    extended: dict[bytes, ExtendedResources] = field(default_factory=dict)
    """The extended resources of pods, by what decides about them."""
    requested: dict[tuple[bytes, str | None], tuple[DeviceDemand, ...]] = field(default_factory=dict)
    """The demands of claims, by the spec as it is written and the PriorityClass."""

    def pod(self, document: Object) -> _SeenPod:
        """The amounts of a pod; an unreadable one counts as nothing, since no API server stores it."""
        count_work(_NEW)
        named = (uid_of(document), "Pod", name_of(document))
        try:
            pod = Pod.read(document)
        except MalformedPodError:
            return _SeenPod(document, Counted(*named), {}, (), "", is_bound=False, made={})
        is_over = has_ended(document)
        got = () if is_over else holdings_of_pod(pod, self.terms.view, self.terms.settings, alike=self.extended)
        claims = frozenset(entry["name"] for entry in pod.resource_claims if "name" in entry)
        amounts, gpus = self.measure.measure(got)
        counted = Counted(*named, amounts=amounts, ended=is_over, claims=claims)
        made, claimed = _made_by_status(document.get("status")), resources_in_claim(document.get("status"))
        seen = _SeenPod(document, counted, gpus, got, priority_class_of(pod), pod.is_past_scheduling, made)
        if is_over or not pod.is_past_scheduling or not claimed:
            return seen
        unclaimed = self.measure.measure(
            holdings_of_pod(pod, self.terms.view, self.terms.settings, claimed, alike=self.extended)
        )
        return replace(seen, gpus=unclaimed.gpus, unclaimed=unclaimed.amounts)

    def claim(self, document: Object, origin: _Origin | None, own: tuple[DeviceDemand, ...] | None) -> _SeenClaim:
        """The amounts of a claim.

        Args:
            document: The claim.
            origin: Its verified origin.
            own: The extended resources of its pod, if it was made for these.
        """
        count_work(_NEW)
        owner, piece = ("", OWN) if origin is None else (origin.pod, origin.piece)
        if origin is None and (made := origin_of(document)) is not None and made.piece != OWN:
            # A forged origin only closes the charge of the forger's pod early, which gains nothing.
            owner, piece = made.uid, made.piece
        got, amounts = self._amounts(document, origin, own)
        counted = Counted(uid_of(document), "ResourceClaim", name_of(document), owner, piece, amounts.amounts)
        return _SeenClaim(document, counted, amounts.gpus, origin, got)

    def _amounts(
        self, claim: Object, origin: _Origin | None, own: tuple[DeviceDemand, ...] | None
    ) -> tuple[Amounts, Measured]:
        """The amounts of the allocated devices of a claim, and the amounts that it counts for.

        They are the same only if it was made for a bound pod. Any other claim is deallocated when its pods end, and the next
        pods can get other devices that it requests, without another charge. So the larger of both counts.
        """
        terms, priority_class = self.terms, None if origin is None else origin.priority_class
        is_allocated = Claim(claim).allocation is not None
        got = Measured({}, {})
        if is_allocated:
            got = self.measure.measure(holdings_of_claim(claim, terms.view, terms.settings, priority_class))
            if origin is not None and origin.is_bound:
                return got.amounts, got
        key = marshal.dumps((claim.get("apiVersion"), claim.get("spec")), 2), priority_class
        if key not in self.requested:
            self.requested[key] = demands_of_claim(claim, terms.view, terms.settings, priority_class).demands
        demands = self.requested[key]
        requested = self.measure.measure(demands if own is None else narrow_demands(demands, own))
        if not is_allocated:
            return {}, requested
        return got.amounts, Measured(larger_amounts(got.amounts, requested.amounts), got.gpus)


def _shares(pod: Object, view: ClusterView) -> SharedClaims | None:
    shared = {claim.name: claim.group for claim in template_claims(pod, namespace_of(pod), view) if claim.group}
    group = next(iter(shared.values()), None)
    return None if group is None else SharedClaims(group.uid, group.name, frozenset(shared))


def _made_by_status(status: Any) -> dict[str, str]:
    """The claims that were made for a pod according to its status, with the piece of each.

    Source: k8s.io/api/core/v1/types.go PodStatus.
    """
    found = [
        (lookup(each, ("resourceClaimName",)), lookup(each, ("name",)))
        for each in items_at(status, ("resourceClaimStatuses",))
    ]
    found.append((lookup(status, ("extendedResourceClaimStatus", "resourceClaimName")), OWN))
    return {claim: piece for claim, piece in found if isinstance(claim, str) and isinstance(piece, str) and claim}
