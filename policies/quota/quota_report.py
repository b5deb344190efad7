"""The report on a GPUQuota: its limits, their use, their holders, and its problems."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from policies.kubernetes.names import format_list
from policies.kubernetes.objects import DEFAULT_NAMESPACE, items_at, lookup, name_of, namespace_of
from policies.kubernetes.view import UNKNOWN, Unknown
from policies.quota.counter import Counter
from policies.quota.counting import counted_ledger, holders
from policies.quota.ledger.ledger import ROOM, Ledger
from policies.quota.ledger.open_charges import ALLOWANCE, ZERO, sum_amounts
from policies.quota.limits.amounts import AmountScale, amount_of_limit
from policies.quota.limits.quota import QuotaError, is_enforced, parse_quota
from policies.rules.charges import OWN
from policies.rules.settings.exemptions import exemption_in_cluster

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from fractions import Fraction

    from policies.kubernetes.objects import Object
    from policies.kubernetes.view import ClusterView
    from policies.quota.ledger.open_charges import OpenCharge
    from policies.quota.limits.quota import Limit, Quota
    from policies.quota.outcomes import Holder
    from policies.rules.charges import Amounts
    from policies.rules.checks import Problem
    from policies.rules.settings import GPUAdmissionPolicy
    from policies.rules.settings.choices import Quotas


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
    held: Fraction | None = None
    """The part of it that bound pods and allocated claims hold now; None if unknown."""
    waiting: Fraction = ZERO
    """The part of it for pods without a node and claims without devices: the most that they can get."""

    @property
    def taken(self) -> Fraction:
        """The used and reserved amount."""
        return (self.used or ZERO) + self.reserved

    @property
    def scale(self) -> AmountScale:
        """The unit in which all amounts of the limit are written."""
        return AmountScale.of(self.limit.unit, self.taken, self.limit.hard)

    @property
    def difference(self) -> str:
        """The reasons why more is used than held, without a full stop; empty if all of it is held."""
        if self.used is None or self.held is None or self.used <= self.held:
            return ""
        scale, others = self.scale, self.used - self.held - self.waiting
        reasons = [
            f"{scale.text(amount)} {words}"
            for amount, words in (
                (self.waiting, "for pods and claims that wait (the most that they can get)"),
                (others, "for what allocated claims can get next"),
            )
            if amount > 0
        ]
        held = f"{scale.number(self.held, self.used)} of the {scale.text(self.used)} used are held now"
        return f"{self.limit.name}: {held}, {' and '.join(reasons)}"

    @property
    def left(self) -> Fraction | None:
        """The amount that is still available; None if unknown."""
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
    problems: tuple[Problem, ...] = ()
    """The problems for which it is invalid."""
    remarks: tuple[str, ...] = ()
    """Its problems, as sentences without full stops."""
    exempt: str = ""
    """The reason why its namespace is exempt from quotas, as a clause; empty if it is not."""

    @property
    def is_over(self) -> bool:
        """True if a limit is exceeded, counted or not."""
        return any(limit.is_over for limit in self.limits)


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
    is_unknown = any(each.used is None for each in report.limits)
    end = "and without pods it cannot be counted here" if is_unknown else "so that is counted here"
    return f"its status does not say how much is used of {format_list(names, len(names))}, {end}"


def _over(each: LimitUse, report: QuotaReport) -> str:
    taken = amount_of_limit(each.limit.unit, each.taken, each.limit.hard)
    fate = "is admitted" if report.exempt else "is refused" if _refuses(report) else "is admitted with a warning"
    return (
        f"{each.limit.name} is over its limit, {taken} used: it was lowered, or objects were admitted in mode Warn or "
        f"without a call of the webhook; nothing is taken away, and a request for more {fate}"
    )


def _is_near(each: LimitUse, found: Fraction | None) -> bool:
    """True if a count agrees with the status; reserved objects may have been seen since."""
    return found is None or (each.used or ZERO) <= found <= each.taken


def _old(each: LimitUse, here: Ledger) -> str:
    unit = each.limit.unit
    counted = here.used_amount(each.limit) or ZERO
    scale = AmountScale.of(unit, counted, each.used or counted)
    found, used = scale.text(counted), scale.text(each.used or ZERO, counted)
    reserved = f" and {scale.text(each.reserved)} reserved" if each.reserved else ""
    return (
        f"existing pods and claims use {found} of {each.limit.name}, but the status says "
        f"{used} used{reserved}; if that is still so in a minute, the quota is not counted: {_LEADER}"
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
        return replace(report, problems=error.problems)
    stored, counter = Ledger.read(document).under(quota), Counter()
    ledger = counted_ledger(document, view, settings, counter=counter).under(quota)
    users = _holders(namespace, quota, view, settings, now, counter)
    limits = _limits(quota, stored, ledger, users, counter, is_countable="Pod" not in _missing_kinds(view, namespace))
    is_stored = bool(lookup(document, ("metadata", "uid")))
    report = replace(
        report,
        quota=quota,
        state=_state(limits, is_stored=is_stored),
        limits=limits,
        holders=users,
        reservations=_reservations(ledger, now),
    )
    anew = {**document, "status": {}}
    here = None if _missing_kinds(view, namespace) else counted_ledger(anew, view, settings, counter=counter)
    return replace(report, remarks=tuple(remarks_on(report, ledger, here, is_stored=is_stored)))


def _missing_kinds(view: ClusterView, namespace: str) -> list[str]:
    return [kind for kind in COUNTED_FROM if view.list(kind, "" if kind in _CLUSTER_SCOPED else namespace) is UNKNOWN]


def _limits(
    quota: Quota,
    stored: Ledger,
    ledger: Ledger,
    users: tuple[Holder, ...] | None,
    counter: Counter,
    *,
    is_countable: bool,
) -> tuple[LimitUse, ...]:
    """The use of each limit; `counter` has counted the users."""
    reserved, held = ledger.reservations.total, counter.held_amounts()
    waiting = sum_amounts(each.amounts for each in users or () if each.waits)
    found = []
    for limit in quota.limits:
        counted = stored.used_amount(limit) is not None
        used = ledger.used_amount(limit) if counted or is_countable else None
        holds = None if users is None else held.get(limit.name, ZERO)
        found.append(
            LimitUse(limit, used, reserved.get(limit.name, ZERO), counted, holds, waiting.get(limit.name, ZERO))
        )
    return tuple(found)


def _state(limits: Sequence[LimitUse], *, is_stored: bool) -> QuotaState:
    """The state of the quota; a manifest that was never applied needs no counted amounts."""
    if any(each.used is None or (is_stored and not each.counted) for each in limits):
        return QuotaState.UNCOUNTED
    return QuotaState.OVER if any(each.is_over for each in limits) else QuotaState.WITHIN


def _holders(
    namespace: str, quota: Quota, view: ClusterView, settings: Quotas, now: datetime, counter: Counter
) -> tuple[Holder, ...] | None:
    if view.list("Pod", namespace) is UNKNOWN:
        return None
    hard = {limit.name: limit.hard for limit in quota.limits}
    found = holders(namespace, quota, view, settings, now, counter=counter)
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
