"""The leader, and what depends on it: ledgers of quotas, and templates."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from policies.analyses.installation.health.facts import NAMESPACE, Unread, unread_check
from policies.conversion.sweep import is_ours, references
from policies.conversion.templates import is_our_name
from policies.kubernetes.names import UNUSED_SINCE
from policies.kubernetes.objects import has_ended, lookup, mappings_at, name_of, namespace_of
from policies.kubernetes.phrases import format_count, format_list, inflect, shorten
from policies.rules.cluster_checks import Check, Status

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from policies.analyses.installation.health.facts import InstallationFacts
    from policies.kubernetes.objects import Object

__all__ = ["leader_checks", "quota_checks", "template_checks"]

_LEASE = f"Lease {NAMESPACE} in namespace {NAMESPACE}"
_UPKEEP = "docs/troubleshooting.md#upkeep"
_QUOTAS = "docs/troubleshooting.md#quotas"
_LATE = timedelta(seconds=30)
"""A Lease is valid for 15 seconds, and another replica takes it soon after that."""
_SETTLED = timedelta(minutes=2)
"""A quota is counted within a second, and a missing template is created within half a minute, of a working leader."""
_SWEPT = timedelta(hours=2)
"""An unused template is deleted after an hour, by rounds of ten minutes."""
_MOST = 3


def leader_checks(facts: InstallationFacts) -> Iterator[Check]:
    """Whether a replica leads."""
    if isinstance(facts.lease, Unread):
        yield unread_check("leader", "it is unknown whether a replica leads", facts.lease)
        return
    holder = lookup(facts.lease, ("spec", "holderIdentity")) or ""
    renewed = _moment(lookup(facts.lease, ("spec", "renewTime")))
    why = ""
    if facts.lease is None:
        why = "it does not exist"
    elif not holder:
        why = "it has no holder"
    elif renewed is None or facts.now - renewed > _LATE:
        why = (
            f"its holder {holder} renewed it last at {renewed:%Y-%m-%d %H:%M:%S} UTC"
            if renewed
            else "it has no renewTime"
        )
    is_short = renewed is not None and facts.now - renewed <= _LATE
    if why:
        yield Check(
            name="leader",
            # A replica that stops releases the Lease, and another one takes it within seconds.
            status=Status.WARNING if is_short else Status.FAILING,
            what="no replica leads at the moment" if is_short else "no replica leads",
            where=_LEASE,
            why=f"{why}; nothing counts quotas, creates missing templates or writes the status of settings meanwhile",
            remedy=f"see replicas, readiness and rbac here; {_UPKEEP}",
        )
    elif renewed is not None:
        seconds = max(int((facts.now - renewed).total_seconds()), 0)
        yield Check(
            name="leader",
            status=Status.OK,
            what=f"{holder} leads, and renewed its Lease {format_count(seconds, 'second')} ago",
        )


def quota_checks(facts: InstallationFacts) -> Iterator[Check]:
    """Whether quotas are counted, and nothing passed without a charge."""
    if isinstance(facts.quotas, Unread):
        yield unread_check("quotas", "it is unknown whether GPUQuotas are counted", facts.quotas)
    else:
        yield from _ledgers(facts.quotas, facts.now)
    for name, replica in facts.replicas.items():
        if not isinstance(replica.metrics, Unread) and replica.metrics.drift:
            yield Check(
                name="quotas",
                status=Status.WARNING,
                what=f"{replica.metrics.drift:,} pods or claims passed without a charge, and count now",
                where=f"gpu_admission_quota_drift_total of {name}, since it started",
                why="they were created while no replica could charge them, or before the GPUQuota",
                remedy=_QUOTAS,
            )


def _ledgers(quotas: Sequence[Object], now: datetime) -> Iterator[Check]:
    late: dict[str, list[str]] = {}
    for quota in quotas:
        if reason := _ledger_problem(quota, now):
            late.setdefault(reason, []).append(f"{namespace_of(quota)}/{name_of(quota)}")
    for reason, names in late.items():
        yield Check(
            name="quotas",
            status=Status.FAILING,
            what=f"GPUQuota {format_list(names, _MOST)}: {reason}",
            remedy=_QUOTAS,
        )
    if not late:
        counted = f"all {format_count(len(quotas), 'GPUQuota')} are counted" if len(quotas) > 1 else ""
        what = counted or ("the GPUQuota is counted" if quotas else "no GPUQuota exists")
        yield Check(name="quotas", status=Status.OK, what=what)


def _ledger_problem(quota: Object, now: datetime) -> str:
    """Why a quota does not work, as its conditions say; empty if it does, or is new."""
    conditions = {each.get("type"): each for each in mappings_at(quota, ("status", "conditions"))}
    ready, enforced = conditions.get("Ready"), conditions.get("Enforced")
    if ready is None:
        return "" if _is_new(lookup(quota, ("metadata", "creationTimestamp")), now) else "no leader has counted it"
    if ready.get("status") == "False":
        return shorten(f"not counted: {ready.get('message')}".rstrip("."))
    if enforced is not None and enforced.get("status") == "Unknown":
        late = not _is_new(enforced.get("lastTransitionTime"), now)
        return shorten(f"not enforced yet: {enforced.get('message')}".rstrip(".")) if late else ""
    return ""


def template_checks(facts: InstallationFacts) -> Iterator[Check]:
    """Whether pods wait for missing templates, and unused templates are deleted."""
    if isinstance(facts.templates, Unread):
        yield unread_check("templates", "it is unknown whether templates are missing or left over", facts.templates)
        return
    stored = {(namespace_of(each), name_of(each)) for each in facts.templates}
    good = True
    if isinstance(facts.waiting_pods, Unread):
        good = False
        yield unread_check("templates", "it is unknown whether pods wait for templates", facts.waiting_pods)
    else:
        waiting = [pod for pod in facts.waiting_pods if _waits(pod, stored, facts.now)]
        if waiting:
            good = False
            yield Check(
                name="templates",
                status=Status.FAILING,
                what=f"{format_count(len(waiting), 'pod')} {inflect('waits', len(waiting))} for a ResourceClaimTemplate that does "
                f"not exist: {format_list([f'{namespace_of(pod)}/{name_of(pod)}' for pod in waiting], _MOST)}",
                why="the leader creates it within half a minute, unless no replica leads or the API server refuses it",
                remedy=f"kubectl -n {NAMESPACE} logs -l app.kubernetes.io/name={NAMESPACE} --tail=200 has the reason; {_UPKEEP}",
            )
    unused = [each for each in facts.templates if is_ours(each) and _marked_since(each) is not None]
    left = [each for each in unused if (since := _marked_since(each)) and facts.now - since > _SWEPT]
    if left:
        yield Check(
            name="templates",
            status=Status.WARNING,
            what=f"{format_count(len(left), 'template')} that no pod needs {inflect('is', len(left))} not deleted: "
            f"{format_list([f'{namespace_of(each)}/{name_of(each)}' for each in left], _MOST)}",
            why="the leader deletes them after an hour",
            remedy=_UPKEEP,
        )
    elif good:
        what = f"{format_count(len(facts.templates), 'template')}, of which no pod needs {len(unused):,}"
        yield Check(name="templates", status=Status.OK, what=what if facts.templates else "no templates")


def _waits(pod: Object, stored: set[tuple[str, str]], now: datetime) -> bool:
    names = {name for name in references(pod) if is_our_name(name)}
    return (
        not has_ended(pod)
        and not lookup(pod, ("spec", "nodeName"))
        and lookup(pod, ("metadata", "deletionTimestamp")) is None
        and not _is_new(lookup(pod, ("metadata", "creationTimestamp")), now)
        and any((namespace_of(pod), name) not in stored for name in names)
    )


def _marked_since(template: Object) -> datetime | None:
    return _moment(lookup(template, ("metadata", "annotations", UNUSED_SINCE)))


def _is_new(text: Any, now: datetime) -> bool:
    moment = _moment(text)
    return moment is not None and now - moment < _SETTLED


def _moment(text: Any) -> datetime | None:
    """A time with a zone; None for anything else."""
    try:
        moment = datetime.fromisoformat(text)
    except (TypeError, ValueError):
        return None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
