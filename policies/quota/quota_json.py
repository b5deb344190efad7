"""The report on a quota as JSON; docs/schemas is generated from the types."""

from __future__ import annotations

from collections.abc import Mapping  # noqa: TC003 - pydantic reads the annotation
from dataclasses import dataclass
from fractions import Fraction  # noqa: TC003 - pydantic reads the annotation
from typing import TYPE_CHECKING, Literal

from policies.quota.ledger.open_charges import amount_texts
from policies.quota.quota_report import (
    Condition,  # noqa: TC001 - pydantic reads the annotation
    QuotaState,  # noqa: TC001 - pydantic reads the annotation
)
from policies.rules.charges import Unit  # noqa: TC001 - pydantic reads the annotation

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import timedelta

    from policies.quota.ledger.ledger import Reservation
    from policies.quota.quota_report import QuotaReport


@dataclass(frozen=True, slots=True)
class _LimitUseJSON:
    """A limit and its use. Amounts are exact text, memory is in bytes."""

    name: str
    unit: Unit
    hard: Fraction
    used: Fraction | None
    reserved: Fraction
    left: Fraction | None
    counted: bool
    held: Fraction | None
    waiting: Fraction
    expected: Fraction | None
    lent: Fraction | None
    borrowed: Fraction | None


@dataclass(frozen=True, slots=True)
class _HolderJSON:
    """A pod or claim, and what it uses of each limit."""

    kind: Literal["Pod", "ResourceClaim"]
    name: str
    seconds: int | None
    amounts: Mapping[str, str]
    waits: bool


@dataclass(frozen=True, slots=True)
class _ReservationJSON:
    """An object that was admitted and has not been seen yet."""

    kind: str
    name: str
    uid: str
    seconds: int | None
    amounts: Mapping[str, str]
    waits_for: tuple[str, ...]
    counted_with_pod: str
    counted_with_pod_group: str


@dataclass(frozen=True, slots=True)
class _ProblemJSON:
    """A problem for which a GPUQuota is invalid."""

    path: str
    message: str
    remedy: str


@dataclass(frozen=True, slots=True)
class _QuotaReportJSON:
    """The report on one GPUQuota or GPUQuotaGroup; that of a group has no namespace."""

    kind: Literal["GPUQuota", "GPUQuotaGroup"]
    namespace: str
    name: str
    state: QuotaState
    mode: Literal["Enforce", "Warn"] | None
    unknown_products: Literal["WorstCase", "Deny"] | None
    enforced: bool | None
    exempt: str
    namespaces: tuple[str, ...]
    limits: tuple[_LimitUseJSON, ...]
    holders: tuple[_HolderJSON, ...] | None
    reservations: tuple[_ReservationJSON, ...]
    conditions: tuple[Condition, ...]
    problems: tuple[_ProblemJSON, ...]
    remarks: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class QuotasJSON:
    """The output of `gpu-admission quota -o json`."""

    quotas: tuple[_QuotaReportJSON, ...]
    notes: tuple[str, ...]


def quotas_json(reports: Sequence[QuotaReport], notes: Sequence[str] = ()) -> QuotasJSON:
    """The reports and notes on them, as their JSON has them."""
    return QuotasJSON(tuple(map(_report, reports)), tuple(notes))


def _report(report: QuotaReport) -> _QuotaReportJSON:
    quota, held = report.quota, report.holders
    return _QuotaReportJSON(
        kind="GPUQuota" if report.group is None else "GPUQuotaGroup",
        namespace=report.namespace,
        name=report.name,
        state=report.state,
        mode=None if quota is None else quota.mode,
        unknown_products=None if quota is None else quota.unknown_products,
        enforced=report.enforced,
        exempt=report.exempt,
        namespaces=report.namespaces,
        limits=tuple(
            _LimitUseJSON(
                each.limit.name,
                each.limit.unit,
                each.limit.hard,
                each.used,
                each.reserved,
                each.left,
                each.counted,
                each.held,
                each.waiting,
                each.limit.expected,
                None if each.loan is None else each.loan.lent,
                None if each.loan is None else each.loan.borrowed,
            )
            for each in report.limits
        ),
        holders=None
        if held is None
        else tuple(
            _HolderJSON(
                "ResourceClaim" if each.is_claim else "Pod",
                each.name,
                _seconds(each.age),
                amount_texts(each.amounts),
                each.waits,
            )
            for each in held
        ),
        reservations=tuple(map(_reservation, report.reservations)),
        conditions=report.conditions,
        problems=tuple(_ProblemJSON(str(each.path), each.message, each.remedy or "") for each in report.problems),
        remarks=report.remarks,
    )


def _reservation(reservation: Reservation) -> _ReservationJSON:
    is_of_pod = reservation.of_kind == "Pod"
    return _ReservationJSON(
        kind=reservation.kind,
        name=reservation.name,
        uid=reservation.uid,
        seconds=_seconds(reservation.age),
        amounts=amount_texts(reservation.amounts),
        waits_for=reservation.waits_for,
        counted_with_pod=reservation.of if is_of_pod else "",
        counted_with_pod_group="" if is_of_pod else reservation.of,
    )


def _seconds(age: timedelta | None) -> int | None:
    """The age in whole seconds; None if it is unknown, as in manifests."""
    return max(int(age.total_seconds()), 0) if age else None
