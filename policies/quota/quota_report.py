"""The report on a GPUQuota or a GPUQuotaGroup: its limits, their use, their holders, and its problems."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING

from policies.kubernetes.names import format_list, inflected
from policies.kubernetes.objects import DEFAULT_NAMESPACE, lookup, mappings_at, name_of, namespace_of
from policies.kubernetes.view import UNKNOWN, Unknown
from policies.quota.counter import Counter
from policies.quota.counting import counted_ledger, holders, namespaces_of
from policies.quota.ledger.ledger import ROOM, Ledger, Reservation, shown_reservations
from policies.quota.ledger.open_charges import ZERO, sum_amounts
from policies.quota.limits.amounts import AmountScale, amount_of_limit
from policies.quota.limits.cluster_quota import (
    Group,
    group_document,
    group_shown,
    groups_with_members,
    loans,
    tenancy,
)
from policies.quota.limits.quota import GROUP, QuotaError, is_enforced, parse_quota
from policies.rules.settings.exemptions import exemption_in_cluster

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from fractions import Fraction

    from policies.kubernetes.objects import Object
    from policies.kubernetes.view import ClusterView
    from policies.quota.limits.cluster_quota import Loan
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
    loan: Loan | None = None
    """The part that it lends to other groups of its ClusterGPUQuota, and what it borrows; None without an expected amount."""

    @property
    def lending(self) -> str:
        """The amount that is lent or borrowed, without a full stop; empty if there is none."""
        if self.loan is None or self.limit.expected is None:
            return ""
        expected = self.scale.text(self.limit.expected)
        if self.loan.lent:
            lent = self.scale.number(self.loan.lent, self.limit.expected)
            return f"{self.limit.name}: lends {lent} of the {expected} that it is expected to use"
        if self.loan.borrowed:
            borrowed = self.scale.number(self.loan.borrowed, self.limit.expected)
            return f"{self.limit.name}: uses {borrowed} beyond the {expected} that it is expected to use, lent by other groups"
        return ""

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
class Condition:
    """A condition of the status."""

    type: str
    """`Ready`, `Enforced`."""
    status: str
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class QuotaReport:
    """The report on one GPUQuota or GPUQuotaGroup."""

    namespace: str
    """Empty for a GPUQuotaGroup."""
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
    namespaces: tuple[str, ...] = ()
    """The namespaces that it counts, sorted."""
    group: Group | None = None
    """None for a GPUQuota."""

    @property
    def kind(self) -> str:
        """`GPUQuota` or `GPUQuotaGroup`."""
        return QUOTA if self.group is None else GROUP

    @property
    def label(self) -> str:
        """Kind and name: `GPUQuota team-a/gpu`, `GPUQuotaGroup research.team-a`."""
        return f"{self.kind} {self.namespace}/{self.name}" if self.group is None else f"{self.kind} {self.name}"

    @property
    def members(self) -> str:
        """The namespaces that it counts: `namespaces team-a and team-b`."""
        if not self.namespaces:
            return "no namespace"
        return f"{inflected('namespace', str(len(self.namespaces)))} {format_list(self.namespaces, _MOST_NAMED)}"

    @property
    def is_over(self) -> bool:
        """True if a limit is exceeded, counted or not."""
        return any(limit.is_over for limit in self.limits)


_MOST_NAMED = 10
_LONG = timedelta(minutes=5)
"""Reservations of objects that were never stored end after two minutes; stored objects are seen within seconds."""
LEADER = "see whether gpu-admission runs and has a leader (kubectl describe lease gpu-admission -n gpu-admission)"
"""The advice where quotas are not counted."""


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
        f"{fate}; that takes seconds after a limit is written: if it stays so, {LEADER}"
    )


def _manifest(report: QuotaReport, names: list[str]) -> str:
    is_unknown = any(each.used is None for each in report.limits)
    end = "and without pods it cannot be counted here" if is_unknown else "so that is counted here"
    return f"its status does not say how much is used of {format_list(names, len(names))}, {end}"


def _over(each: LimitUse, report: QuotaReport) -> str:
    taken = amount_of_limit(each.limit.unit, each.taken, each.limit.hard)
    fate = "is admitted" if report.exempt else "is refused" if _refuses(report) else "is admitted with a warning"
    joined = "" if report.group is None else ", or a namespace joined the group"
    return (
        f"{each.limit.name} is over its limit, {taken} used: it was lowered, or objects were admitted in mode Warn or "
        f"without a call of the webhook{joined}; nothing is taken away, and a request for more {fate}"
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
        f"{used} used{reserved}; if that is still so in a minute, the quota is not counted: {LEADER}"
    )


def _waiting_text(old: list[Reservation]) -> str:
    first = old[0]
    more = f", and {len(old) - 1} more for more than {_minutes(_LONG)}" if len(old) > 1 else ""
    made = "; whether its controller makes claims" if first.claims_awaited else ""
    return (
        f"{first.kind} {first.name} has been waiting for {_minutes(first.age or _LONG)}{more}; an object that was never stored "
        f"is given up after two: {LEADER}{made}"
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
    """The reports on GPUQuotas, sorted by namespace, and on groups; unknown if neither can be read.

    Args:
        view: The cluster.
        policy: How quotas count.
        now: The time from which ages are computed.
        namespace: The only namespace to look into, with its group; empty for all.
    """
    listed, teams = view.list(QUOTA, namespace), tenancy(view)
    if listed is UNKNOWN and teams is UNKNOWN:
        return UNKNOWN
    ordered = sorted(() if listed is UNKNOWN else listed, key=lambda each: (namespace_of(each), name_of(each)))
    own = group_shown(namespace, view) if namespace else None
    groups = [each for each in _groups(view) if not namespace or (isinstance(own, Group) and each.quota == own.quota)]
    between = _loans(groups, view, policy.quota)
    shown = [each for each in groups if not namespace or each == own]
    return (
        *(quota_report(each, view, policy, now) for each in ordered),
        *(group_report(each, view, policy, now, between.get(each)) for each in shown),
    )


def _groups(view: ClusterView) -> list[Group]:
    """The groups whose limits are known, sorted by name."""
    stored = {
        Group(str(lookup(each, ("spec", "quota"))), str(lookup(each, ("spec", "group")) or ""))
        for each in view.known_objects(GROUP)
    }
    return sorted({*stored, *groups_with_members(view)}, key=lambda group: group.name)


def _loans(groups: Iterable[Group], view: ClusterView, settings: Quotas) -> Mapping[Group, Mapping[str, Loan]]:
    """The loans between the groups of each ClusterGPUQuota, by the names of limits."""
    uses: dict[tuple[str, str], dict[Group, tuple[Fraction, Fraction]]] = {}
    for group in groups:
        with suppress(QuotaError):
            document = group_document(group, view)
            expecting = [each for each in parse_quota(document).limits if each.expected is not None]
            ledger = counted_ledger(document or {}, view, settings) if expecting else Ledger()
            for limit in expecting:
                taken = (ledger.used_amount(limit) or ZERO) + ledger.reservations.total.get(limit.name, ZERO)
                uses.setdefault((group.quota, limit.name), {})[group] = limit.expected or ZERO, taken
    found: dict[Group, dict[str, Loan]] = {}
    for (_, name), of_groups in uses.items():
        for group, loan in loans(of_groups).items():
            found.setdefault(group, {})[name] = loan
    return found


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
    namespace = namespace_of(document) or DEFAULT_NAMESPACE
    exempt = exemption_in_cluster("quota", namespace, policy)
    is_known = view.get("Namespace", namespace) is not UNKNOWN
    report = QuotaReport(
        namespace,
        name_of(document),
        QuotaState.UNREADABLE,
        enforced=not exempt and is_enforced(namespace, view) if exempt or is_known else None,
        exempt=exempt,
        conditions=_conditions(document),
        namespaces=(namespace,),
    )
    return _with_use(report, document, view, policy, now)


def group_report(
    group: Group,
    view: ClusterView,
    policy: GPUAdmissionPolicy,
    now: datetime,
    between: Mapping[str, Loan] | None = None,
) -> QuotaReport:
    """The report on a GPUQuotaGroup; arguments as for `quota_report`, and its loans by limit."""
    document = group_document(group, view) or {}
    names = tuple(sorted({*namespaces_of(document, view), *Ledger.read(document).namespaces}))
    exempt = {each: why for each in names if (why := exemption_in_cluster("quota", each, policy))}
    is_known = bool(names) and all(view.get("Namespace", each) is not UNKNOWN for each in names)
    report = QuotaReport(
        "",
        group.name,
        QuotaState.UNREADABLE,
        enforced=all(is_enforced(each, view) for each in names) if is_known else None,
        conditions=_conditions(document),
        namespaces=names,
        group=group,
    )
    report = _with_use(report, document, view, policy, now)
    limits = tuple(replace(each, loan=(between or {}).get(each.limit.name)) for each in report.limits)
    said = [
        f"it limits nothing in namespace {name}, which is exempt from quotas ({why})" for name, why in exempt.items()
    ]
    return replace(report, limits=limits, remarks=(*said, *report.remarks))


def _with_use(
    report: QuotaReport, document: Object, view: ClusterView, policy: GPUAdmissionPolicy, now: datetime
) -> QuotaReport:
    """The report with limits, holders and remarks; with problems if the document cannot be read."""
    try:
        quota = parse_quota(document)
    except QuotaError as error:
        return replace(report, problems=error.problems)
    settings = policy.quota
    stored, counters = Ledger.read(document).under(quota), {each: Counter() for each in report.namespaces}
    ledger = counted_ledger(document, view, settings, counters=counters).under(quota)
    users, held = _holders(counters, quota, view, settings, now)
    missing = _missing_kinds(view, report.namespaces)
    limits = _limits(quota, stored, ledger, users, held, is_countable="Pod" not in missing)
    is_stored = bool(lookup(document, ("metadata", "uid")))
    report = replace(
        report,
        quota=quota,
        state=_state(limits, is_stored=is_stored),
        limits=limits,
        holders=users,
        reservations=shown_reservations(ledger, now),
    )
    anew = {**document, "status": {}}
    here = None if missing else counted_ledger(anew, view, settings, counters=counters)
    return replace(report, remarks=tuple(remarks_on(report, ledger, here, is_stored=is_stored)))


def _missing_kinds(view: ClusterView, namespaces: Sequence[str]) -> list[str]:
    return [
        kind
        for kind in COUNTED_FROM
        if any(view.list(kind, each) is UNKNOWN for each in ([""] if kind in _CLUSTER_SCOPED else namespaces))
    ]


def _limits(
    quota: Quota,
    stored: Ledger,
    ledger: Ledger,
    users: tuple[Holder, ...] | None,
    held: Amounts,
    *,
    is_countable: bool,
) -> tuple[LimitUse, ...]:
    """The use of each limit; `held` is what the users hold now."""
    reserved = ledger.reservations.total
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
    counters: Mapping[str, Counter], quota: Quota, view: ClusterView, settings: Quotas, now: datetime
) -> tuple[tuple[Holder, ...] | None, Amounts]:
    """The users of a quota, and what they hold now; None if the pods of a namespace are unknown."""
    if any(view.list("Pod", each) is UNKNOWN for each in counters):
        return None, {}
    hard = {limit.name: limit.hard for limit in quota.limits}
    found = [
        user
        for each, counter in counters.items()
        for user in holders(each, quota, view, settings, now, counter=counter)
    ]
    users = sorted(found, key=lambda each: (-_largest_part(each.amounts, hard), -each.age, each.name))
    return tuple(users), sum_amounts(each.held_amounts() for each in counters.values())


def _largest_part(amounts: Amounts, hard: dict[str, Fraction]) -> float:
    return max(float(amount) / (float(hard[name]) or _ALMOST_NOTHING) for name, amount in amounts.items())


def _conditions(document: Object) -> tuple[Condition, ...]:
    """The conditions of the status that have a type."""
    read = (
        Condition(*(str(each.get(field) or "") for field in ("type", "status", "reason", "message")))
        for each in mappings_at(document, ("status", "conditions"))
    )
    return tuple(condition for condition in read if condition.type)
