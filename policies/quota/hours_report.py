"""The GPU hours of namespaces and groups over some days, from the statuses of their quotas."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime, timedelta
from fractions import Fraction
from typing import TYPE_CHECKING, Literal

from policies.kubernetes.objects import DEFAULT_NAMESPACE, items_at, lookup, name_of, namespace_of
from policies.quota.ledger.gpu_hours import WRITTEN_EVERY, Day, GPUHours, total_seconds
from policies.quota.limits.quota import GROUP
from policies.quota.quota_report import LEADER, QUOTA

if TYPE_CHECKING:
    from collections.abc import Iterable

    from policies.kubernetes.objects import Object
    from policies.kubernetes.view import ClusterView


@dataclass(frozen=True, slots=True)
class KindHours:
    """The GPU hours of one kind of GPUs. Amounts are exact text."""

    namespace: str
    product: str
    """Empty if it was not known; `other` for all kinds of a day beyond the first ones."""
    profile: str
    gpu_hours: Fraction


@dataclass(frozen=True, slots=True)
class DayHours:
    """The GPU hours of a day in UTC."""

    day: date
    until: datetime
    """The time up to which they are summed."""
    gap_seconds: int
    """The time that no replica counted."""
    kinds: tuple[KindHours, ...]


@dataclass(frozen=True, slots=True)
class QuotaHours:
    """The GPU hours of one GPUQuota or GPUQuotaGroup; those of a group have no namespace."""

    kind: Literal["GPUQuota", "GPUQuotaGroup"]
    namespace: str
    name: str
    until: datetime | None
    """The time up to which they are summed; null if the quota never counted a GPU."""
    holds_gpus: bool
    """True if it has held GPUs since then."""
    gap_seconds: int
    gpu_hours: Fraction
    kinds: tuple[KindHours, ...]
    """The most first."""
    days: tuple[DayHours, ...]
    """The oldest first."""
    remarks: tuple[str, ...]

    @property
    def label(self) -> str:
        """Kind and name: `GPUQuota team-a/gpu`, `GPUQuotaGroup research.team-a`."""
        return f"{self.kind} {self.namespace}/{self.name}" if self.namespace else f"{self.kind} {self.name}"


@dataclass(frozen=True, slots=True)
class HoursJSON:
    """The output of `gpu-admission quota --since DAYS -o json`."""

    first_day: date
    quotas: tuple[QuotaHours, ...]
    notes: tuple[str, ...]


def hours_of_quotas(
    view: ClusterView, first: date, now: datetime | None, namespace: str = ""
) -> tuple[QuotaHours, ...]:
    """The GPU hours of GPUQuotas, sorted by namespace, and of groups.

    Args:
        view: The cluster.
        first: The first day.
        now: The time in UTC, for warnings that a sum is old; None if the cluster does not run.
        namespace: The only namespace to look into, with its group; empty for all.
    """
    quotas = sorted(view.known_objects(QUOTA, namespace), key=lambda each: (namespace_of(each), name_of(each)))
    groups = sorted(view.known_objects(GROUP), key=name_of)
    own = (each for each in groups if not namespace or namespace in items_at(each, ("status", "namespaces")))
    return tuple(_hours(each, first, now) for each in (*quotas, *own))


def _hours(document: Object, first: date, now: datetime | None) -> QuotaHours:
    is_group, found = document.get("kind") == GROUP, GPUHours.read(document)
    namespace = "" if is_group else namespace_of(document) or DEFAULT_NAMESPACE
    days = () if found is None else found.since(first)
    kinds = _kinds(days)
    remarks = []
    if found is None and lookup(document, ("status", "hours")):
        remarks = [
            "its GPU hours cannot be read: another program wrote status.hours, and they begin anew with the next count"
        ]
    elif now is not None and found is not None and found.now and now - found.until > 3 * WRITTEN_EVERY:
        remarks = [f"it holds GPUs, and its GPU hours are not summed any more: {LEADER}"]
    return QuotaHours(
        kind="GPUQuotaGroup" if is_group else "GPUQuota",
        namespace=namespace,
        name=name_of(document),
        until=None if found is None else found.until,
        holds_gpus=found is not None and bool(found.now),
        gap_seconds=sum(each.gap for each in days),
        gpu_hours=sum((each.gpu_hours for each in kinds), Fraction(0)),
        kinds=kinds,
        days=() if found is None else tuple(_day(each, found) for each in days),
        remarks=tuple(remarks),
    )


def _day(day: Day, found: GPUHours) -> DayHours:
    midnight = found.until.replace(year=day.day.year, month=day.day.month, day=day.day.day, hour=0, minute=0, second=0)
    return DayHours(day.day, min(found.until, midnight + timedelta(days=1)), day.gap, _kinds([day]))


def _kinds(days: Iterable[Day]) -> tuple[KindHours, ...]:
    return tuple(KindHours(*kind, seconds / 3600) for kind, seconds in total_seconds(days).items())
