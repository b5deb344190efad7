"""Reporting: makes the report on a GPUQuota from its status and the cluster."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from policies.kubernetes.objects import DEFAULT_NAMESPACE, items_at, lookup, name_of, namespace_of
from policies.kubernetes.view import UNKNOWN, Unknown
from policies.quota.counting.counting import counted_ledger, holders
from policies.quota.ledger.ledger import Ledger
from policies.quota.ledger.open_charges import ZERO, sum_amounts
from policies.quota.limits.quota import QuotaError, is_enforced, parse_quota
from policies.quota.report.report import Condition, LimitUse, QuotaReport, QuotaState, Reservation, remarks_on
from policies.rules.charges import OWN
from policies.rules.settings.exemptions import exemption_in_cluster

if TYPE_CHECKING:
    from collections.abc import Sequence
    from fractions import Fraction

    from policies.kubernetes.objects import Object
    from policies.kubernetes.view import ClusterView
    from policies.quota.charging.messages import Holder
    from policies.quota.ledger.open_charges import OpenCharge
    from policies.quota.limits.quota import Quota
    from policies.rules.charges import Amounts
    from policies.rules.settings import GPUAdmissionPolicy
    from policies.rules.settings.choices import Quotas

__all__ = ["COUNTED_FROM", "QUOTA", "quota_report", "quota_reports"]

QUOTA = "GPUQuota"

COUNTED_FROM = ("Pod", "ResourceClaim", "Node", "ResourceSlice")
"""Kinds that are needed to count existing objects."""
_CLUSTER_SCOPED = frozenset({"Node", "ResourceSlice"})
_ALMOST_NOTHING = 1e-9


def quota_reports(
    view: ClusterView, policy: GPUAdmissionPolicy, now: datetime, namespace: str = ""
) -> tuple[QuotaReport, ...] | Unknown:
    """The reports on GPUQuotas, sorted by namespace; unknown if they cannot be read.

    Args:
        view: The cluster.
        policy: How quotas count.
        now: The time from which ages are computed.
        namespace: The only namespace to look into; empty for all.
    """
    listed = view.list(QUOTA, namespace)
    if listed is UNKNOWN:
        return UNKNOWN
    ordered = sorted(listed, key=lambda each: (namespace_of(each), name_of(each)))
    return tuple(quota_report(each, view, policy, now) for each in ordered)


def quota_report(document: Object, view: ClusterView, policy: GPUAdmissionPolicy, now: datetime) -> QuotaReport:
    """The report on a GPUQuota.

    Used amounts come from its status. If the status lacks them, as in a manifest that was never applied, they are counted
    here from the pods and claims in the view.

    Args:
        document: The GPUQuota.
        view: The cluster, with the pods and claims of the namespace.
        policy: How quotas count, and which namespaces are exempt.
        now: The time from which ages are computed.
    """
    namespace, settings = namespace_of(document) or DEFAULT_NAMESPACE, policy.quota
    exempt = exemption_in_cluster("quota", namespace, policy)
    is_known = view.get("Namespace", namespace) is not UNKNOWN
    report = QuotaReport(
        namespace,
        name_of(document),
        QuotaState.UNREADABLE,
        enforced=not exempt and is_enforced(namespace, view) if exempt or is_known else None,
        exempt=exempt,
        conditions=_conditions(document),
    )
    try:
        quota = parse_quota(document)
    except QuotaError as error:
        return replace(report, problems=tuple(error.problems))
    stored = Ledger.read(document).under(quota)
    ledger = counted_ledger(document, view, settings).under(quota)
    limits = _limits(quota, stored, ledger, is_countable="Pod" not in _missing_kinds(view, namespace))
    is_stored = bool(lookup(document, ("metadata", "uid")))
    report = replace(
        report,
        quota=quota,
        state=_state(limits, is_stored=is_stored),
        limits=limits,
        holders=_holders(namespace, quota, view, settings, now),
        reservations=_reservations(ledger, now),
    )
    here = None if _missing_kinds(view, namespace) else counted_ledger({**document, "status": {}}, view, settings)
    return replace(report, remarks=tuple(remarks_on(report, ledger, here, is_stored=is_stored)))


def _missing_kinds(view: ClusterView, namespace: str) -> list[str]:
    return [kind for kind in COUNTED_FROM if view.list(kind, "" if kind in _CLUSTER_SCOPED else namespace) is UNKNOWN]


def _limits(quota: Quota, stored: Ledger, ledger: Ledger, *, is_countable: bool) -> tuple[LimitUse, ...]:
    reserved = ledger.reservations.total
    found = []
    for limit in quota.limits:
        counted = stored.used_amount(limit) is not None
        used = ledger.used_amount(limit) if counted or is_countable else None
        found.append(LimitUse(limit, used, reserved.get(limit.name, ZERO), counted))
    return tuple(found)


def _state(limits: Sequence[LimitUse], *, is_stored: bool) -> QuotaState:
    """The state of the quota; a manifest that was never applied needs no counted amounts."""
    if any(each.used is None or (is_stored and not each.counted) for each in limits):
        return QuotaState.UNCOUNTED
    return QuotaState.OVER if any(each.is_over for each in limits) else QuotaState.WITHIN


def _holders(
    namespace: str, quota: Quota, view: ClusterView, settings: Quotas, now: datetime
) -> tuple[Holder, ...] | None:
    if view.list("Pod", namespace) is UNKNOWN:
        return None
    hard = {limit.name: limit.hard for limit in quota.limits}
    found = (each for each in holders(namespace, quota, view, settings, now) if any(each.amounts.values()))
    return tuple(sorted(found, key=lambda each: (-_largest_part(each.amounts, hard), -each.age, each.name)))


def _largest_part(amounts: Amounts, hard: dict[str, Fraction]) -> float:
    return max(float(amount) / (float(hard[name]) or _ALMOST_NOTHING) for name, amount in amounts.items())


def _reservations(ledger: Ledger, now: datetime) -> tuple[Reservation, ...]:
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


def _conditions(document: Object) -> tuple[Condition, ...]:
    """The conditions of the status that have a type."""
    read = (
        Condition(*(_text(each, field) for field in ("type", "status", "reason", "message")))
        for each in items_at(document, ("status", "conditions"))
    )
    return tuple(condition for condition in read if condition.type)


def _text(document: Any, field: str) -> str:
    found = lookup(document, (field,))
    return found if isinstance(found, str) else ""


def _moment(text: str) -> datetime | None:
    """A time in RFC 3339; None if it is invalid or has no time zone."""
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return None
    return found if found.tzinfo is not None else None
