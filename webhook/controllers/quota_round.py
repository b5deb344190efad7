"""Counts quotas, by the leader: computes usage from the stored objects, and closes their charges.

Every charge was written before its object was admitted, so a count may be late; only a new limit needs one soon. Counts
are written by the ledger's writer, as charges are, and only if something changes.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING

from policies.admission import warm
from policies.devices.pod_groups import POD_GROUP
from policies.kubernetes.names import PREFIX
from policies.kubernetes.objects import lookup, mapping_at, name_of, namespace_of, with_conditions
from policies.kubernetes.view import UNKNOWN
from policies.quota.counter import Terms
from policies.quota.counting import namespaces_of
from policies.quota.ledger.allowances import has_allowance
from policies.quota.ledger.ledger import Ledger
from policies.quota.ledger.open_charges import ALLOWANCE
from policies.quota.ledger.recount import (
    enforced_condition,
    group_condition,
    not_counted_condition,
    says_that_all_have_seen,
    unreadable_condition,
)
from policies.quota.limits.cluster_quota import CLUSTER_QUOTA, Group, read_tenancy, tenancy
from policies.quota.limits.quota import GROUP, QUOTA_NAME, QuotaError, is_enforced
from policies.rules.settings.exemptions import exemption_in_cluster
from webhook.cluster.answers import APIError, ClusterError
from webhook.cluster.client import MERGE_PATCH
from webhook.cluster.clockwork import Clockwork, rfc3339
from webhook.cluster.lists import get_if_exists, list_all
from webhook.cluster.live import generation_of
from webhook.cluster.resources import RESOURCES
from webhook.controllers.metrics import IncompleteRound
from webhook.controllers.quota_count import Basis, Count, Expiry, Kept, Lists, without_charges
from webhook.ledger import LedgerKey
from webhook.server.template_keeper import FIELD_MANAGER
from webhook.server.turns import run_spread

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from policies.kubernetes.objects import Object
    from policies.kubernetes.view import ClusterView
    from policies.quota.ledger.gpu_hours import GPUHours
    from policies.quota.ledger.open_charges import OpenCharge
    from policies.quota.limits.quota import Quota
    from policies.rules.settings import GPUAdmissionPolicy
    from webhook.cluster.client import APIClient
    from webhook.cluster.store import Store
    from webhook.controllers.metrics import QuotaMetrics
    from webhook.controllers.presence import Presences
    from webhook.ledger import LedgerWriter


_logger = logging.getLogger("gpu_admission.controllers")

_MEMBERSHIP = (GROUP, CLUSTER_QUOTA, "Namespace")
"""The kinds from which the namespaces of a group follow."""
_COUNTED_AT = f"{PREFIX}counted-at"
"""The annotation with the time of the round whose versions are beside it."""
_AT_ONCE = 4
_COUNT_SECONDS = 120.0
_TRIES = 3
"""First with the lists of the caches. If the ledger has newer ones, with lists by quorum. If it has newer ones still, with
lists that were started after that: then the newer versions are not from this API server's history."""
_SHOWN = 5
_CLOSE_SECONDS = 5.0
"""Between two writes of a ledger that only turn open charges into used amounts: no answer depends on them."""
_MANY_CHARGES = 64
"""Open charges beyond which they are closed at once: the API server pays for their length at every write."""


