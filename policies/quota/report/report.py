"""Remarks: the problems of a quota whose GPUQuota is valid."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import TYPE_CHECKING

from policies.kubernetes.names import format_list
from policies.quota.ledger.ledger import ROOM
from policies.quota.ledger.open_charges import ALLOWANCE, ZERO
from policies.quota.limits.amounts import amount_with_unit

if TYPE_CHECKING:
    from collections.abc import Iterator
    from fractions import Fraction

    from policies.kubernetes.objects import FieldPath
    from policies.quota.charging.messages import Holder
    from policies.quota.ledger.ledger import Ledger
    from policies.quota.limits.quota import Limit, Quota
    from policies.rules.charges import Amounts

__all__ = ["Condition", "LimitUse", "QuotaReport", "QuotaState", "Reservation", "remarks_on"]


class QuotaState(StrEnum):
    """The state of a quota."""

    WITHIN = "within"
    OVER = "over"
    """A limit is exceeded."""
    UNCOUNTED = "uncounted"
    """The use of a limit was not counted yet, so requests cannot be compared with it."""
    UNREADABLE = "unreadable"
    """The GPUQuota is invalid, so it limits nothing."""


@dataclass(frozen=True, slots=True)
class LimitUse:
    """The use of one limit."""

    limit: Limit
    used: Fraction | None
    """The use by pods and claims that were seen; None if they were not counted and cannot be counted here."""
    reserved: Fraction
    """By objects that were admitted and have not been seen yet."""
    counted: bool
    """True if the status has the used amount; otherwise it is counted here."""

    @property
    def taken(self) -> Fraction:
        """The used and reserved amount."""
        return (self.used or ZERO) + self.reserved

    @property
    def left(self) -> Fraction | None:
        """What is still available; None if unknown."""
        return None if self.used is None else max(ZERO, self.limit.hard - self.taken)

    @property
    def is_over(self) -> bool:
        """True if the limit is exceeded."""
        return self.taken > self.limit.hard


@dataclass(frozen=True, slots=True)
class Reservation:
    """An object that was admitted and has not been seen yet."""

    kind: str
    name: str
    uid: str
    age: timedelta | None
    """Since it was admitted; None if the ledger has no time."""
    amounts: Amounts
    """What it requests, by limit."""
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


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition of the status."""

    type: str
    """`Ready`, `Enforced`."""
    status: str
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class QuotaReport:
    """The report on one GPUQuota."""

    namespace: str
    name: str
    state: QuotaState
    enforced: bool | None = None
    """True if it fails closed; None if its namespace is unknown."""
    quota: Quota | None = None
    """None if it is invalid."""
    limits: tuple[LimitUse, ...] = ()
    """In the order in which they are written."""
    holders: tuple[Holder, ...] | None = None
    """Pods and claims that hold a part of a limit, the largest part first; None if pods are unknown."""
    reservations: tuple[Reservation, ...] = ()
    """The oldest first."""
    conditions: tuple[Condition, ...] = ()
    problems: tuple[tuple[FieldPath, str], ...] = ()
    """Why it is invalid."""
    remarks: tuple[str, ...] = ()
    """Its problems, as sentences without full stops."""
    exempt: str = ""
    """Why its namespace is exempt from quotas, as a clause; empty if it is not."""


_LONG = timedelta(minutes=5)
"""Reservations of objects that were never stored end after two minutes; stored objects are seen within seconds."""
_LEADER = "see whether gpu-admission runs and has a leader (kubectl describe lease gpu-admission -n gpu-admission)"


def remarks_on(report: QuotaReport, ledger: Ledger, here: Ledger | None, *, is_stored: bool) -> Iterator[str]:
    """Problems of a quota, as sentences without full stops.

    Args:
        report: The report without remarks.
        ledger: The ledger of the report.
        here: A new count of the objects in the cluster; None if some of them are unknown.
        is_stored: True if the GPUQuota comes from a cluster, where it should have been counted, and not from a file.
    """
    if report.exempt:
        yield f"namespace {report.namespace} is exempt from quotas ({report.exempt}), so this GPUQuota limits nothing"
    uncounted = [each.limit.name for each in report.limits if not each.counted]
    if uncounted:
        yield _not_counted(report, uncounted) if is_stored else _manifest(report, uncounted)
    for each in report.limits:
        if each.is_over:
            yield _over(each, report)
        if here is not None and each.counted and not _is_near(each, here.used_amount(each.limit)):
            yield _old(each, here)
    if old := [each for each in report.reservations if each.age is not None and each.age > _LONG]:
        yield _waiting_text(old)
    if ledger.reservations.places >= ROOM.charges or ledger.reservations.size >= ROOM.size:
        yield (
            f"it has no room for more reservations: {ledger.reservations.places:,} are open, {ROOM.charges:,} are the "
            "most; new pods cannot be charged until some are closed"
        )


def _not_counted(report: QuotaReport, names: list[str]) -> str:
    one = len(names) == 1
    fate = "is admitted with a warning"
    if report.enforced is None:
        fate = "cannot be measured"
    elif report.enforced and _refuses(report):
        fate = "is refused for now (429)"
    return (
        f"{format_list(names, len(names))} {'has' if one else 'have'} not been counted yet, so what counts in {'it' if one else 'them'} "
        f"{fate}; that takes seconds after a limit is written: if it stays so, {_LEADER}"
    )


def _manifest(report: QuotaReport, names: list[str]) -> str:
    if any(each.used is None for each in report.limits):
        return f"its status does not say how much is used of {format_list(names, len(names))}, and without pods it cannot be counted here"
    return f"its status does not say how much is used of {format_list(names, len(names))}, so that is counted here"


def _over(each: LimitUse, report: QuotaReport) -> str:
    excess = amount_with_unit(each.limit.unit, each.taken - each.limit.hard)
    fate = "is admitted" if report.exempt else "is refused" if _refuses(report) else "is admitted with a warning"
    return (
        f"{each.limit.name} is over its limit by {excess}: it was lowered, or objects were admitted in mode Warn or "
        f"without a call of the webhook; nothing is taken away, and a request for more {fate}"
    )


def _is_near(each: LimitUse, found: Fraction | None) -> bool:
    """True if a count agrees with the status; reserved objects may have been seen since."""
    return found is None or (each.used or ZERO) <= found <= each.taken


def _old(each: LimitUse, here: Ledger) -> str:
    unit = each.limit.unit
    found = amount_with_unit(unit, here.used_amount(each.limit) or ZERO)
    reserved = f" and {amount_with_unit(unit, each.reserved)} reserved" if each.reserved else ""
    return (
        f"existing pods and claims use {found} of {each.limit.name}, but the status says "
        f"{amount_with_unit(unit, each.used or ZERO)} used{reserved}; if that is still so in a minute, the quota is not counted: {_LEADER}"
    )


def _waiting_text(old: list[Reservation]) -> str:
    first = old[0]
    more = f", and {len(old) - 1} more for more than {_minutes(_LONG)}" if len(old) > 1 else ""
    made = "; whether its controller makes claims" if first.claims_awaited else ""
    return (
        f"{first.kind} {first.name} has been waiting for {_minutes(first.age or _LONG)}{more}; an object that was never stored "
        f"is given up after two: {_LEADER}{made}"
    )


def _refuses(report: QuotaReport) -> bool:
    return report.quota is not None and report.quota.mode == "Enforce"


def _minutes(age: timedelta) -> str:
    return f"{int(age.total_seconds()) // 60:,} minutes"
