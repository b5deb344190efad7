"""The report on a quota: its limits, their use, its holders and its problems."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Literal, TypedDict

from policies.quota.ledger.open_charges import ALLOWANCE
from policies.quota.ledger.sums import ZERO, amount_texts

if TYPE_CHECKING:
    from datetime import timedelta
    from fractions import Fraction

    from policies.kubernetes.paths import FieldPath
    from policies.quota.charges import Amounts, Unit
    from policies.quota.charging.messages import Holder
    from policies.quota.limits.quota import Limit, Quota

__all__ = ["Condition", "LimitUse", "QuotaReport", "QuotaReportJSON", "QuotaState", "Reservation"]


class QuotaState(StrEnum):
    """The state of a quota."""

    WITHIN = "within"
    OVER = "over"
    """A limit is exceeded."""
    UNCOUNTED = "uncounted"
    """The use of a limit was not counted yet, so requests cannot be compared with it."""
    UNREADABLE = "unreadable"
    """The GPUQuota is invalid, so it limits nothing."""


class _LimitUseJSON(TypedDict):
    """A limit and its use. Amounts are exact text, memory is in bytes."""

    name: str
    unit: Unit
    hard: str
    used: str | None
    reserved: str
    left: str | None
    counted: bool


class _HolderJSON(TypedDict):
    """A pod or claim, and what it holds of each limit."""

    name: str
    seconds: int | None
    amounts: dict[str, str]


class _ReservationJSON(TypedDict):
    """An object that was admitted and has not been seen yet."""

    kind: str
    name: str
    uid: str
    seconds: int | None
    amounts: dict[str, str]
    waitsFor: list[str]
    countedWithPod: str
    countedWithPodGroup: str


class _ConditionJSON(TypedDict):
    """A condition of the status."""

    type: str
    status: str
    reason: str
    message: str


class _ProblemJSON(TypedDict):
    """Why a GPUQuota is invalid."""

    path: str
    message: str


class QuotaReportJSON(TypedDict):
    """The report on one GPUQuota."""

    namespace: str
    name: str
    state: Annotated[str, QuotaState]
    mode: Literal["Enforce", "Warn"] | None
    unknownProducts: Literal["WorstCase", "Deny"] | None
    enforced: bool | None
    exempt: str
    limits: list[_LimitUseJSON]
    holders: list[_HolderJSON] | None
    reservations: list[_ReservationJSON]
    conditions: list[_ConditionJSON]
    problems: list[_ProblemJSON]
    remarks: list[str]


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

    def as_json(self) -> _LimitUseJSON:
        """The report as plain data; amounts are exact text, memory is in bytes, and unknown amounts are null."""
        return {
            "name": self.limit.name,
            "unit": self.limit.unit,
            "hard": str(self.limit.hard),
            "used": _text(self.used),
            "reserved": str(self.reserved),
            "left": _text(self.left),
            "counted": self.counted,
        }


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

    def as_json(self) -> _ReservationJSON:
        """As plain data."""
        return {
            "kind": self.kind,
            "name": self.name,
            "uid": self.uid,
            "seconds": _seconds(self.age),
            "amounts": amount_texts(self.amounts),
            "waitsFor": list(self.waits_for),
            "countedWithPod": self.of if self.of_kind == "Pod" else "",
            "countedWithPodGroup": self.of if self.of_kind != "Pod" else "",
        }


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition of the status: `Ready`, `Enforced`."""

    type: str
    status: str
    reason: str
    message: str

    def as_json(self) -> _ConditionJSON:
        """As plain data."""
        return {"type": self.type, "status": self.status, "reason": self.reason, "message": self.message}


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

    def as_json(self) -> QuotaReportJSON:
        """As plain data."""
        quota, held = self.quota, self.holders
        return {
            "namespace": self.namespace,
            "name": self.name,
            "state": str(self.state),
            "mode": None if quota is None else quota.mode,
            "unknownProducts": None if quota is None else quota.unknown_products,
            "enforced": self.enforced,
            "exempt": self.exempt,
            "limits": [limit.as_json() for limit in self.limits],
            "holders": None if held is None else [_holder(each) for each in held],
            "reservations": [each.as_json() for each in self.reservations],
            "conditions": [each.as_json() for each in self.conditions],
            "problems": [{"path": str(path), "message": said} for path, said in self.problems],
            "remarks": list(self.remarks),
        }


def _holder(holder: Holder) -> _HolderJSON:
    return {"name": holder.name, "seconds": _seconds(holder.age), "amounts": amount_texts(holder.amounts)}


def _text(amount: Fraction | None) -> str | None:
    return None if amount is None else str(amount)


def _seconds(age: timedelta | None) -> int | None:
    """The age in whole seconds; None if it is unknown, as in manifests."""
    return max(int(age.total_seconds()), 0) if age else None