@dataclass(eq=False)
class QuotaRound:
    """Counts every GPUQuota and GPUQuotaGroup of the cluster whose input changed."""

    client: APIClient
    """Talks to the API server."""
    view: ClusterView
    """The cluster."""
    settings: Callable[[], GPUAdmissionPolicy]
    """Returns the administrator's current settings."""
    writer: LedgerWriter
    """Writes ledgers."""
    stores: Callable[[], Mapping[str, Store]]
    """Returns the caches by kind, which know the versions of lists."""
    metrics: QuotaMetrics
    """Exports counts and amounts."""
    presences: Presences
    """Says which replicas have seen a GPUQuota."""
    inherited: Callable[[], Mapping[str, str]] = dict
    """Returns the annotations of the leader's Lease when this replica took it."""
    clockwork: Clockwork = field(default_factory=Clockwork)
    """Time."""
    counted: Mapping[str, str] = field(default_factory=dict, init=False)
    """Annotations of the leader's Lease: the next leader need not know of deletions before these versions, and GPU hours are
    known up to this time. They are those of the last complete round but one, because the cache of GPUQuotas may have shown a
    charge late; before, those from which this leader knows of deletions."""
    _reached: Mapping[str, str] = field(default_factory=dict, init=False)
    """The versions of the last complete round."""
    _lists: Lists = field(init=False)
    _expiry: Expiry = field(init=False)
    _kept: dict[LedgerKey, Kept] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        self._lists = Lists(self.client, self.view, self.stores, self.clockwork.clock)
        self._expiry = Expiry(self.client, self.view, self.clockwork.clock)

    def forget(self) -> None:
        """Forget everything, because another replica leads now."""
        self._kept, self.counted, self._reached = {}, {}, {}
        self._lists.forget()
        self._expiry.forget()
        self.metrics.forget()

    async def round(self) -> None:
        """Count every quota once.

        Raises:
            IncompleteRound: Some could not be counted, or GPUQuotas are unknown.
        """
        listed = self.view.list("GPUQuota")
        if listed is UNKNOWN:
            raise IncompleteRound("GPUQuotas are unknown, so none is counted")
        stored = {LedgerKey.of_namespace(namespace_of(each)): each for each in listed if name_of(each) == QUOTA_NAME}
        knows_groups = all(self.view.list(kind) is not UNKNOWN for kind in _MEMBERSHIP)
        if knows_groups:
            stored |= {LedgerKey.of_group(name_of(each)): each for each in self.view.known_objects(GROUP)}
        if not self.counted:
            inherited = self.inherited()
            self.counted = await self._lists.note_deletions(inherited)
            if _COUNTED_AT in inherited:
                self.counted = {**self.counted, _COUNTED_AT: inherited[_COUNTED_AT]}
        begun = {**self._lists.versions(), _COUNTED_AT: self._time()}
        if stored:
            await run_spread(partial(warm, self.view), _COUNT_SECONDS)
        for key in self._kept.keys() - stored.keys():
            if key.namespace or knows_groups:
                self._forget(key)
        # What replicas must have seen is known before their Leases are read: one that starts later compares its caches.
        kept = {key: self._keep(key, document) for key, document in stored.items()}
        if any(each.awaited for each in kept.values()) or self.presences.is_due:
            await self.presences.look()
        turns = asyncio.Semaphore(_AT_ONCE)
        looks = (self._look_in_turn(turns, key, kept[key], document) for key, document in stored.items())
        results = await asyncio.gather(*looks, return_exceptions=True)
        problems = [(where, each) for where, each in zip(stored, results, strict=True) if each is not None]
        for _, problem in problems:
            if not isinstance(problem, ClusterError | IncompleteRound | QuotaError):
                raise problem
        if problems:
            more = f"; and {len(problems) - 1} more" if len(problems) > 1 else ""
            raise IncompleteRound(f"some quotas could not be counted: {problems[0][0].label}: {problems[0][1]}{more}")
        self.counted, self._reached = self._reached or self.counted, begun

    async def _look_in_turn(self, turns: asyncio.Semaphore, key: LedgerKey, kept: Kept, document: Object) -> None:
        async with turns:
            await self._look(key, kept, document)

    async def _look(self, key: LedgerKey, kept: Kept, document: Object) -> None:
        unseen = self.presences.why_unseen(kept.awaited) if kept.awaited else ""
        if not key.namespace and kept.awaited and not unseen:
            unseen = await self._why_not_left(kept, document)
        is_new = bool(kept.awaited) and not unseen
        namespaces = _counted_namespaces(key, document, kept, all_have_seen=not unseen)
        enforced = self._enforced_condition(key, namespaces, unseen)
        try:
            quota = kept.read(document)
        except QuotaError as error:
            self.metrics.forget(key)
            await self._write_unreadable(key, document, error, enforced)
            return
        if why := self._lists.unknown(namespaces):
            # What replicas missed must be counted before the quota is said to hold.
            conditions = not_counted_condition(why), *(() if is_new else enforced)
            await self._write_not_counted(kept, key, quota, document, conditions)
            return
        terms = Terms(quota, self.view, self.settings().quota)
        # By quorum once all replicas have seen the quota: the caches may lack pods that a replica admitted before.
        reads = kept.known is None or is_new
        both = await self._lists.by_quorum(key, namespaces) if reads else self._lists.now(key, namespaces)
        gone = self._lists.gone(kept.ledger.reservations)
        groups = [each for namespace in namespaces for each in self.view.known_objects(POD_GROUP, namespace)]
        basis = Basis(document, both, gone, namespaces, groups, terms.facts, enforced)
        now = self.clockwork.now()
        is_settled = basis.is_like(kept.settled) and not (kept.hours is not None and kept.hours.is_due(now))
        is_counted = is_settled or await self._count(key, kept, terms, basis)
        if is_counted:
            kept.counted_at = now
        if is_new and is_counted:
            kept.awaited = {}
        await self._expire(key, kept, terms, basis)

    def _keep(self, key: LedgerKey, document: Object) -> Kept:
        """The state between rounds; empty for a new object with the name of an old one."""
        if key in self._kept and not self._kept[key].is_of(document):
            self._forget(key)
        kept = self._kept.get(key)
        if kept is None:
            was_seen = says_that_all_have_seen(Ledger.read(document).conditions)
            awaited = {} if was_seen else {key.kind: str(lookup(document, ("metadata", "resourceVersion")))}
            uid = str(lookup(document, ("metadata", "uid")))
            kept = self._kept[key] = Kept(uid, _time_counted(self.counted), awaited=awaited)
        if not key.namespace:
            self._note_members(kept, document)
        return kept

    def _note_members(self, kept: Kept, document: Object) -> None:
        """Note which namespaces a group has now; replicas must see that before it holds."""
        found = tenancy(self.view)
        is_readable = found is not UNKNOWN and _group(document).quota not in found.unreadable
        members = tuple(namespaces_of(document, self.view)) if is_readable else None
        if members is not None and members == kept.members:
            return
        is_known = kept.members is None and not kept.awaited and members == Ledger.read(document).namespaces
        kept.members = members
        if not is_known:
            stores = self.stores()
            kept.awaited = {kind: stores[kind].changed_version for kind in _MEMBERSHIP}

    async def _why_not_left(self, kept: Kept, document: Object) -> str:
        """A clause why a namespace that seems to leave a group may still be in it; empty if none is.

        A new leader's caches may be older than those by which the last one counted it.
        """
        group = _group(document)
        if kept.members is None:
            return f"ClusterGPUQuota {group.quota} cannot be read"
        leaving = sorted({*Ledger.read(document).namespaces}.difference(kept.members))
        if not leaving:
            return ""
        found = read_tenancy(await list_all(self.client, RESOURCES[CLUSTER_QUOTA]))
        if group.quota in found.unreadable:
            return f"ClusterGPUQuota {group.quota} cannot be read"
        stored = [await get_if_exists(self.client, RESOURCES["Namespace"].path(name=name)) for name in leaving]
        inside = [name_of(each) for each in stored if each is not None and found.group_of(each) == group]
        return f"the leader has not seen all labels of {', '.join(inside)}" if inside else ""

    def _forget(self, key: LedgerKey) -> None:
        self._kept.pop(key, None)
        self._lists.forget(key)
        self._expiry.forget(key)
        self.metrics.forget(key)

    async def _count(
        self, key: LedgerKey, kept: Kept, terms: Terms, basis: Basis, *, allowances: Sequence[OpenCharge] = ()
    ) -> bool:
        """Count, with newer lists if the ledger has newer ones; drops allowances in the same write.

        Returns:
            False if the stored object is another one than the caches show.
        """
        both, foreign, before = basis.both, None, Ledger.read(basis.document, kept.ledger)
        for attempt in range(_TRIES):
            if attempt:
                both = await self._lists.by_quorum(key, basis.namespaces)
            count = Count(
                key,
                basis.namespaces if not key.namespace else (),
                before,
                both,
                terms,
                kept,
                basis.conditions,
                self.clockwork.now(),
                self._lists.gone,
                foreign,
                allowances,
            )
            after = await run_spread(partial(count.make, before, terms.quota, basis.document), _COUNT_SECONDS)
            is_written = after is not before
            hours_due = count.hours_before is not None and count.hours_before.is_due(count.now)
            must_be_soon = bool(allowances) or hours_due or _is_awaited(kept, count, before)
            if is_written and not must_be_soon and self._may_wait(kept, before, after):
                self._take(key, kept, count, count.hours_before)
                # What is kept differs from the stored ledger, so the input of an earlier count must be counted again.
                kept.settled = None
                return True
            if is_written and await self.writer.change(key, count.make) is None:
                self._forget(key)
                return False
            if is_written:
                if count.hours is not None:
                    self.metrics.count_gpu_seconds(key, count.hours.growth(count.hours_before))
                kept.closable_since = None
                kept.last_close = self.clockwork.clock() if _only_closes(before, after) else kept.last_close
            if not count.outdated:
                self._take(key, kept, count, count.hours if is_written else count.hours_before)
                kept.settled = None if is_written else replace(basis, both=both)
                return not count.is_behind
            foreign = count.ledger.counted
        raise IncompleteRound("its status was counted from newer lists than the API server returns")

    def _may_wait(self, kept: Kept, before: Ledger, after: Ledger) -> bool:
        """True if a write would only close charges, and was or will be made with others in a moment.

        The owner of an allowance writes what it was spent on, and these charges can then be closed, too.
        """
        if not _only_closes(before, after):
            return False
        now = self.clockwork.clock()
        if kept.closable_since is None:
            kept.closable_since = now
        since = kept.closable_since if has_allowance(before) else kept.last_close
        return now < since + _CLOSE_SECONDS

    def _take(self, key: LedgerKey, kept: Kept, count: Count, hours: GPUHours | None) -> None:
        """Keep the result of a count, and report uncharged objects."""
        if count.is_behind:
            return
        if count.began_anew and not kept.began_anew:
            _logger.warning(
                "the ledger was counted from newer lists than the API server has; the count started again",
                extra={"fields": {"quota": key.label}},
            )
        kept.known, kept.ledger, kept.began_anew, kept.hours = count.uids, count.ledger, count.began_anew, hours
        self.metrics.show(key, count.terms.quota, count.ledger)
        if count.uncharged and not (key.namespace and self._exempt(key.namespace)):
            self.metrics.count_drift(len(count.uncharged))
            found = ", ".join(count.uncharged[:_SHOWN])
            _logger.warning(
                "%d pods and claims had no charge and count now: %s",
                len(count.uncharged),
                found,
                extra={"fields": {"quota": key.label}},
            )

    async def _expire(self, key: LedgerKey, kept: Kept, terms: Terms, basis: Basis) -> None:
        """Drop charges whose object does not exist, and allowances of replicas that have ended."""
        gone = await self._expiry.gone(key, basis.namespaces, kept.ledger.reservations)
        if not gone:
            return
        allowances = [charge for charge in gone if charge.kind == ALLOWANCE]
        if others := [charge for charge in gone if charge.kind != ALLOWANCE]:
            await self.writer.change(key, lambda ledger, _quota, _document: without_charges(others, ledger))
            self.metrics.count_expired(len(others))
            _logger.info(
                "dropped %d charges whose objects do not exist",
                len(others),
                extra={"fields": {"quota": key.label, "first": f"{others[0].kind} {others[0].name}"}},
            )
        if allowances:
            # What was admitted out of them was stored long ago. It is counted in the same write: otherwise another leader
            # could still count older lists that lack it.
            both = await self._lists.by_quorum(key, basis.namespaces)
            await self._count(key, kept, terms, replace(basis, both=both), allowances=allowances)
            _logger.info(
                "counted what %d allowances of replicas that have ended may have admitted",
                len(allowances),
                extra={"fields": {"quota": key.label, "first": allowances[0].name}},
            )

    async def _write_not_counted(
        self, kept: Kept, key: LedgerKey, quota: Quota, document: Object, conditions: Sequence[Object]
    ) -> None:
        """Write that nothing is counted now; the last count and every charge since stay valid."""
        ledger = Ledger.read(document)
        self.metrics.show(key, quota, ledger)
        make = partial(_with_conditions, kept, conditions, self._time())
        if make(ledger, quota, document) is not ledger:
            await self.writer.change(key, make)

    async def _write_unreadable(
        self, key: LedgerKey, document: Object, error: QuotaError, enforced: Sequence[Object]
    ) -> None:
        """Write that the spec is invalid, and leave the rest of the status as it is."""
        before = Ledger.read(document).conditions
        wanted = (unreadable_condition(error), *enforced)
        conditions = with_conditions(before, wanted, generation_of(document), self._time())
        if conditions == list(before):
            return
        guard = {"resourceVersion": lookup(document, ("metadata", "resourceVersion"))}
        body = {"metadata": guard, "status": {"conditions": conditions}}
        path = key.path("status")
        try:
            await self.client.patch(path, body, FIELD_MANAGER, content_type=MERGE_PATCH)
        except APIError as refusal:
            # If it was deleted or changed since, the next round decides again.
            if not (refusal.is_not_found or refusal.is_conflict):
                raise

    def _enforced_condition(self, key: LedgerKey, namespaces: Sequence[str], unseen: str) -> tuple[Object, ...]:
        """The condition Enforced; empty if a namespace is unknown, which keeps the stored one."""
        if any(self.view.get("Namespace", each) is UNKNOWN for each in namespaces):
            return ()
        exempt = {each: why for each in namespaces if (why := self._exempt(each))}
        if key.namespace:
            is_closed = is_enforced(key.namespace, self.view)
            why = exempt.get(key.namespace, "")
            return (enforced_condition(key.namespace, why, is_enforced=is_closed, unseen=unseen),)
        open_ones = [each for each in namespaces if not is_enforced(each, self.view)]
        return (group_condition(exempt, open_ones, unseen=unseen),)

    def _exempt(self, namespace: str) -> str:
        return exemption_in_cluster("quota", namespace, self.settings())

    def _time(self) -> str:
        return rfc3339(self.clockwork.now())


