"""Admission: allows or refuses a charge by the mode of the quota and the label of its namespace."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from fractions import Fraction
from types import MappingProxyType
from typing import TYPE_CHECKING, TypeVar

from policies.quota.ledger.ledger import ChargedOtherwise, Exceeded, Full, Ledger, NotPrimed, Unstorable
from policies.quota.ledger.open_charges import ALLOWANCE, ZERO, OpenCharge, Reservations, add_amounts, open_charge
from policies.rules.charges import OWN, Bill

if TYPE_CHECKING:
    from collections.abc import Mapping

    from policies.quota.ledger.status import Versions
    from policies.quota.limits.quota import Quota
    from policies.rules.charges import Amounts, Charge


_NOTHING: Amounts = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class NoQuota:
    """The namespace has no GPUQuota, so nothing is limited."""


@dataclass(frozen=True, slots=True)
class Contended:
    """Other writers changed the GPUQuota at every try; nothing was charged. A later request may succeed."""


@dataclass(frozen=True, slots=True)
class ChargeVerdict:
    """The verdict of a charge."""

    allowed: bool
    reason: Exceeded | NotPrimed | Full | ChargedOtherwise | Unstorable | Contended | None
    """The reason why it is refused, or allowed with a warning only; None if it fits."""


def admit(
    ledger: Ledger,
    quota: Quota,
    charge: Charge,
    *,
    enforced: bool,
    time: str = "",
    counted: Amounts = _NOTHING,
    call: str = "",
) -> tuple[ChargeVerdict, Ledger]:
    """The verdict, and the ledger to write first; the same ledger if nothing needs to be written.

    An object that is allowed although it does not fit is charged too, so that the next request sees it.

    Args:
        ledger: The one that is stored.
        quota: The spec of the same object.
        charge: For the object that is being created.
        enforced: True if the namespace's quota fails closed, so that unknown amounts are refused.
        time: Now, in RFC 3339, for people.
        counted: As `Ledger.charge` takes it.
        call: As `Ledger.charge` takes it.
    """
    found = ledger.charge(charge, quota, time=time, counted=counted, call=call)
    if isinstance(found, Ledger):
        return ChargeVerdict(True, None), found
    if quota.mode == "Warn" or not (enforced or isinstance(found, Exceeded)):
        return ChargeVerdict(True, found), found.anyway if isinstance(found, Exceeded | NotPrimed) else ledger
    return ChargeVerdict(False, found), ledger


def admit_unwritten(quota: Quota, charge: Charge, *, enforced: bool) -> ChargeVerdict:
    """The verdict for an object whose charge could not be written because of other writers.

    An object that no limit counts is allowed: its charge matters only to limits that are added before it is seen.
    """
    limits = {limit.name for limit in quota.limits}
    touched = any(bill.amounts.get(name) for bill in charge.bills for name in limits)
    return ChargeVerdict(quota.mode == "Warn" or not enforced or not touched, Contended())


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
