"""Balances: the use of a quota while objects are created one after another, without a cluster."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from policies.kubernetes.objects import controller_of, lookup, name_of
from policies.quota.counting import decisive_ledger, namespace_holdings, namespaces_of
from policies.quota.demands.bills import Uncountable, charge_under
from policies.quota.ledger.open_charges import ZERO, add_amounts, open_charge, subtract_amounts, sum_amounts
from policies.quota.limits.amounts import AmountScale, sufficient_limit
from policies.quota.limits.quota import QuotaError, parse_quota

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from fractions import Fraction

    from policies.kubernetes.objects import Object
    from policies.kubernetes.view import ClusterView, Key, Unknown
    from policies.quota.ledger.ledger import Ledger
    from policies.quota.limits.quota import Limit, Quota, QuotaNames
    from policies.rules.charges import Amounts, Charge, ChargeRequest
    from policies.rules.settings.choices import Quotas


_MOST_OWNERS = 5
"""Maximum controllers above a pod that are followed. A pod of a CronJob has two."""

_Requests = Sequence[tuple["ChargeRequest", int]]
"""The charges that an object requests, each with the number of pods that have it."""


@dataclass(frozen=True, slots=True)
class QuotaBalance:
    """The use of a GPUQuota or GPUQuotaGroup after some objects were created; immutable."""

    names: QuotaNames
    """The words for the quota."""
    document: Object
    """The GPUQuota or GPUQuotaGroup."""
    quota: Quota
    held: Mapping[Key, Amounts]
    """The amounts that pods and claims hold which are stored or were admitted, also added up for the workloads of stored pods."""
    opening: Ledger
    """The ledger before any of the objects was created."""
    ledger: Ledger
    """The ledger with the objects that were admitted."""
    everything: Ledger
    """The ledger with all objects, also those that do not fit."""

    def document_for(self, key: Key) -> Object:
        """The quota when an object is created: its status has the use by others."""
        return {**self.document, "status": _without(self.ledger, self.held.get(key, {})).status(self.quota, 0)}

    def part_that_fits(self, key: Key, requests: _Requests) -> _Requests:
        """The requests of an admitted object with the numbers of pods that fit into the quota."""
        if self.quota.mode != "Enforce" or self._counts_already(key):
            return requests
        return [*_that_fit(requests, _without(self.ledger, self.held.get(key, {})), self.quota)]

    def after(self, key: Key, requests: _Requests, created: _Requests) -> QuotaBalance:
        """The balance after an object was reviewed.

        A pod or claim that is stored, or was admitted before, counts already.

        Args:
            key: The object.
            requests: All that it requests.
            created: What of it is created: nothing if it is refused, and of a workload as many pods as fit.
        """
        if self._counts_already(key):
            return self
        held = self.held.get(key, {})
        everything = _ledger_with(self.everything, [*_charges(requests, self.quota)], held, self.quota)
        if not created:
            return replace(self, everything=everything)
        charges = [*_charges(created, self.quota)]
        after = replace(self, everything=everything, ledger=_ledger_with(self.ledger, charges, held, self.quota))
        return replace(after, held={**self.held, key: _total_amounts(charges)}) if _is_one(key) else after

    def _counts_already(self, key: Key) -> bool:
        return key in self.held and _is_one(key)

    @property
    def shortages(self) -> Iterator[str]:
        """A sentence for each limit that is too small for all objects, without a full stop."""
        for limit in self.quota.limits:
            use = _use(self.everything, limit)
            if use > limit.hard and use > _use(self.opening, limit):
                scale = AmountScale.of(limit.unit, use, limit.hard)
                yield (
                    f'raise limit "{limit.name}" of {self.names.owner} in {self.names.subject} to '
                    f"{sufficient_limit(limit.unit, use, limit.hard)} to fit everything: "
                    f"{scale.of_limit(use, limit.hard)}{scale.of_memory} would be used"
                )


def open_balance(names: QuotaNames, document: Object, view: ClusterView, settings: Quotas) -> QuotaBalance | None:
    """The balance before anything is created; None if the quota cannot be read.

    Args:
        names: The words for the quota.
        document: The GPUQuota or GPUQuotaGroup, with its stored status; it need not be stored yet.
        view: The cluster; its lists have stored objects only.
        settings: How quotas count.
    """
    try:
        quota = parse_quota(document)
    except QuotaError:
        # Each object has a finding for it.
        return None
    held: dict[Key, Amounts] = {}
    for namespace in namespaces_of(document, view):
        for each in namespace_holdings(namespace, quota, view, settings):
            owners = () if each.is_of_pod else _controllers(each.document, namespace, view)
            own = str(each.document.get("kind")), namespace, name_of(each.document)
            for key in (own, *owners):
                held[key] = add_amounts(held.get(key, {}), each.amounts)
    opening = decisive_ledger(document, view, settings).under(quota)
    return QuotaBalance(names, document, quota, held, opening, opening, opening)


def _is_one(key: Key) -> bool:
    """True if an object is a pod or a claim with a name, rather than a workload."""
    return key[0] in ("Pod", "ResourceClaim") and bool(key[2])


def _controllers(document: Object, namespace: str, view: ClusterView) -> Iterator[Key]:
    """The controllers above an object, as far as the cluster shows them.

    If it does not show a ReplicaSet, the Deployment has the name of the ReplicaSet without the hash of the template.
    """
    found: Object | Unknown | None = document
    for _ in range(_MOST_OWNERS):
        if not isinstance(found, dict) or (owner := controller_of(found)) is None:
            return
        kind, name = str(owner.get("kind")), str(owner.get("name"))
        yield kind, namespace, name
        found = view.get(kind, name, namespace)
        template = lookup(document, ("metadata", "labels", "pod-template-hash"))
        if kind == "ReplicaSet" and not isinstance(found, dict) and template and name.endswith(f"-{template}"):
            yield "Deployment", namespace, name.removesuffix(f"-{template}")


def _charges(requests: _Requests, quota: Quota) -> Iterator[tuple[Charge, int]]:
    for request, count in requests:
        if (charge := _charge(request, quota)) is not None:
            yield charge, count


def _charge(request: ChargeRequest, quota: Quota) -> Charge | None:
    """The charge of a request; None for a claim that was made for a pod, which the pod is charged for."""
    try:
        return None if request.of is not None else charge_under(request, quota)
    except Uncountable:
        # The object has its own finding.
        return None


def _that_fit(requests: _Requests, ledger: Ledger, quota: Quota) -> Iterator[tuple[ChargeRequest, int]]:
    """The requests with the number of pods that fit."""
    left = {limit.name: limit.hard - _use(ledger, limit) for limit in quota.limits}
    for request, count in requests:
        charge = _charge(request, quota)
        each = {} if charge is None else _own_amounts(charge)
        rooms = (int(max(left[name], ZERO) // amount) for name, amount in each.items() if amount)
        number = min((count, *rooms))
        left = {name: amount - number * each.get(name, ZERO) for name, amount in left.items()}
        yield request, number


def _ledger_with(ledger: Ledger, charges: Sequence[tuple[Charge, int]], held: Amounts, quota: Quota) -> Ledger:
    """The ledger with charges and without what their object holds; claims of a PodGroup are charged once."""
    names = {limit.name for limit in quota.limits}
    reservations = ledger.reservations
    for charge, count in charges:
        if charge.shared is not None and count:
            known = reservations.get(charge.shared.uid)
            reservations = reservations.with_charge(open_charge(charge.shared, known, names, "", {}, ""))
    change = subtract_amounts(_total_amounts(charges), held)
    return _with_change(replace(ledger, reservations=reservations), change)


def _total_amounts(charges: Sequence[tuple[Charge, int]]) -> Amounts:
    """The amounts of charges, each for a number of pods, without those of PodGroups."""
    return sum_amounts(
        {name: count * amount for name, amount in _own_amounts(charge).items()} for charge, count in charges
    )


def _own_amounts(charge: Charge) -> Amounts:
    return sum_amounts(bill.amounts for bill in charge.pieces.values())


def _with_change(ledger: Ledger, change: Amounts) -> Ledger:
    """The ledger with amounts added to what is used, or subtracted if negative, down to zero."""
    limits = {
        name: count if count.used is None else replace(count, used=max(ZERO, count.used + change.get(name, ZERO)))
        for name, count in ledger.limits.items()
    }
    return replace(ledger, limits=limits)


def _without(ledger: Ledger, held: Amounts) -> Ledger:
    return _with_change(ledger, {name: -amount for name, amount in held.items()})


def _use(ledger: Ledger, limit: Limit) -> Fraction:
    return (ledger.used_amount(limit) or ZERO) + ledger.reservations.total.get(limit.name, ZERO)