def _time_counted(annotations: Mapping[str, str]) -> datetime:
    """The time of the last complete round by the leader's Lease; long ago if there is none."""
    try:
        return datetime.fromisoformat(annotations.get(_COUNTED_AT, "")).astimezone(UTC)
    except ValueError:
        return datetime.min.replace(tzinfo=UTC)


def _group(document: Object) -> Group:
    """The group of a GPUQuotaGroup."""
    spec = mapping_at(document, ("spec",))
    return Group(str(spec.get("quota")), str(spec.get("group") or ""))


def _counted_namespaces(key: LedgerKey, document: Object, kept: Kept, *, all_have_seen: bool) -> Sequence[str]:
    """The namespaces that a quota counts.

    Those of a group are its members now and, until all replicas have seen that, those before.
    """
    if key.namespace:
        return [key.namespace]
    members = kept.members or ()
    return members if all_have_seen else tuple(sorted({*members, *Ledger.read(document).namespaces}))


def _is_awaited(kept: Kept, count: Count, before: Ledger) -> bool:
    """True if pods may wait for a count: an object is gone, or a charge may be counted twice."""
    is_freed = kept.known is not None and not kept.known <= count.uids
    return is_freed or any(charge.late for charge in before.reservations)


def _only_closes(before: Ledger, after: Ledger) -> bool:
    """True if a count only turns open charges into used amounts, and there are not many of them."""
    return after.only_closes_charges(before) and before.reservations.places <= _MANY_CHARGES


def _with_conditions(
    kept: Kept, conditions: Sequence[Object], time: str, ledger: Ledger, _quota: Quota, document: Object
) -> Ledger:
    if not kept.is_of(document):
        return ledger
    after = tuple(with_conditions(ledger.conditions, conditions, generation_of(document), time))
    return ledger if after == ledger.conditions else replace(ledger, conditions=after)
