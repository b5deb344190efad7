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
from policies.quota.ledger.open_charges import OpenCharge, open_charge
from policies.quota.ledger.reservations import Reservations
from policies.quota.ledger.status import (
    Count,
    GarbageError,
    Versions,
    limit_status,
    read_charges,
    read_conditions,
    read_counted,
    read_limits,
    summary,
)
from policies.quota.ledger.sums import ZERO, beyond

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from fractions import Fraction

    from policies.kubernetes.objects import Object
    from policies.quota.charges import Amounts, Charge, Unit
    from policies.quota.limits.quota import Limit, Quota

__all__ = [
    "MOST_BYTES",
    "MOST_CHARGES",
    "ChargedOtherwise",
    "Exceeded",
    "Full",
    "Ledger",
    "NotPrimed",
    "Over",
    "Unstorable",
]

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
    """It is unknown whether the charge fits, because existing objects have not been counted."""

    limits: tuple[str, ...]
    anyway: Ledger
    """The ledger with the charge, to be written where it is admitted all the same: namespaces that are not enforced."""


@dataclass(frozen=True, slots=True)
class Full:
    """There is no room for one more open charge."""

    charges: int
    size: int
    """In bytes, of the open charges."""


@dataclass(frozen=True, slots=True)
class ChargedOtherwise:
    """Another call charged something else for an object of this uid, and no second call changes a charge."""

    charge: OpenCharge
    """The one that is there."""


@dataclass(frozen=True, slots=True)
class Unstorable:
    """The object cannot come from an API server, which would store neither its charge nor others with it."""

    problem: str
    """Which field is invalid and why."""


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
        """The ledger of a GPUQuota; if its status cannot be read, it is not primed rather than empty.

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
        charges = self.reservations.changed(lambda charge: charge.rebilled(new, names))
        limits = {limit.name: self.limits.get(limit.name, Count("", None)) for limit in quota.limits}
        return replace(
            self, limits=limits | {limit.name: _unprimed(limit, charges) for limit in new}, reservations=charges
        )

    def _knows(self, limit: Limit) -> bool:
        count = self.limits.get(limit.name)
        return count is not None and count.key == limit.key

    def charge(
        self, charge: Charge, quota: Quota, *, time: str = "", counted: Amounts = _NOTHING, call: str = ""
    ) -> Ledger | Exceeded | NotPrimed | Full | ChargedOtherwise | Unstorable:
        """The ledger after a charge, or why there is none; the same ledger where nothing needs to be written.

        A second call for an object that is charged never changes what is charged. If it asks for the same or for less,
        it may be answered on that charge, which then no call can take back any more. A PodGroup is charged with each of its
        pods: its charge has the time of the last of them, and is nobody's to take back.

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
            call: Identifies the call; chosen by this side, so that no caller can pass for another one.
        """
        before = self.under(quota)
        names = {limit.name for limit in quota.limits}
        reservations, is_expected = before.reservations, False
        if charge.is_for_gpus:
            known = reservations.get(charge.uid)
            opened = open_charge(charge, known, names, time, counted, call)
            if (problem := opened.problem) is not None:
                return Unstorable(problem)
            if known is not None and not (call and known.call == call):
                if opened != known or not known.is_for(charge):
                    return ChargedOtherwise(known)
                opened = _shared(known)
            if is_expected := reservations.is_expected(opened):
                opened = replace(opened, counted={})
            reservations = reservations if opened == known else reservations.adding(opened)
        if charge.shared is not None:
            known = reservations.get(charge.shared.uid)
            if known is not None and not known.is_for(charge.shared):
                return ChargedOtherwise(known)
            opened = replace(open_charge(charge.shared, known, names, time, _NOTHING, ""), time=time)
            reservations = reservations if opened == known else reservations.adding(opened)
        if reservations is before.reservations:
            return self
        after = replace(before, reservations=reservations)
        if (full := _full(reservations, is_expected=is_expected)) is not None:
            return full if any(any(bill.amounts.values()) for bill in charge.bills) else self
        return _verdict(before, after, quota)

    def take_back(self, uid: str, call: str) -> Ledger:
        """The ledger without the charge of a call; the same ledger if another call was answered on it."""
        charge = self.reservations.get(uid)
        return self.release(uid) if charge is not None and charge.call == call else self

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
        limits = [(limit, ledger.reservations.total.get(limit.name, ZERO)) for limit in quota.limits]
        status: Object = {
            "observedGeneration": generation,
            "summary": ", ".join(summary(limit, ledger.used(limit), reserved) for limit, reserved in limits),
            "limits": [limit_status(limit, ledger.limits[limit.name], reserved) for limit, reserved in limits],
            "charges": [charge.document for charge in ledger.reservations],
        }
        if ledger.counted is not None:
            status["counted"] = {"pods": ledger.counted.pods, "claims": ledger.counted.claims}
        if ledger.conditions:
            status["conditions"] = list(ledger.conditions)
        return status


def _uncounted(limits: Mapping[str, Count]) -> dict[str, Count]:
    return {name: replace(count, used=None) for name, count in limits.items()}


def _unprimed(limit: Limit, reservations: Reservations) -> Count:
    known = all(limit.unit in bill.most for charge in reservations for bill in charge.pieces.values())
    return Count(limit.key if known else "", None)


def _shared(charge: OpenCharge) -> OpenCharge:
    """A charge on which several calls are answered; none of them takes it back."""
    return replace(charge, call="")


def _full(reservations: Reservations, *, is_expected: bool) -> Full | None:
    size = reservations.size
    most_bytes = _MOST_BYTES_EXPECTED if is_expected else MOST_BYTES
    if size <= most_bytes and (is_expected or reservations.places <= MOST_CHARGES):
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
