"""The ledger: a GPUQuota's status as arithmetic sees it.

What is there of a limit is `used`, which was counted, and the open charges, which were made since. Nothing is admitted
but by a charge that was written; so what there is never exceeds what the ledger says, whoever sees how little of it.
The spec and the status are one object: who writes a charge by compare-and-swap has measured it by the spec that holds.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING

from policies.kubernetes.paths import lookup
from policies.quota.charges import OWN, Bill
from policies.quota.ledger.reservations import ZERO, OpenCharge, Reservations, beyond, largest
from policies.quota.ledger.status import (
    Count,
    GarbageError,
    Versions,
    read_charges,
    read_conditions,
    read_counted,
    read_limits,
)
from policies.quota.limits.amounts import spoken

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from fractions import Fraction

    from policies.kubernetes.objects import Object
    from policies.quota.charges import Amounts, Charge, Unit
    from policies.quota.limits.quota import Limit, Quota

__all__ = ["MOST_BYTES", "MOST_CHARGES", "Exceeded", "Full", "Ledger", "NotPrimed", "Over"]

MOST_CHARGES = 1000
"""Open charges that a ledger has room for."""
MOST_BYTES = 512 * 1024
"""Bytes that they may take, of the 1.5 MiB that etcd stores of an object."""
_MOST_BYTES_EXPECTED = 1024 * 1024
"""The same with claims for pods that are charged already: were they turned away, no pod's charge could be closed."""

_NOTHING: Amounts = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Over:
    """One limit that something does not fit into."""

    name: str
    unit: Unit
    asked: Fraction
    used: Fraction
    reserved: Fraction
    hard: Fraction

    @property
    def left(self) -> Fraction:
        """What could still be had."""
        return max(ZERO, self.hard - self.used - self.reserved)


@dataclass(frozen=True, slots=True)
class Exceeded:
    """It does not fit."""

    limits: tuple[Over, ...]
    """Those that it does not fit into, in the order of the quota."""
    anyway: Ledger
    """The ledger with the charge, to be written where it is admitted all the same: `mode: Warn`."""


@dataclass(frozen=True, slots=True)
class NotPrimed:
    """Nobody knows whether it fits: what there is already has not been counted."""

    limits: tuple[str, ...]
    anyway: Ledger
    """The ledger with the charge, to be written where it is admitted all the same: namespaces that are not enforced."""


@dataclass(frozen=True, slots=True)
class Full:
    """There is no room for one more open charge."""

    charges: int
    size: int
    """In bytes, of the open charges."""


