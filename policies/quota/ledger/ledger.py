"""The ledger: the counted and charged amounts in the status of a GPUQuota.

The amount taken of a limit is `used`, which was counted, plus the open charges, which were made since. An object is
admitted only after its charge is written, so the ledger is never less than the actual use, even if a watch is late. The
spec and the status are one object, so a charge that is written by compare-and-swap was compared with the current spec.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from policies.kubernetes.objects import items_at, lookup
from policies.quota.ledger.open_charges import (
    ALLOWANCE,
    ZERO,
    OpenCharge,
    Reservations,
    compact_text,
    open_charge,
    subtract_amounts,
    sum_amounts,
)
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
from policies.rules.charges import OWN

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from fractions import Fraction

    from policies.kubernetes.objects import Object
    from policies.quota.limits.quota import Limit, Quota
    from policies.rules.charges import Amounts, Charge, Unit


_SIZE_EXPECTED = 256 * 1024
"""Bytes besides, for claims of charged pods: if they were refused, the pods' charges could not be closed."""

_NOTHING: Amounts = MappingProxyType({})


class Room(NamedTuple):
    """The number and size of the open charges that a ledger may have."""

    charges: int
    size: int
    """In bytes, as one text."""


ROOM = Room(5000, 768 * 1024)
"""etcd stores at most 1.5 MiB for an object, and the CRD allows 1 MiB for the text."""


@dataclass(frozen=True, slots=True)
class Over:
    """One limit that a charge exceeds."""

    name: str
    unit: Unit
    requested: Fraction
    used: Fraction
    reserved: Fraction
    hard: Fraction

    @property
    def left(self) -> Fraction:
        """The amount that is still available."""
        return max(ZERO, self.hard - self.used - self.reserved)


@dataclass(frozen=True, slots=True)
class Exceeded:
    """The charge exceeds some limits."""

    limits: tuple[Over, ...]
    """The exceeded limits, in the order of the quota."""
    anyway: Ledger
    """The ledger with the charge, to be written if the object is admitted all the same (`mode: Warn`)."""


@dataclass(frozen=True, slots=True)
class NotPrimed:
    """It is unknown whether the charge fits, because existing objects have not been counted."""

    limits: tuple[str, ...]
    anyway: Ledger
    """The ledger with the charge, to be written if the object is admitted all the same (namespace not enforced)."""


@dataclass(frozen=True, slots=True)
class Full:
    """There is no room for one more open charge."""

    charges: int
    size: int
    """In bytes, of the open charges."""
    most: int
    """Open charges that the ledger has room for."""


@dataclass(frozen=True, slots=True)
class ChargedOtherwise:
    """Another call charged another amount or object under this uid; a second call changes no charge."""

    charge: OpenCharge
    """The existing charge."""


@dataclass(frozen=True, slots=True)
class Unstorable:
    """The object cannot come from an API server, which would refuse to store it."""

    problem: str
    """The invalid field, and the reason."""


