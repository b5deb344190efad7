"""The report on a quota: its limits, their use, its holders and its problems."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from policies.quota.ledger.open_charges import ALLOWANCE
from policies.quota.ledger.sums import ZERO

if TYPE_CHECKING:
    from datetime import timedelta
    from fractions import Fraction

    from policies.kubernetes.paths import FieldPath
    from policies.quota.charges import Amounts
    from policies.quota.charging.messages import Holder
    from policies.quota.limits.quota import Limit, Quota

__all__ = ["Condition", "LimitUse", "QuotaReport", "QuotaState", "Reservation"]


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