@dataclass(frozen=True)
class Ledger:
    """What is used and reserved of each limit; immutable."""

    limits: Mapping[str, Count] = field(default_factory=dict)
    """By name. A limit that is not there, or was counted for another key, is not primed."""
    reservations: Reservations = field(default_factory=Reservations)
    counted: Versions | None = None
    """The lists that `used` rests on."""
    conditions: tuple[Object, ...] = ()
    """Carried along, so that who writes a charge does not wipe out what the reconciler said."""

    @classmethod
    def read(cls, document: Object | None, known: Ledger | None = None) -> Ledger:
        """The ledger of a GPUQuota; one whose status cannot be read is not primed, and never empty for that reason.

        Args:
            document: The GPUQuota.
            known: The ledger that was read or written last, which makes this faster and nothing else.
        """
        status, before = lookup(document, ("status",)), None if known is None else known.reservations
        ledger = cls(conditions=read_conditions(status))
        try:
            ledger = replace(ledger, counted=read_counted(status))
            ledger = replace(ledger, reservations=read_charges(status, before))
            ledger = replace(ledger, limits=read_limits(status))
        except GarbageError:
            return ledger
        return ledger if ledger.counted is not None else replace(ledger, limits=_uncounted(ledger.limits))

    def used(self, limit: Limit) -> Fraction | None:
        """What was counted for a limit; None where it is not primed."""
        count = self.limits.get(limit.name)
        return count.used if count is not None and count.key == limit.key else None

    def under(self, quota: Quota) -> Ledger:
        """The ledger as it stands when the spec has changed.

        A limit that counts something else than it did is not primed, and what is charged without being seen is charged
        the most that it could come to. Where nobody knows how much that is, the limit stays unprimed until it is seen.
        """
        new = [limit for limit in quota.limits if not self._knows(limit)]
        if not new and len(quota.limits) == len(self.limits):
            return self
        names = {limit.name for limit in quota.limits}
        charges = self.reservations.changed(lambda charge: _rebilled(charge, new, names))
        limits = {limit.name: self.limits.get(limit.name, Count("", None)) for limit in quota.limits}
        return replace(
            self, limits=limits | {limit.name: _unprimed(limit, charges) for limit in new}, reservations=charges
        )

    def _knows(self, limit: Limit) -> bool:
        count = self.limits.get(limit.name)
        return count is not None and count.key == limit.key

    def charge(
        self, charge: Charge, quota: Quota, *, time: str = "", counted: Amounts = _NOTHING
    ) -> Ledger | Exceeded | NotPrimed | Full:
        """The ledger after a charge, or why there is none; the same ledger where nothing needs to be written.

        A limit of which the charge takes no more than was taken before is not looked at: lowering `hard` refuses growth
        only. What asks for no GPU is not written, and what touches no limit is never refused; it is written if there is
        room, since a limit that is added before it is seen may touch it.

        Args:
            charge: Of an object that is being created.
            quota: The spec of the very object whose status this is.
            time: Now, in RFC 3339, for people.
            counted: For a claim that the scheduler makes for extended resources, and whose pod has no open charge for
                them: what of the pod's own `used` holds that no other claim of that kind has taken up. It must come from
                a read of pod and claims that began after this ledger was read; nothing where there was none.
        """
        if not any(any(bill.amounts.values()) or any(bill.most.values()) for bill in charge.pieces.values()):
            return self
        before = self.under(quota)
        reservations = before.reservations
        known = reservations.get(charge.uid)
        opened = _opened(charge, known, {limit.name for limit in quota.limits}, time, counted)
        if reservations.is_expected(opened):
            opened = replace(opened, counted={})
        if opened == known:
            return self
        after = replace(before, reservations=reservations.adding(opened))
        if (full := _full(after.reservations, opened)) is not None:
            return full if any(any(bill.amounts.values()) for bill in charge.pieces.values()) else self
        return _verdict(before, after, quota)

    def release(self, uid: str, pieces: Collection[str] | None = None) -> Ledger:
        """The ledger without a charge, or without some pieces of it; the same ledger where it has none."""
        if self.reservations.get(uid) is None:
            return self
        return replace(self, reservations=self.reservations.without(uid, pieces))

    def holds_the_same(self, other: Ledger) -> bool:
        """Whether limits and charges are the same, so that newer lists alone are no reason to write.

        The lists last written hold as well then: what was taken off the ledger since was seen in none but those.
        """
        return self.limits == other.limits and self.reservations == other.reservations

    def status(self, quota: Quota, generation: int) -> Object:
        """The status to write."""
        ledger = self.under(quota)
        status: Object = {
            "observedGeneration": generation,
            "summary": ", ".join(_summary(ledger, limit) for limit in quota.limits),
            "limits": [_limit_status(ledger, limit) for limit in quota.limits],
            "charges": [charge.document for charge in ledger.reservations],
        }
        if ledger.counted is not None:
            status["counted"] = {"pods": ledger.counted.pods, "claims": ledger.counted.claims}
        if ledger.conditions:
            status["conditions"] = list(ledger.conditions)
        return status


def _uncounted(limits: Mapping[str, Count]) -> dict[str, Count]:
    return {name: replace(count, used=None) for name, count in limits.items()}