@dataclass(frozen=True)
class Ledger:
    """The used and reserved amounts of each limit; immutable."""

    limits: Mapping[str, Count] = field(default_factory=dict)
    """By name. A limit that is missing, or was counted for another key, is not primed."""
    reservations: Reservations = field(default_factory=Reservations)
    counted: Versions | None = None
    """The versions of the lists from which `used` was counted."""
    conditions: tuple[Object, ...] = ()
    """Kept, so that writing a charge does not remove the reconciler's conditions."""
    namespaces: tuple[str, ...] = ()
    """Those that the ledger of a group counts, sorted; kept likewise."""
    hours: str = ""
    """The text of its `GPUHours`; kept likewise."""

    @classmethod
    def read(cls, document: Object | None, known: Ledger | None = None) -> Ledger:
        """The ledger of a GPUQuota; if its status cannot be read, it is not primed rather than empty.

        Args:
            document: The GPUQuota.
            known: The ledger that was read or written last; it only makes reading faster.
        """
        status, before = lookup(document, ("status",)), None if known is None else known.reservations
        namespaces = tuple(each for each in items_at(status, ("namespaces",)) if isinstance(each, str))
        hours = lookup(status, ("hours",))
        ledger = cls(
            conditions=read_conditions(status), namespaces=namespaces, hours=hours if isinstance(hours, str) else ""
        )
        try:
            ledger = replace(ledger, counted=read_counted(status))
            ledger = replace(ledger, reservations=read_charges(status, before))
            ledger = replace(ledger, limits=read_limits(status))
        except GarbageError:
            return ledger
        if ledger.counted is not None:
            return ledger
        return replace(ledger, limits={name: replace(count, used=None) for name, count in ledger.limits.items()})

    def used_amount(self, limit: Limit) -> Fraction | None:
        """The counted amount of a limit; None if the limit is not primed."""
        count = self.limits.get(limit.name)
        return count.used if count is not None and count.key == limit.key else None

    def under(self, quota: Quota) -> Ledger:
        """The ledger under a changed spec.

        A limit that counts something else than before is not primed, and open charges are charged their largest possible
        amount under it. If that amount is unknown, the limit stays unprimed until the charged object is seen.
        """
        new = [limit for limit in quota.limits if not self._knows(limit)]
        if not new and len(quota.limits) == len(self.limits):
            return self
        names = {limit.name for limit in quota.limits}
        charges = self.reservations.map(lambda charge: charge.with_limits(new, names))
        limits = {
            limit.name: self.limits[limit.name] if self._knows(limit) else _unprimed_count(limit, charges)
            for limit in quota.limits
        }
        return replace(self, limits=limits, reservations=charges)

    def _knows(self, limit: Limit) -> bool:
        count = self.limits.get(limit.name)
        return count is not None and count.key == limit.key

    def charge(
        self,
        charge: Charge,
        quota: Quota,
        *,
        time: str = "",
        counted: Amounts = _NOTHING,
        call: str = "",
    ) -> Ledger | Exceeded | NotPrimed | Full | ChargedOtherwise | Unstorable:
        """The ledger after a charge, or the reason against it; the same ledger if nothing needs to be written.

        A second call for a charged object never changes the charge. If it requests the same or less, it is answered on the
        existing charge, which no call can take back then. A PodGroup is charged with each of its pods: its charge has the
        time of the last pod, and no call can take it back.

        A limit under which the charge does not grow is not checked: lowering `hard` refuses growth only. A request for no
        GPU is not written. A charge that no limit counts is never refused; it is written if there is room, since a limit
        that is added before the object is seen may count it.

        Args:
            charge: Of an object that is being created.
            quota: The spec of the very object whose status this is.
            time: Now, in RFC 3339, for people.
            counted: For a claim that the scheduler makes for extended resources, and whose pod has no open charge for
                them: the part of the pod's own `used` that no other such claim covers. It must come from a read of pod
                and claims that began after this ledger was read; empty without such a read.
            call: Identifies the call; chosen by this server, so that no caller can imitate another one.
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
                opened = _without_call(known)
            if is_expected := reservations.is_expected(opened):
                opened = replace(opened, counted={})
            reservations = reservations if opened == known else reservations.with_charge(opened)
        if charge.shared is not None:
            known = reservations.get(charge.shared.uid)
            if known is not None and not known.is_for(charge.shared):
                return ChargedOtherwise(known)
            opened = replace(open_charge(charge.shared, known, names, time, _NOTHING, ""), time=time)
            reservations = reservations if opened == known else reservations.with_charge(opened)
        if reservations is before.reservations:
            return self
        after = replace(before, reservations=reservations)
        if (full := _full(reservations, is_expected=is_expected)) is not None:
            return full if any(any(bill.amounts.values()) for bill in charge.bills) else self
        return _verdict(before, after, quota)

    def take_back(self, uid: str, call: str) -> Ledger:
        """The ledger without the charge of a call; the same ledger if another call was answered on it."""
        charge = self.reservations.get(uid)
        return self.release(uid) if call and charge is not None and charge.call == call else self

    def release(self, uid: str, pieces: Collection[str] | None = None) -> Ledger:
        """The ledger without a charge, or without some pieces of it; the same ledger if the charge is missing."""
        if self.reservations.get(uid) is None:
            return self
        return replace(self, reservations=self.reservations.without(uid, pieces))

    def holds_the_same(self, other: Ledger) -> bool:
        """True if limits and charges are equal; newer list versions alone need no write.

        The list versions that were written last stay valid then, since no charge was closed by newer lists.
        """
        mine, others = ((each.limits, each.reservations, each.namespaces) for each in (self, other))
        return mine == others

    def only_closes_charges(self, before: Ledger) -> bool:
        """True if no amount in use shrinks, or grows by more than the allowances in `before`.

        In use is what is used or reserved. An allowance covers pods and claims whose charges are not written yet.
        """
        if self.counted is None or before.counted is None:
            return False
        if (self.conditions, self.namespaces) != (before.conditions, before.namespaces):
            return False
        allowances = subtract_amounts(before.reservations.total, before.requested_amounts)
        new, old = self._amounts_in_use, before._amounts_in_use
        return new.keys() == old.keys() and all(
            _is_growth_within(old[limit], amount, allowances.get(limit[0], ZERO)) for limit, amount in new.items()
        )

    @property
    def _amounts_in_use(self) -> dict[tuple[str, str], Fraction | None]:
        """By the name and key of a limit, the amount that is used or reserved; None if it was not counted."""
        reserved = self.reservations.total
        return {
            (name, count.key): None if count.used is None else count.used + reserved.get(name, ZERO)
            for name, count in self.limits.items()
        }

    @property
    def requested_amounts(self) -> Amounts:
        """The amounts that pods and claims have reserved, without the allowances of replicas."""
        return self.reservations.without_allowances().total

    def status(self, quota: Quota, generation: int) -> Object:
        """The status to write.

        Args:
            quota: The spec.
            generation: Of the spec.
        """
        ledger = self.under(quota)
        limits = [(limit, ledger.reservations.total.get(limit.name, ZERO)) for limit in quota.limits]
        requested = ledger.requested_amounts
        status: Object = {
            "observedGeneration": generation,
            "summary": ", ".join(
                summary(limit, ledger.used_amount(limit), requested.get(limit.name, ZERO)) for limit in quota.limits
            ),
            "limits": [limit_status(limit, ledger.limits[limit.name], reserved) for limit, reserved in limits],
            "openCharges": compact_text(ledger.reservations),
        }
        if ledger.counted is not None:
            status["counted"] = {"pods": ledger.counted.pods, "claims": ledger.counted.claims}
        if ledger.namespaces:
            status["namespaces"] = list(ledger.namespaces)
        if ledger.hours:
            status["hours"] = ledger.hours
        if ledger.conditions:
            status["conditions"] = list(ledger.conditions)
        return status


def _is_growth_within(before: Fraction | None, after: Fraction | None, most: Fraction) -> bool:
    if before is None or after is None:
        return before is after
    return ZERO <= after - before <= most


def _unprimed_count(limit: Limit, reservations: Reservations) -> Count:
    known = all(limit.unit in bill.most for charge in reservations for bill in charge.pieces.values())
    return Count(limit.key if known else "", None)


def _without_call(charge: OpenCharge) -> OpenCharge:
    """The charge without its call: several calls were answered on it, so none can take it back."""
    return replace(charge, call="")


def _full(reservations: Reservations, *, is_expected: bool) -> Full | None:
    size = reservations.size
    most_bytes = ROOM.size + _SIZE_EXPECTED if is_expected else ROOM.size
    if size <= most_bytes and (is_expected or reservations.places <= ROOM.charges):
        return None
    return Full(reservations.places, size, ROOM.charges)


def _verdict(before: Ledger, after: Ledger, quota: Quota) -> Ledger | Exceeded | NotPrimed:
    reserved = before.reservations.total
    growth = {name: amount for name, amount in subtract_amounts(after.reservations.total, reserved).items() if amount}
    over, unprimed = [], []
    for limit in quota.limits:
        requested = growth.get(limit.name, ZERO)
        used, held = before.used_amount(limit), reserved.get(limit.name, ZERO)
        if not requested:
            continue
        if used is None:
            unprimed.append(limit.name)
        elif used + held + requested > limit.hard:
            over.append(Over(limit.name, limit.unit, requested, used, held, limit.hard))
    if over:
        return Exceeded(tuple(over), after)
    return NotPrimed(tuple(unprimed), after) if unprimed else after


@dataclass(frozen=True, slots=True)
class Reservation:
    """An object that was admitted and has not been seen yet."""

    kind: str
    name: str
    uid: str
    age: timedelta | None
    """Since it was admitted; None if the ledger has no time."""
    amounts: Amounts
    """The amounts that it requests, by limit."""
    is_awaited: bool
    """True if the object itself was not seen; otherwise only claims of it were not."""
    claims_awaited: tuple[str, ...] = ()
    """The claims from templates of a pod or PodGroup that were not seen, by their names in `spec.resourceClaims`."""
    of: str = ""
    """For a claim that was made for a pod or PodGroup which is charged as well: its name. The two count once."""
    of_kind: str = "Pod"

    @property
    def waits_for(self) -> tuple[str, ...]:
        """The objects that must be seen before it counts as used, in words."""
        if self.kind == ALLOWANCE:
            return ("charges that this replica of gpu-admission writes together",)
        own = ("the pod" if self.kind == "Pod" else "the claim",) if self.is_awaited else ()
        return (*own, *(f"its claim {name}" for name in self.claims_awaited))


def shown_reservations(ledger: Ledger, now: datetime) -> tuple[Reservation, ...]:
    """The reservations of a ledger, the oldest first; `now` is the time from which ages are computed."""
    found = [_reservation(charge, ledger, now) for charge in ledger.reservations]
    return tuple(sorted(found, key=lambda each: (-(each.age or timedelta()), each.kind, each.name, each.uid)))


def _reservation(charge: OpenCharge, ledger: Ledger, now: datetime) -> Reservation:
    amounts = sum_amounts(bill.amounts for bill in charge.pieces.values())
    time = _moment(charge.time)
    owner = ledger.reservations.get(charge.of[0]) if charge.of is not None else None
    return Reservation(
        charge.kind,
        charge.name,
        charge.uid,
        age=None if time is None else max(now - time, timedelta()),
        amounts={name: amount for name, amount in amounts.items() if amount},
        is_awaited=charge.kind == "ResourceClaim" or OWN in charge.pieces,
        claims_awaited=tuple(piece for piece in charge.pieces if piece != OWN),
        of=owner.name if owner is not None and ledger.reservations.is_expected(charge) else "",
        of_kind="Pod" if owner is None else owner.kind,
    )


def _moment(text: str) -> datetime | None:
    """A time in RFC 3339; None if it is invalid or has no time zone."""
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return None
    return found if found.tzinfo is not None else None
