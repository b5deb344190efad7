"""Allowances: amounts that the owner of a ledger reserves for charges that it writes later.

The owner of a busy ledger admits objects out of its allowance without a write, and writes their charges together a moment later.
The ledger never says less than what is there: a charge that is not written yet is covered by the allowance, by the full amount
of the charge, whatever else it may belong to. A claim for a piece of a pod's charge is therefore covered twice meanwhile.

A crash of the owner loses no amount: the allowance stays until the leader has counted the objects that it was spent on.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import TYPE_CHECKING, TypeVar

from policies.quota.charges import OWN, Bill
from policies.quota.ledger.open_charges import ALLOWANCE, OpenCharge, open_charge
from policies.quota.ledger.reservations import Reservations
from policies.quota.ledger.sums import ZERO, add_amounts

if TYPE_CHECKING:
    from collections.abc import Mapping

    from policies.quota.charges import Charge
    from policies.quota.ledger.ledger import Ledger
    from policies.quota.ledger.status import Versions
    from policies.quota.limits.quota import Quota

__all__ = [
    "NOTHING",
    "Spending",
    "charge_sum",
    "covered_charge",
    "has_allowance",
    "has_only_certain_charges",
    "sum_bills",
    "with_allowance",
    "with_spending",
    "without_allowances",
    "without_uncertain_charges",
]

_Name = TypeVar("_Name", bound=str)

NOTHING = Bill({}, {})
_MOST_PARTS = 4
"""An allowance is a number of quarters of what is expected: sums of other fractions would grow long."""


@dataclass(frozen=True, slots=True)
class Spending:
    """Charges that were admitted out of an allowance and are not on the ledger yet."""

    quota: Quota
    """The spec under which they were computed."""
    granted: Bill
    """The allowance on the ledger."""
    counted: Versions | None
    """The versions of the lists from which `used` was counted when the allowance was written."""
    charges: Reservations = field(default_factory=Reservations)
    total: Bill = NOTHING
    """Of the charges, each by its full amount."""

    def spend(self, charge: OpenCharge) -> Spending:
        """The spending with one more charge."""
        return replace(self, charges=self.charges.with_charge(charge), total=sum_bills(self.total, charge_sum(charge)))


def covered_charge(charge: Charge, spending: Spending, call: str, time: str) -> OpenCharge | None:
    """The open charge of an object that is admitted out of an allowance; None if it must be written.

    A claim that the scheduler makes for a pod's own resources is written, since `used` may contain its amounts. So is the
    charge of a pod that shares claims with its PodGroup.

    Args:
        charge: Of an object that has no charge; computed under `spending.quota`.
        spending: The allowance, and what it was spent on.
        call: As `Ledger.charge` takes it.
        time: As `Ledger.charge` takes it.
    """
    if charge.shared is not None or (charge.of is not None and charge.of[1] == OWN) or not charge.is_for_gpus:
        return None
    names = {limit.name for limit in spending.quota.limits}
    opened = open_charge(charge, None, names, time, {}, call)
    granted = spending.granted
    if opened.problem is not None or any(bill.most.keys() != granted.most.keys() for bill in opened.pieces.values()):
        return None
    total = sum_bills(spending.total, charge_sum(opened))
    is_within = _is_within(total.amounts, granted.amounts) and _is_within(total.most, granted.most)
    return opened if is_within else None


def with_spending(ledger: Ledger, uid: str, spending: Spending, quota: Quota) -> Ledger:
    """The ledger without an allowance, and with the charges that it was spent on.

    Args:
        ledger: With the allowance, unless it was dropped.
        uid: Of the allowance.
        spending: The charges. They are marked as late if `used` was counted again since the allowance was written.
        quota: The current spec.
    """
    late = ledger.counted != spending.counted
    known = {(limit.name, limit.key) for limit in spending.quota.limits}
    new = [limit for limit in quota.limits if (limit.name, limit.key) not in known]
    names = {limit.name for limit in quota.limits}
    reservations = ledger.reservations.without(uid)
    written = []
    for spent in spending.charges:
        charge = spent.with_limits(new, names) if new or len(names) < len(known) else spent
        charge = replace(charge, late=True) if late else charge
        before = reservations.get(spent.uid)
        if before is not None and before.call != charge.call:
            # Several calls were answered on it, so none of them can take it back. If one of them is forged, it may name a pod
            # for whose piece the object is not.
            of = before.of if before.of == charge.of else None
            charge = replace(before.with_pieces(charge.pieces), call="", of=of, late=late or before.late)
            reservations = reservations.without(charge.uid)
        elif before is not None:
            continue
        written.append(charge)
    reservations = reservations.with_charges(written) if written else reservations
    return ledger if reservations is ledger.reservations else replace(ledger, reservations=reservations)


def with_allowance(ledger: Ledger, quota: Quota, expected: Bill, allowance: OpenCharge) -> Ledger:
    """The ledger with an allowance for what is expected, and at most for half of what is left.

    Args:
        ledger: Without the allowance.
        quota: The current spec.
        expected: What is expected before the next write.
        allowance: Without pieces.
    """
    under = ledger.under(quota)
    parts = _MOST_PARTS
    for limit in quota.limits:
        amount, used = expected.amounts.get(limit.name, ZERO), under.used_amount(limit)
        if used is None:
            return ledger
        if amount:
            left = limit.hard - used - under.reservations.total.get(limit.name, ZERO)
            parts = min(parts, int(max(left, ZERO) / 2 * _MOST_PARTS / amount))
    if parts <= 0 or not any(expected.amounts.values()):
        return ledger
    share = Fraction(parts, _MOST_PARTS)
    bill = Bill(
        {name: amount * share for name, amount in expected.amounts.items() if amount},
        {unit: amount * share for unit, amount in expected.most.items()},
    )
    return replace(under, reservations=under.reservations.with_charge(replace(allowance, pieces={OWN: bill})))


def has_allowance(ledger: Ledger) -> bool:
    """True if some replica may have admitted objects that are neither counted nor charged."""
    return any(charge.kind == ALLOWANCE for charge in ledger.reservations)


def without_allowances(ledger: Ledger) -> Ledger:
    """The ledger without any allowance."""
    kept = ledger.reservations.without_allowances()
    return ledger if kept is ledger.reservations else replace(ledger, reservations=kept)


def has_only_certain_charges(ledger: Ledger) -> bool:
    """True if each charge is for an object that `used` does not contain."""
    return not any(map(_is_uncertain, ledger.reservations))


def without_uncertain_charges(ledger: Ledger) -> Ledger:
    """The ledger without allowances, and without charges for objects that `used` may contain."""
    kept = ledger.reservations.map(lambda charge: None if _is_uncertain(charge) else charge)
    return ledger if kept is ledger.reservations else replace(ledger, reservations=kept)


def _is_uncertain(charge: OpenCharge) -> bool:
    return charge.kind == ALLOWANCE or charge.late


def charge_sum(charge: OpenCharge) -> Bill:
    """The sum of all pieces of a charge; only units that are known for all of them."""
    total = None
    for bill in charge.pieces.values():
        total = bill if total is None else sum_bills(total, bill)
    return NOTHING if total is None else total


def sum_bills(first: Bill, second: Bill) -> Bill:
    """The sum of two bills; only units that are known for both."""
    if NOTHING in (first, second):
        return second if first == NOTHING else first
    units = first.most.keys() & second.most.keys()
    most = {unit: first.most[unit] + second.most[unit] for unit in first.most if unit in units}
    return Bill(add_amounts(first.amounts, second.amounts), most)


def _is_within(amounts: Mapping[_Name, Fraction], granted: Mapping[_Name, Fraction]) -> bool:
    return all(amount <= granted.get(name, ZERO) for name, amount in amounts.items())
