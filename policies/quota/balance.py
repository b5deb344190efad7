"""Balances: the use of a quota while objects are created one after another, without a cluster."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from policies.kubernetes.objects import controller_of, lookup, name_of
from policies.quota.counting import decisive_ledger, held_amounts
from policies.quota.demands.bills import Uncountable, charge_under
from policies.quota.ledger.open_charges import ZERO, add_amounts, open_charge, subtract_amounts, sum_amounts
from policies.quota.limits.amounts import AmountScale, sufficient_limit
from policies.quota.limits.quota import QUOTA_NAME, QuotaError, parse_quota

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from fractions import Fraction

    from policies.kubernetes.objects import Object
    from policies.kubernetes.view import ClusterView, Unknown
    from policies.quota.ledger.ledger import Ledger
    from policies.quota.limits.quota import Limit, Quota
    from policies.rules.charges import Amounts, Charge, ChargeRequest
    from policies.rules.settings.choices import Quotas


_MOST_OWNERS = 5
"""Maximum controllers above a pod that are followed. A pod of a CronJob has two."""

_Key = tuple[str, str]
"""Kind and name of an object of the namespace."""


@dataclass(frozen=True, slots=True)
class QuotaBalance:
    """The use of a GPUQuota after some objects were created; immutable."""

    document: Object
    """The GPUQuota."""
    quota: Quota
    held: Mapping[_Key, Amounts]
    """The amounts that pods and claims hold which are stored or were admitted, also added up for the workloads of stored pods."""
    opening: Ledger
    """The ledger before any of the objects was created."""
    ledger: Ledger
    """The ledger with the objects that were admitted."""
    everything: Ledger
    """The ledger with all objects, also those that do not fit."""

    def document_for(self, key: _Key) -> Object:
        """The GPUQuota when an object is created: its status has the use by others."""
        return {**self.document, "status": _without(self.ledger, self.held.get(key, {})).status(self.quota, 0)}

    def after(self, key: _Key, requests: Sequence[tuple[ChargeRequest, int]], *, is_admitted: bool) -> QuotaBalance:
        """The balance after an object was reviewed.

        A pod or claim that is stored, or was admitted before, counts already. Of the pods of a workload, as many are created
        as fit.

        Args:
            key: The object.
            requests: The charges that the object requests, each with the number of pods that have it.
            is_admitted: True if the object is created.
        """
        is_counted_by_name = key[0] in ("Pod", "ResourceClaim") and bool(key[1])
        if key in self.held and is_counted_by_name:
            return self
        held = self.held.get(key, {})
        charges = [*_charges(requests, self.quota)]
        everything = _ledger_with(self.everything, charges, held, self.quota)
        if not is_admitted:
            return replace(self, everything=everything)
        if self.quota.mode == "Enforce":
            charges = [*_charges_that_fit(charges, _without(self.ledger, held), self.quota)]
        after = replace(self, everything=everything, ledger=_ledger_with(self.ledger, charges, held, self.quota))
        return replace(after, held={**self.held, key: _total_amounts(charges)}) if is_counted_by_name else after

    def shortages(self, namespace: str) -> Iterator[str]:
        """A sentence for each limit that is too small for all objects, without a full stop."""
        for limit in self.quota.limits:
            use = _use(self.everything, limit)
            if use > limit.hard and use > _use(self.opening, limit):
                scale = AmountScale.of(limit.unit, use, limit.hard)
                yield (
                    f'raise limit "{limit.name}" of GPUQuota {QUOTA_NAME} in namespace {namespace} to '
                    f"{sufficient_limit(limit.unit, use, limit.hard)} to fit everything: "
                    f"{scale.of_limit(use, limit.hard)}{scale.of_memory} would be used"
                )


def open_balance(namespace: str, document: Object, view: ClusterView, settings: Quotas) -> QuotaBalance | None:
    """The balance before anything is created; None if the GPUQuota cannot be read.

    Args:
        namespace: The name of the namespace.
        document: Its GPUQuota, which need not be stored yet.
        view: The cluster; its lists have stored objects only.
        settings: How quotas count.
    """
    counted = next((each for each in view.known_objects("GPUQuota", namespace) if name_of(each) == QUOTA_NAME), {})
    if "status" in counted:
        document = {"status": counted["status"], **document}
    try:
        quota = parse_quota(document)
    except QuotaError:
        # Each object has a finding for it.
        return None
    held: dict[_Key, Amounts] = {}
    for each in held_amounts(namespace, quota, view, settings):
        owners = () if each.is_of_pod else _controllers(each.document, namespace, view)
        for key in ((str(each.document.get("kind")), name_of(each.document)), *owners):
            held[key] = add_amounts(held.get(key, {}), each.amounts)
    opening = decisive_ledger(document, view, settings).under(quota)
    return QuotaBalance(document, quota, held, opening, opening, opening)


def _controllers(document: Object, namespace: str, view: ClusterView) -> Iterator[_Key]:
    """The controllers above an object, as far as the cluster shows them.

    If it does not show a ReplicaSet, the Deployment has the name of the ReplicaSet without the hash of the template.
    """
    found: Object | Unknown | None = document
    for _ in range(_MOST_OWNERS):
        if not isinstance(found, dict) or (owner := controller_of(found)) is None:
            return
        kind, name = str(owner.get("kind")), str(owner.get("name"))
        yield kind, name
        found = view.get(kind, name, namespace)
        template = lookup(document, ("metadata", "labels", "pod-template-hash"))
        if kind == "ReplicaSet" and not isinstance(found, dict) and template and name.endswith(f"-{template}"):
            yield "Deployment", name.removesuffix(f"-{template}")


def _charges(requests: Sequence[tuple[ChargeRequest, int]], quota: Quota) -> Iterator[tuple[Charge, int]]:
    for request, count in requests:
        # A claim that was made for a pod is a part of the pod's charge.
        if request.of is None:
            try:
                yield charge_under(request, quota), count
            except Uncountable:
                # The object has its own finding.
                continue


def _charges_that_fit(
    charges: Sequence[tuple[Charge, int]], ledger: Ledger, quota: Quota
) -> Iterator[tuple[Charge, int]]:
    """The charges with the number of pods that fit."""
    left = {limit.name: limit.hard - _use(ledger, limit) for limit in quota.limits}
    for charge, count in charges:
        each = _own_amounts(charge)
        rooms = (int(max(left[name], ZERO) // amount) for name, amount in each.items() if amount)
        number = min((count, *rooms))
        left = {name: amount - number * each.get(name, ZERO) for name, amount in left.items()}
        yield charge, number


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