def _limit_status(ledger: Ledger, limit: Limit) -> Object:
    count, reserved = ledger.limits[limit.name], ledger.reservations.total.get(limit.name, ZERO)
    status = {"name": limit.name, "key": count.key, "hard": str(limit.hard), "reserved": str(reserved)}
    if count.used is not None:
        status["used"] = str(count.used)
    return status


def _summary(ledger: Ledger, limit: Limit) -> str:
    used = ledger.used(limit)
    taken = "?" if used is None else _short(limit, used + ledger.reservations.total.get(limit.name, ZERO))
    return f"{limit.name} {taken}/{_short(limit, limit.hard)}"


def _short(limit: Limit, amount: Fraction) -> str:
    return spoken(limit.unit, amount) if limit.unit == "memory" else str(amount)


def _rebilled(charge: OpenCharge, new: Collection[Limit], names: Collection[str]) -> OpenCharge:
    """A charge under limits some of which are new to it."""
    unknown = {limit.name for limit in new}
    kept = set(names) - unknown
    pieces = {}
    for name, bill in charge.pieces.items():
        most = {limit.name: bill.most[limit.unit] for limit in new if limit.unit in bill.most}
        pieces[name] = replace(bill, amounts=_only(bill.amounts, kept) | _only(most, unknown))
    return replace(charge, pieces=pieces, counted=_only(charge.counted, kept))


def _unprimed(limit: Limit, reservations: Reservations) -> Count:
    known = all(limit.unit in bill.most for charge in reservations for bill in charge.pieces.values())
    return Count(limit.key if known else "", None)


def _opened(
    charge: Charge, known: OpenCharge | None, names: Collection[str], time: str, counted: Amounts
) -> OpenCharge:
    """The open charge of an object; every pod has a piece of its own, which is open until the pod is seen."""
    bills = dict(charge.pieces) if charge.kind == "ResourceClaim" else {OWN: _NO_BILL, **charge.pieces}
    pieces = {name: replace(bill, amounts=_only(bill.amounts, names)) for name, bill in bills.items()}
    if known is None:
        return OpenCharge(charge.uid, charge.kind, charge.name, time, pieces, charge.of, _only(counted, names))
    both = {name: _larger(known.pieces.get(name, bill), bill) for name, bill in pieces.items()}
    return replace(known, name=charge.name, pieces={**known.pieces, **both})


_NO_BILL = Bill({}, dict.fromkeys(("gpus", "memory", "devices"), ZERO))


def _larger(first: Bill, second: Bill) -> Bill:
    most = {unit: max(first.most[unit], amount) for unit, amount in second.most.items() if unit in first.most}
    return Bill(_only(largest(first.amounts, second.amounts), first.amounts.keys() | second.amounts.keys()), most)


def _only(amounts: Amounts, names: Collection[str]) -> dict[str, Fraction]:
    return {name: amount for name, amount in amounts.items() if name in names and amount}


def _full(reservations: Reservations, opened: OpenCharge) -> Full | None:
    expected = reservations.is_expected(opened)
    size = reservations.size
    if size <= (_MOST_BYTES_EXPECTED if expected else MOST_BYTES) and (expected or reservations.places <= MOST_CHARGES):
        return None
    return Full(reservations.places, size)


def _verdict(before: Ledger, after: Ledger, quota: Quota) -> Ledger | Exceeded | NotPrimed:
    reserved = before.reservations.total
    growth = {name: amount for name, amount in beyond(after.reservations.total, reserved).items() if amount}
    over, unprimed = [], []
    for limit in quota.limits:
        asked = growth.get(limit.name, ZERO)
        used, held = before.used(limit), reserved.get(limit.name, ZERO)
        if not asked:
            continue
        if used is None:
            unprimed.append(limit.name)
        elif used + held + asked > limit.hard:
            over.append(Over(limit.name, limit.unit, asked, used, held, limit.hard))
    if over:
        return Exceeded(tuple(over), after)
    return NotPrimed(tuple(unprimed), after) if unprimed else after
