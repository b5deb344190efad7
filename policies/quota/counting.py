"""Counting: the amounts of existing pods and claims under the limits of a quota."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from typing import TYPE_CHECKING, NamedTuple

from policies.kubernetes.bounds import count_work
from policies.kubernetes.objects import DEFAULT_NAMESPACE, generate_name_of, lookup, mapping_at, name_of, namespace_of
from policies.kubernetes.view import UNKNOWN, PassingView
from policies.quota.charging import origin_of
from policies.quota.counter import Counter, Terms, uid_of
from policies.quota.demands.bills import Uncountable, charge_under
from policies.quota.ledger.allowances import admit, without_uncertain_charges
from policies.quota.ledger.ledger import Ledger
from policies.quota.ledger.open_charges import (
    Reservations,
    add_amounts,
    larger_amounts,
    subtract_amounts,
    sum_amounts,
)
from policies.quota.ledger.recount import Snapshot, recount
from policies.quota.limits.cluster_quota import Group, group_shown, members, quotas_shown, tenancy
from policies.quota.limits.quota import GROUP, QUOTA_NAME, QuotaError, parse_quota
from policies.quota.outcomes import Holder, QuotaOutcome, is_admitted
from policies.rules.charges import OWN

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from policies.kubernetes.objects import Object
    from policies.kubernetes.view import ClusterView, Unknown
    from policies.quota.ledger.recount import Counted
    from policies.quota.limits.quota import Quota
    from policies.quota.outcomes import ChargeOutcome
    from policies.rules.charges import Amounts, ChargeRequest
    from policies.rules.settings import GPUAdmissionPolicy
    from policies.rules.settings.choices import Quotas


_UNITS = 4
"""Units of work to find the origin of a claim."""
_NEW = "1"
"""A resourceVersion for lists that have none."""


class Holding(NamedTuple):
    """A pod or claim, and the amounts that it holds of the quota of its namespace."""

    document: Object
    amounts: Amounts
    """Of a pod, with the claims that were made for it."""
    is_of_pod: bool = False
    """True for a claim that was made for a listed pod."""
    waits: bool = False
    """True for a pod without a node, and for a claim without devices."""
    is_claim: bool = False


def counted_ledger(
    document: Object, view: ClusterView, settings: Quotas, *, counters: Mapping[str, Counter] | None = None
) -> Ledger:
    """The stored ledger of a GPUQuota, or, if some limit was never counted, one counted from the view.

    Existing objects count even if the quota refuses unknown products, and unknown memory counts as that of the largest GPU in
    the cluster. Kinds that the view does not know count as empty.

    Args:
        document: The GPUQuota or GPUQuotaGroup.
        view: The cluster, with the pods and claims of its namespaces.
        settings: How quotas count.
        counters: One for each namespace, the same for further questions about it: they count only changed objects.

    Raises:
        QuotaError: the GPUQuota cannot be read.
    """
    quota, ledger = parse_quota(document), Ledger.read(document)
    if all(ledger.used_amount(limit) is not None for limit in quota.limits):
        return ledger
    terms = Terms(quota, view, settings)
    pods: dict[str, Counted] = {}
    claims: dict[str, Counted] = {}
    for namespace in namespaces_of(document, view):
        counter = Counter() if counters is None else counters[namespace]
        counted_pods, counted_claims = counter.count(*_objects(namespace, view), terms)
        pods.update(counted_pods)
        claims.update(counted_claims)
    return recount(replace(ledger, counted=None), quota, Snapshot(pods, claims, _NEW, _NEW)) or ledger


def decisive_ledger(document: Object, view: ClusterView, settings: Quotas) -> Ledger:
    """As `counted_ledger`, without what replicas may give back and what may be counted twice.

    No refusal and no warning rests on that.
    """
    return without_uncertain_charges(counted_ledger(document, view, settings))


def cover(
    pod: Object | None, claims: Iterable[Object], claim_uid: str, quota: Quota, view: ClusterView, settings: Quotas
) -> Amounts:
    """The part of a scheduler-made claim for extended resources that is counted with its pod already.

    This is the amount of the pod, less the amounts of other claims for the same resources. A forged claim only takes from
    a pod in its own namespace.

    Args:
        pod: As it is stored; None if it is not.
        claims: All of its namespace.
        claim_uid: Of the claim that is being made.
        quota: Of the namespace.
        view: The cluster, with nodes, classes and slices.
        settings: How quotas count.
    """
    if pod is None:
        return {}
    claims = tuple(claims)
    count_work(_UNITS * len(claims))
    made = [claim for claim in claims if _is_for(claim, uid_of(pod)) and uid_of(claim) != claim_uid]
    pods, taken = Counter().count(
        [pod],
        made,
        Terms(quota, view, settings),
        charged={(uid_of(claim), name_of(claim)): (uid_of(pod), OWN) for claim in made},
    )
    return {
        name: left
        for name, left in subtract_amounts(
            pods[uid_of(pod)].amounts, sum_amounts(each.amounts for each in taken.values())
        ).items()
        if left
    }


def holders(
    namespace: str, quota: Quota, view: ClusterView, settings: Quotas, now: datetime, *, counter: Counter | None = None
) -> tuple[Holder, ...]:
    """The pods and claims in the view that hold a part of their namespace's quota.

    A claim that was made for a pod counts for the pod, by the pod's name.

    Args:
        namespace: The name of the namespace.
        quota: Of the namespace.
        view: The cluster, with pods, claims, nodes, classes and slices.
        settings: How quotas count.
        now: The time from which ages are computed.
        counter: The same for further questions about the namespace: it counts only changed objects.
    """
    return tuple(
        Holder(
            f"{namespace}/{name_of(each.document)}", each.amounts, _age(each.document, now), each.waits, each.is_claim
        )
        for each in namespace_holdings(namespace, quota, view, settings, counter=counter)
        if any(each.amounts.values()) and not each.is_of_pod
    )


def namespace_holdings(
    namespace: str, quota: Quota, view: ClusterView, settings: Quotas, *, counter: Counter | None = None
) -> Iterator[Holding]:
    """The pods and claims of a namespace with their amounts; arguments as `holders` takes them."""
    pods, claims = _objects(namespace, view)
    counted_pods, counted_claims = (counter or Counter()).count(pods, claims, Terms(quota, view, settings))
    made: dict[str, dict[str, Amounts]] = {}
    for each in counted_claims.values():
        pieces = made.setdefault(each.owner, {})
        pieces[each.piece] = add_amounts(pieces.get(each.piece, {}), each.amounts)
    for pod in pods:
        amounts = _pod_amounts(counted_pods[uid_of(pod)], made.get(uid_of(pod), {}))
        yield Holding(pod, amounts, waits=not lookup(pod, ("spec", "nodeName")))
    for claim in claims:
        counted = counted_claims[uid_of(claim)]
        waits = not lookup(claim, ("status", "allocation"))
        yield Holding(claim, counted.amounts, is_of_pod=counted.owner in counted_pods, waits=waits, is_claim=True)


def _objects(namespace: str, view: ClusterView) -> tuple[Sequence[Object], Sequence[Object]]:
    """The pods and claims of a namespace; none of a kind that is unknown."""
    return view.known_objects("Pod", namespace), view.known_objects("ResourceClaim", namespace)


def _pod_amounts(pod: Counted, pieces: Mapping[str, Amounts]) -> Amounts:
    """The amounts of a pod with its claims; claims for its extended resources count once."""
    held = larger_amounts(pod.amounts, pieces.get(OWN, {}))
    return sum_amounts((held, *(amounts for piece, amounts in pieces.items() if piece != OWN)))


def _is_for(claim: Object, uid: str) -> bool:
    made = origin_of(claim)
    return made is not None and (made.uid, made.piece) == (uid, OWN)


def _age(document: Object, now: datetime) -> timedelta:
    """The time since an object was created; zero if it has no valid creationTimestamp."""
    created = lookup(document, ("metadata", "creationTimestamp"))
    try:
        since = datetime.fromisoformat(created) if isinstance(created, str) else now
    except ValueError:
        return timedelta()
    return now - (since if since.tzinfo else since.replace(tzinfo=UTC))


def outcomes_by_view(charge: ChargeRequest, view: ClusterView, settings: GPUAdmissionPolicy) -> list[QuotaOutcome]:
    """The outcomes of a charge by the quotas that the view shows; nothing is written.

    The GPUQuota of the namespace is asked first, as it is charged: one that refuses is the only one.
    """
    outcomes: list[QuotaOutcome] = []
    for names, document in quotas_shown(charge.namespace, view):
        counted = charge.in_group if document.get("kind") == GROUP else charge
        outcome = QuotaOutcome(names, _outcome(counted, document, view, settings))
        if not is_admitted(charge, outcome.outcome):
            return [outcome]
        outcomes.insert(0, outcome)
    return outcomes


def _outcome(charge: ChargeRequest, document: Object, view: ClusterView, settings: GPUAdmissionPolicy) -> ChargeOutcome:
    if charge.refusal is not None:
        return charge.refusal
    try:
        limits = parse_quota(document)
        amounts = charge_under(charge, limits)
    except (QuotaError, Uncountable) as error:
        return error
    ledger = decisive_ledger(document, _Others(charge, view), settings.quota)
    return admit(ledger, limits, amounts, enforced=charge.enforced)[0]


def namespaces_of(document: Object, view: ClusterView) -> Sequence[str]:
    """The namespaces that a GPUQuota or GPUQuotaGroup counts.

    Where ClusterGPUQuotas are unknown, or the one of a group cannot be read, the group keeps the namespaces that it has.
    """
    if document.get("kind") != GROUP:
        return [namespace_of(document) or DEFAULT_NAMESPACE]
    spec, found = mapping_at(document, ("spec",)), tenancy(view)
    if found is UNKNOWN or str(spec.get("quota")) in found.unreadable:
        return Ledger.read(document).namespaces
    return members(Group(str(spec.get("quota")), str(spec.get("group") or "")), view)


def charged_amounts(charges: Iterable[tuple[ChargeRequest, int]], quota: Quota) -> Amounts:
    """The amounts by limit that a quota is charged for pods and claims; shared claims count once.

    Args:
        charges: Each with the number of pods that have it.
        quota: The quota.

    Raises:
        Uncountable: The product or the memory of a GPU is unknown, and the quota needs it.
    """
    charged = [(charge_under(charge, quota), count) for charge, count in charges]
    own = (
        {name: amount * count for name, amount in bill.amounts.items()}
        for charge, count in charged
        for bill in charge.pieces.values()
    )
    groups = {charge.shared.uid: charge.shared for charge, _ in charged if charge.shared is not None}
    return sum_amounts([*own, *(bill.amounts for group in groups.values() for bill in group.pieces.values())])


class Budget(NamedTuple):
    """The limits that the pods and claims of a namespace count in, and what is taken of them."""

    owner: str
    """The object that has them: `GPUQuota team-a/gpu`, `GPUQuotaGroup research.team-a`."""
    quota: Quota
    taken: Amounts
    """The used and reserved amounts, by limit."""
    charged: Reservations
    """The open charges among them."""


def budgets_of(namespace: str, view: ClusterView, settings: GPUAdmissionPolicy) -> tuple[list[Budget], list[str]]:
    """The limits of a namespace, those of its group after its own, and remarks on limits that are unknown."""
    found: list[Budget] = []
    remarks: list[str] = []
    if view.get("GPUQuota", QUOTA_NAME, namespace) is UNKNOWN:
        remarks.append("GPUQuotas are unknown, so their limits are left out")
    if group_shown(namespace, view) is UNKNOWN and tenancy(view) is not UNKNOWN:
        remarks.append(f"namespace {namespace} is unknown, so limits of ClusterGPUQuotas are left out")
    for names, document in quotas_shown(namespace, view):
        is_group = document.get("kind") == GROUP
        owner = f"{GROUP} {names.name}" if is_group else f"GPUQuota {namespace}/{names.name}"
        try:
            found.append(_budget(owner, parse_quota(document), decisive_ledger(document, view, settings.quota)))
        except QuotaError:
            remarks.append(f"{owner} cannot be read, so its limits are left out")
    return found, remarks


def _budget(owner: str, quota: Quota, ledger: Ledger) -> Budget:
    used = {limit.name: ledger.used_amount(limit) or Fraction() for limit in quota.limits}
    return Budget(owner, quota, add_amounts(used, ledger.reservations.total), ledger.reservations)


class _Others(PassingView):
    """The cluster without the object under review, which its files may contain too."""

    def __init__(self, charge: ChargeRequest, view: ClusterView) -> None:
        super().__init__(view)
        self._charge = charge

    def list(self, kind: str, namespace: str = "") -> Sequence[Object] | Unknown:
        listed = super().list(kind, namespace)
        if listed is UNKNOWN or (kind, namespace) != (self._charge.kind, self._charge.namespace):
            return listed
        name = self._charge.name.rpartition("/")[2]
        own = next((each for each in listed if name == (name_of(each) or generate_name_of(each))), None)
        return [each for each in listed if each is not own]
