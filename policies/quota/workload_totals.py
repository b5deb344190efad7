"""Workload totals: warns if the pods that a workload runs at once do not fit into a quota."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from policies.devices.pod_groups import with_shared_claims
from policies.kubernetes.view import ChangedView, PassingView
from policies.quota.charging import charge_decision
from policies.quota.counting import decisive_ledger
from policies.quota.demands.bills import Uncountable, charge_under
from policies.quota.demands.device_kinds import UNLIMITED_CLAUSE, UNLIMITED_REMEDY
from policies.quota.ledger.open_charges import ZERO, Reservations, sum_amounts
from policies.quota.limits.amounts import AmountScale
from policies.quota.limits.cluster_quota import quotas_shown
from policies.quota.limits.quota import QUOTA_NAME, QuotaError, parse_quota
from policies.rules.checks import Problem, RulesOn
from policies.rules.decision import WORKLOAD, Severity
from policies.rules.request import Request

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from fractions import Fraction

    from policies.kubernetes.objects import Object
    from policies.kubernetes.pod_templates import PodCount
    from policies.kubernetes.view import ClusterView, Unknown
    from policies.quota.ledger.ledger import Ledger
    from policies.quota.limits.quota import Limit, Quota
    from policies.rules.charges import Amounts, Charge, ChargeRequest
    from policies.rules.decision import Decision, Finding
    from policies.rules.settings import GPUAdmissionPolicy


_Decided = tuple["Decision", "PodCount", "tuple[Object, ...]"]
_Piece = tuple[str, str]
"""The uid of a PodGroup, and the name of one of its claims."""


@dataclass(frozen=True)
class PodsAtOnce:
    """Pods of one template."""

    charge: Charge
    """Of one of them."""
    count: PodCount
    counts_unlimited: bool = False
    """True if devices of the charge count whole because the driver shares them without limit."""

    @cached_property
    def each(self) -> Amounts:
        """The amounts of one of them, by limit, without the claims that it shares."""
        return sum_amounts(bill.amounts for bill in self.charge.pieces.values())

    @property
    def shared(self) -> Mapping[_Piece, Amounts]:
        """The amounts of the claims that all of them share with their PodGroup, by limit."""
        group = self.charge.shared
        return {} if group is None else {(group.uid, name): bill.amounts for name, bill in group.pieces.items()}


@dataclass(frozen=True, slots=True)
class _Short:
    """A limit that has too little for all pods."""

    limit: Limit
    pods: Sequence[PodsAtOnce]
    """Those that count in it."""
    shared: Fraction
    """The amount of the claims that they share with their PodGroups, once for each group."""
    left: Fraction

    @property
    def requested(self) -> Fraction:
        """By all of them."""
        return sum((each.count.pods * self.each(each) for each in self.pods), self.shared)

    def each(self, pods: PodsAtOnce) -> Fraction:
        """The amount of one of the pods, without the claims that it shares."""
        return pods.each.get(self.limit.name, ZERO)


def shortages(
    pods: Iterable[_Decided],
    request: Request,
    view: ClusterView,
    settings: GPUAdmissionPolicy,
) -> Iterable[Finding]:
    """A warning for each quota of the namespace that all pods of a workload together exceed.

    Args:
        pods: The decision on a pod of each template, how many there are, and the claims that those of a Job share. A pod is
            charged as the decision leaves it.
        request: The creation or update of the workload.
        view: The cluster.
        settings: The administrator's settings.
    """
    namespace, is_new = request.namespace, request.operation == "CREATE"
    pods = [*pods]
    for names, document in quotas_shown(namespace, view):
        try:
            quota = parse_quota(document)
        except QuotaError:
            continue  # each pod has a finding for it
        charged = [*_charges(pods, namespace, quota, view if is_new else _Unclaimed(view), settings)]
        ledger = decisive_ledger(document, view, settings.quota)
        yield from room_for_all(charged, quota, ledger, names.owner, is_new=is_new)


def _charges(
    pods: Iterable[_Decided],
    namespace: str,
    quota: Quota,
    view: ClusterView,
    settings: GPUAdmissionPolicy,
) -> Iterator[PodsAtOnce]:
    for charge, count in requests_at_once(pods, namespace, view, settings):
        try:
            yield PodsAtOnce(charge_under(charge, quota), count, charge.counts_unlimited)
        except Uncountable:
            # The pod has its own finding.
            continue


def requests_at_once(
    pods: Iterable[_Decided], namespace: str, view: ClusterView, settings: GPUAdmissionPolicy
) -> Iterator[tuple[ChargeRequest, PodCount]]:
    """The charges of pods of a workload, each with its number of pods; arguments as for `shortages`."""
    for number, (decision, count, shared) in enumerate(pods):
        seen: ClusterView = ChangedView(view, {each.key: each.manifest() for each in decision.templates})
        pod = decision.object
        if shared and pod is not None:
            pod, seen = with_shared_claims(pod, shared, f"group {number}", namespace, seen)
        # If the template names a PodGroup, its claims are those of all Jobs together.
        counted = count._replace(groups=1) if pod is decision.object else count
        for charge in charge_decision(Request(pod, namespace=namespace), seen, settings).charges:
            yield charge, counted


class _Unclaimed(PassingView):
    """The cluster without ResourceClaims, so that claims that a PodGroup has are counted again."""

    def get(self, kind: str, name: str, namespace: str = "") -> Object | Unknown | None:
        """One object; None for a claim."""
        return None if kind == "ResourceClaim" else super().get(kind, name, namespace)


@RulesOn(WORKLOAD).rule(
    "GA506",
    "The pods of a workload must fit into the quota together",
    default=Severity.WARN,
    remedy="request fewer pods or GPUs",
    administrator="raise the limit in GPUQuota gpu",
    source="docs/quota.md",
)
def room_for_all(
    pods: Sequence[PodsAtOnce], quota: Quota, ledger: Ledger, owner: str = f"GPUQuota {QUOTA_NAME}", *, is_new: bool
) -> Iterator[Problem]:
    """Each pod of a workload is charged when it is created.

    Those beyond the quota are refused one by one, which shows only in the events of a ReplicaSet or a Job: some
    pods run and hold GPUs while the others are never created, and training that needs all of them waits for ever.
    So the warning comes when the workload is applied, or gets more replicas.
    """
    # Pods of an existing workload are in the ledger already, so they are compared with the whole limit. Pods of a new one
    # that do not fit even alone are skipped: each of them is refused with its own message.
    left = dict(_left_of(quota, ledger, is_new=is_new))
    charged = ledger.reservations if is_new else Reservations()
    coming = [each for each in pods if each.count.pods and not (is_new and _is_too_large(each, left, charged))]
    rooms = (_short(limit, coming, left[limit.name], charged) for limit in quota.limits if limit.name in left)
    short = [room for room in rooms if room.requested > room.left]
    if short:
        tightest = min(short, key=lambda room: room.left / room.requested)
        largest = max(tightest.pods, key=lambda each: each.count.pods * tightest.each(each))
        text, administrator = _message(tightest, quota, owner), f"raise the limit in {owner}"
        if any(each.counts_unlimited for each in tightest.pods):
            text = f"{text}; {UNLIMITED_CLAUSE}"
            administrator = f"{UNLIMITED_REMEDY}, or {administrator}"
        yield Problem(largest.count.path, text, administrator=administrator)


def _left_of(quota: Quota, ledger: Ledger, *, is_new: bool) -> Iterator[tuple[str, Fraction]]:
    """The amount that is left of each primed limit."""
    for limit in quota.limits:
        used = ledger.used_amount(limit)
        if used is not None:
            taken = used + ledger.reservations.total.get(limit.name, ZERO) if is_new else ZERO
            yield limit.name, max(ZERO, limit.hard - taken)


def _is_too_large(pods: PodsAtOnce, left: Mapping[str, Fraction], charged: Reservations) -> bool:
    alone = sum_amounts(
        (pods.each, *(amounts for piece, amounts in pods.shared.items() if not charged.is_open(*piece)))
    )
    return any(name in left and amount > left[name] for name, amount in alone.items())


def _short(limit: Limit, pods: Sequence[PodsAtOnce], left: Fraction, charged: Reservations) -> _Short:
    """The pods that count in a limit, and how much of it is left.

    Args:
        limit: The limit to compare with.
        pods: All new pods.
        left: The amount that is left of the limit.
        charged: The charges of the PodGroups of the pods.
    """
    pieces = {
        piece: each.count.groups * amounts[limit.name]
        for each in pods
        for piece, amounts in each.shared.items()
        if amounts.get(limit.name) and not charged.is_open(*piece)
    }
    touching = [each for each in pods if each.each.get(limit.name) or not pieces.keys().isdisjoint(each.shared)]
    return _Short(limit, touching, sum(pieces.values(), ZERO), left)


def _message(short: _Short, quota: Quota, owner: str) -> str:
    limit, number = short.limit, sum(each.count.pods for each in short.pods)
    subject = "1 pod requests" if number == 1 else f"{number:,} pods at once request"
    scale, most = AmountScale.of(limit.unit, short.requested, limit.hard), min(short.left, limit.hard)
    requested = f"{subject} {scale.text(short.requested, most)}{scale.of_memory}"
    if short.shared:
        requested += f" ({scale.text(short.shared)}{scale.of_memory} in claims that they share)"
    if short.requested > limit.hard:
        room = f"allows at most {scale.text(limit.hard)}{scale.of_memory}"
    else:
        room = f"has {scale.of_limit(short.left, limit.hard)}{scale.of_memory} left"
    text = f'{requested}, but limit "{limit.name}" of {owner} {room}'
    if quota.mode == "Warn":
        return f"{text}; all are admitted all the same, because the quota has mode: Warn"
    return f"{text}, so {_outcome(short)}"


def _outcome(short: _Short) -> str:
    if len(short.pods) > 1:
        return "not all of them are created until some end"
    each = short.each(short.pods[0])
    fitting = max(ZERO, short.left - short.shared) // each if each else 0
    if not fitting:
        return "none is created"
    return f"{fitting:,} {'is' if fitting == 1 else 'are'} created, and the others are refused until some end"
