"""The pods and claims by which quotas are counted, from the caches or by quorum."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
from dataclasses import dataclass, field, replace
from operator import is_
from typing import TYPE_CHECKING, Any

from policies.devices.pod_groups import POD_GROUP, pod_group, pod_group_name
from policies.kubernetes.objects import lookup, with_conditions
from policies.kubernetes.view import UNKNOWN
from policies.quota.counter import Counter
from policies.quota.ledger.allowances import has_allowance
from policies.quota.ledger.gpu_hours import GPUHours
from policies.quota.ledger.ledger import Ledger
from policies.quota.ledger.open_charges import ALLOWANCE
from policies.quota.ledger.recount import Snapshot, ready_condition, recount, says_that_all_have_seen
from policies.quota.ledger.status import Versions
from policies.quota.limits.quota import parse_quota
from policies.rules.charges import OWN
from webhook.cluster.answers import APIError, BadAnswer, Silent, status_error
from webhook.cluster.clockwork import rfc3339
from webhook.cluster.lists import PAGE, get_if_exists, raw_pages
from webhook.cluster.live import generation_of
from webhook.cluster.resources import RESOURCES
from webhook.cluster.store import SENDS_NOTHING, is_older
from webhook.cluster.trimmed import trim_for
from webhook.cluster.watched_kinds import watched_kinds

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
    from datetime import datetime

    from policies.kubernetes.objects import Object
    from policies.kubernetes.view import ClusterView
    from policies.quota.counter import Terms
    from policies.quota.ledger.open_charges import OpenCharge
    from policies.quota.limits.quota import Quota
    from webhook.cluster.client import APIClient
    from webhook.cluster.store import Store
    from webhook.cluster.watched_kinds import Watched
    from webhook.ledger import LedgerKey


_logger = logging.getLogger("gpu_admission.controllers")

_HELD_SECONDS = 90.0
"""For how long a list is used while the cache is older; API servers send bookmarks about once a minute."""
_HISTORY_SECONDS = 2
"""For how long the deletions before the caches' lists are read; the API server sends what it has at once."""
_COUNTED = {each.kind: each for each in watched_kinds(()) if each.kind in ("Pod", "ResourceClaim")}
_MEASURED_BY = ("Node", "DeviceClass", "ResourceSlice")


@dataclass(frozen=True, slots=True)
class Listed:
    """The objects of one kind in some namespaces."""

    objects: Sequence[Object]
    version: str
    """The resourceVersion of the newest list; empty for a kind that the API server does not serve."""
    oldest: str = ""
    """That of the oldest list; empty if it is one list. It may lack objects whose charges newer counts have closed."""

    def shows_the_same(self, other: Listed) -> bool:
        """True if both have the identical objects."""
        return len(self.objects) == len(other.objects) and all(map(is_, self.objects, other.objects))


@dataclass(frozen=True, slots=True)
class Both:
    """The pods and the claims of a quota, possibly of different moments."""

    pods: Listed
    claims: Listed

    def shows_the_same(self, other: Both) -> bool:
        """True if both have the identical objects."""
        return self.pods.shows_the_same(other.pods) and self.claims.shows_the_same(other.claims)

    def versions(self, counted: Versions | None) -> tuple[str, str]:
        """The resourceVersions of the lists; for a kind that is not served, the one counted last."""
        return self.pods.version, self.claims.version or ("1" if counted is None else counted.claims)

    def reach(self, counted: Versions | None) -> bool:
        """True if none of the lists is older than those that were counted."""
        if counted is None:
            return True
        oldest = Versions.of(self.pods.oldest or counted.pods, self.claims.oldest or counted.claims)
        return oldest is not None and oldest.reach(counted)


@dataclass(eq=False)
class Lists:
    """Provides the lists of the namespaces of a quota."""

    client: APIClient
    view: ClusterView
    stores: Callable[[], Mapping[str, Store]]
    """Returns the caches by kind."""
    clock: Callable[[], float]
    """Returns monotonic seconds."""
    _held: dict[LedgerKey, tuple[float, Sequence[str], Both]] = field(default_factory=dict, init=False)

    def forget(self, key: LedgerKey | None = None) -> None:
        """Drop the held lists of a quota, or of all."""
        if key is None:
            self._held = {}
        else:
            self._held.pop(key, None)

    def versions(self) -> dict[str, str]:
        """The resourceVersions of the caches, as annotations of the leader's Lease."""
        stores = self.stores()
        return {_annotation(each): stores[kind].resource_version for kind, each in _COUNTED.items()}

    async def note_deletions(self, since: Mapping[str, str]) -> dict[str, str]:
        """Record the deletions between the last leader's last count and the lists of the caches.

        Otherwise the charge of an object that was created and deleted meanwhile would count for two minutes.

        Args:
            since: What `versions` returned to that leader.

        Returns:
            The versions after which every deletion is known: those, or where they are unknown, those of the lists.

        Raises:
            Unreachable: The API server did not answer.
        """
        known = {}
        for kind, watched in _COUNTED.items():
            store, version = self.stores()[kind], since.get(_annotation(watched), "")
            if is_older(version, store.listed_version) and not await self._read_deletions(watched, store, version):
                version = ""
            known[_annotation(watched)] = version or store.listed_version
        return known

    async def _read_deletions(self, watched: Watched, store: Store, version: str) -> bool:
        """Record the deletions from a version to the list of a cache; False if the history is gone."""
        query = {**watched.query, "resourceVersion": version, "timeoutSeconds": str(_HISTORY_SECONDS)}
        until, gone = store.listed_version, store.gone
        try:
            events = self.client.watch(watched.path, query, read_timeout=2.0 * _HISTORY_SECONDS)
            async with contextlib.aclosing(events):
                async for event in events:
                    item = event.get("object") or {}
                    if event.get("type") == "ERROR":
                        raise status_error(item)
                    if gone is not None and event.get("type") == "DELETED" and store.trim(item) is not None:
                        gone.add([item], [])
                    if not is_older(lookup(item, ("metadata", "resourceVersion")) or "", until):
                        break
        except (APIError, BadAnswer, Silent) as error:
            # Charges of what was deleted meanwhile expire.
            _logger.warning("deletions of %s since the last count are unknown: %s", watched.resource.plural, error)
            return False
        return True

    def unknown(self, namespaces: Iterable[str]) -> str:
        """The reason why nothing can be counted now, without a full stop; empty if it can."""
        missing = [kind for each in namespaces for kind in _COUNTED if self.view.list(kind, each) is UNKNOWN]
        missing += [kind for kind in _MEASURED_BY if self.view.list(kind) is UNKNOWN]
        if not missing:
            return ""
        store = self.stores().get(missing[0])
        because = "" if store is None else f": {store.reason or SENDS_NOTHING}"
        return f"{missing[0]}s are unknown{because}"

    def gone(self, charges: Iterable[OpenCharge]) -> frozenset[str]:
        """The UIDs of those charges whose objects the caches have seen deleted."""
        seen = [store.gone for store in self.stores().values() if store.gone is not None]
        return frozenset(charge.uid for charge in charges if any(charge.uid in gone for gone in seen))

    def now(self, key: LedgerKey, namespaces: Sequence[str]) -> Both:
        """The lists of the caches, or those read last if they are newer."""
        cached = Both(self._cached_list("Pod", namespaces), self._cached_list("ResourceClaim", namespaces))
        since, read, held = self._held.get(key, (0.0, namespaces, cached))
        if held is not cached and read == namespaces and self.clock() < since + _HELD_SECONDS:
            both = Both(_newer(held.pods, cached.pods), _newer(held.claims, cached.claims))
            if both.pods is held.pods or both.claims is held.claims:
                return both
        self._held.pop(key, None)
        return cached

    async def by_quorum(self, key: LedgerKey, namespaces: Sequence[str]) -> Both:
        """The newest lists, by quorum.

        Raises:
            ClusterError: The API server did not answer, or stopped within a list.
        """
        both = Both(await self._read("Pod", namespaces), await self._read("ResourceClaim", namespaces))
        self._held[key] = self.clock(), namespaces, both
        return both

    def _cached_list(self, kind: str, namespaces: Sequence[str]) -> Listed:
        store = self.stores()[kind]
        if len(namespaces) == 1:
            return Listed(store.list(namespaces[0]), store.resource_version)
        return Listed([found for each in namespaces for found in store.list(each)], store.resource_version)

    async def _read(self, kind: str, namespaces: Sequence[str]) -> Listed:
        store = self.stores()[kind]
        if store.state == "absent":
            return Listed((), "")
        each, version = _COUNTED[kind], "" if namespaces else store.resource_version
        oldest = ""
        objects: list[Object] = []
        trim = trim_for(each.resource)
        for namespace in namespaces:
            async for page in raw_pages(self.client, each.resource, namespace, each.query, limit=PAGE):
                objects += (kept for item in page.items if (kept := trim(item)) is not None)
            oldest = oldest or page.resource_version
            if not version or is_older(version, page.resource_version):
                version = page.resource_version
        return Listed(objects, version, oldest)


def _annotation(watched: Watched) -> str:
    return f"gpu-admission.io/counted-{watched.resource.plural}"


def _newer(held: Listed, cached: Listed) -> Listed:
    return held if is_older(cached.version, held.version) else cached


@dataclass
class Count:
    """One count of a quota; may run several times on newer ledgers, and the last run counts."""

    key: LedgerKey
    namespaces: Sequence[str]
    """The namespaces of a group; empty for the GPUQuota of a namespace."""
    based_on: Ledger
    """The ledger for which the namespaces and conditions were decided."""
    both: Both
    terms: Terms
    kept: Kept
    """The state after the last count."""
    conditions: Sequence[Object]
    """The conditions other than Ready."""
    now: datetime
    """In UTC."""
    gone: Callable[[Iterable[OpenCharge]], Collection[str]]
    """Returns the UIDs of those charges whose objects were created and deleted."""
    foreign: Versions | None = None
    """Versions newer than later lists by quorum: they are not from this API server's history, so the ledger that has
    them is not valid."""
    allowances: Sequence[OpenCharge] = ()
    """The allowances to drop with this count, unless their replicas have written them again."""

    began_anew: bool = field(default=False, init=False)
    """True if such versions were found, now or before."""
    is_behind: bool = field(default=False, init=False)
    """True if the stored object is another one than that of this count, or has other limits or namespaces."""
    outdated: bool = field(default=False, init=False)
    """True if the stored ledger has newer lists, or their versions cannot be compared."""
    ledger: Ledger = field(init=False)
    """The result, or the old ledger if there is none."""
    uids: frozenset[str] = field(default=frozenset(), init=False)
    """The UIDs of the counted objects."""
    uncharged: tuple[str, ...] = field(default=(), init=False)
    """The names of new objects without a charge."""
    hours_before: GPUHours | None = field(default=None, init=False)
    """The GPU hours of the ledger; None if it never held GPUs."""
    hours: GPUHours | None = field(default=None, init=False)
    """Those of the result."""

    def make(self, ledger: Ledger, quota: Quota, document: Object) -> Ledger:
        """The counted ledger; the same object if nothing needs to be written.

        Args:
            ledger: The ledger of the GPUQuota.
            quota: Its spec.
            document: The GPUQuota.
        """
        self.ledger, self.uncharged, self.outdated = ledger, (), False
        is_other = not self.kept.is_of(document) or quota.limits != self.terms.quota.limits
        # Another leader has seen namespaces join or leave that this one's caches did not show.
        self.is_behind = is_other or _membership(ledger) != _membership(self.based_on)
        if self.is_behind:
            return ledger
        snapshot = self._snapshot(ledger)
        after = recount(ledger, quota, snapshot) if self.both.reach(ledger.counted) else None
        is_foreign = after is None and self.foreign is not None and ledger.counted == self.foreign
        if is_foreign:
            after = recount(replace(ledger, counted=None), quota, snapshot)
        if after is None:
            self.outdated = True
            return ledger
        self.began_anew = is_foreign or self.began_anew or self.kept.began_anew
        self._note(snapshot, ledger)
        after = replace(without_charges(self.allowances, after), namespaces=tuple(self.namespaces))
        if left := {*ledger.namespaces}.difference(self.namespaces):
            # What is charged there counts in the group that these have now, which every replica has seen. Other namespaces
            # may be on their way into this group, as replicas have seen before the leader.
            charges = [each for each in after.reservations if object_namespace(self.key, each) in left]
            after = without_charges(charges, after)
        ready = ready_condition(after, quota, guesses_memory=self.terms.guesses_memory, began_anew=self.began_anew)
        wanted = ready, *self.conditions
        conditions = with_conditions(after.conditions, wanted, generation_of(document), rfc3339(self.now))
        after = self.ledger = replace(after, conditions=tuple(conditions))
        is_observed = lookup(document, ("status", "observedGeneration")) == generation_of(document)
        is_same = after.holds_the_same(ledger) and after.conditions == ledger.conditions
        gpus, self.hours_before = self.kept.counter.gpus(), GPUHours.of_text(ledger.hours)
        begun = self.hours_before or (GPUHours(self.now.replace(microsecond=0), {}) if gpus else None)
        self.hours = None if begun is None else begun.with_count(gpus, self.now, self.kept.counted_at)
        if is_observed and is_same and not is_foreign and not self._must_write_hours:
            return ledger
        after = self.ledger = replace(after, hours="" if self.hours is None else self.hours.text)
        return after

    @property
    def _must_write_hours(self) -> bool:
        """True if the GPUs by kind have changed since they were written, or that was long ago."""
        if self.hours is None or self.hours_before is None:
            return self.hours is not self.hours_before
        return self.hours.now != self.hours_before.now or self.hours_before.is_due(self.now)

    def _snapshot(self, ledger: Ledger) -> Snapshot:
        charged = {
            (each.uid, object_name(self.key, each)): each.of for each in ledger.reservations if each.of is not None
        }
        pods, claims = self.kept.counter.count(
            self.both.pods.objects, self.both.claims.objects, self.terms, charged=charged
        )
        gone = self.gone(ledger.reservations)
        shares = self.kept.counter.shares((charge.uid for charge in ledger.reservations), self.terms.view)
        if not self.key.namespace:
            homes = {charge.uid: object_namespace(self.key, charge) for charge in ledger.reservations}
            shares = {uid: replace(each, name=f"{homes[uid]}/{each.name}") for uid, each in shares.items()}
        return Snapshot(pods, claims, *self.both.versions(ledger.counted), gone, shares)

    def _note(self, snapshot: Snapshot, before: Ledger) -> None:
        """Record the counted objects, and those without a charge."""
        seen = {**snapshot.pods, **snapshot.claims}
        self.uids = frozenset(seen)
        if self.kept.known is None:
            return
        new = [
            each for uid, each in seen.items() if uid not in self.kept.known and before.reservations.get(uid) is None
        ]
        if has_allowance(before):
            # A replica may have admitted them, and writes their charges in a moment.
            self.uids = self.uids.difference(each.uid for each in new)
        elif before.namespaces == tuple(self.namespaces):  # what a namespace that joins has was not charged here
            self.uncharged = tuple(f"{each.kind} {each.name}" for each in new if any(each.amounts.values()))


def _membership(ledger: Ledger) -> tuple[tuple[str, ...], bool]:
    return ledger.namespaces, bool(ledger.namespaces) and says_that_all_have_seen(ledger.conditions)


def object_namespace(key: LedgerKey, charge: OpenCharge) -> str:
    """The namespace of a charged object, with which names in a group begin; empty for an allowance."""
    return key.namespace or ("" if charge.kind == ALLOWANCE else charge.name.partition("/")[0])


def object_name(key: LedgerKey, charge: OpenCharge) -> str:
    """The name of a charged object, without the namespace that it has in the ledger of a group."""
    return charge.name if key.namespace else charge.name.partition("/")[2]


def without_charges(charges: Iterable[OpenCharge], ledger: Ledger) -> Ledger:
    """The ledger without these charges, except those that were charged again since."""
    for charge in charges:
        found = ledger.reservations.get(charge.uid)
        if found is not None and found.time == charge.time:
            ledger = ledger.release(charge.uid)
    return ledger


@dataclass(frozen=True)
class Basis:
    """The input of a count; while it is the same, the count is not repeated."""

    document: Object
    both: Both
    gone: frozenset[str]
    """The UIDs of charges whose objects were created and deleted."""
    namespaces: Sequence[str]
    """The namespaces that are counted."""
    groups: Sequence[Object]
    """Their PodGroups."""
    facts: tuple[Any, ...]
    conditions: Sequence[Object]

    def is_like(self, other: Basis | None) -> bool:
        """True if a count has the same result with both."""
        return (
            other is not None
            and self.document is other.document
            and self.both.shows_the_same(other.both)
            and self.gone == other.gone
            and self.namespaces == other.namespaces
            and self.groups == other.groups
            and self.conditions == other.conditions
            and self.facts == other.facts
        )


@dataclass
class Kept:
    """The state of a quota between two rounds."""

    uid: str
    counted_at: datetime
    """When a leader last found that the stored ledger counts what there is."""
    spec: tuple[Object, Quota] | None = None
    """The last parsed object, and its quota."""
    counter: Counter = field(default_factory=Counter)
    awaited: Mapping[str, str] = field(default_factory=dict)
    """The resourceVersions by kind that replicas may not have seen; empty once all have."""
    members: tuple[str, ...] | None = None
    """The namespaces of a group, as this leader saw them last; None before, and while its ClusterGPUQuota cannot be read."""
    known: frozenset[str] | None = None
    """The UIDs of the last count; None before the first count of this leader."""
    began_anew: bool = False
    settled: Basis | None = None
    """The input of the last count that had nothing to write."""
    ledger: Ledger = field(default_factory=Ledger)
    """The last counted ledger."""
    hours: GPUHours | None = None
    """Its GPU hours as they are stored."""
    last_close: float = -math.inf
    """When charges were closed by a write that changed nothing else, by the monotonic clock."""
    closable_since: float | None = None
    """Since when charges wait to be closed; None if none does."""

    def is_of(self, document: Object) -> bool:
        """True if this is the state of a GPUQuota, and not of an earlier one of its name."""
        return bool(lookup(document, ("metadata", "uid")) == self.uid)

    def read(self, document: Object) -> Quota:
        """The quota in the object's spec, parsed once.

        Raises:
            QuotaError: The spec is invalid.
        """
        if self.spec is None or self.spec[0] is not document:
            self.spec = document, parse_quota(document)
        return self.spec[1]


_Charge = tuple[str, str]
"""The UID of a charge and its time; a PodGroup is charged again with every pod."""

_UNSEEN_SECONDS = 120.0
"""Longer than it takes to store an admitted object, and to show it in a watch."""
_ALLOWANCE_SECONDS = 60.0
"""Longer than a replica uses an allowance (20 s) and an API server stores what was admitted out of it (34 s)."""
_MOST_LOOKUPS = 32
"""Per round; the others follow in the next round."""


@dataclass(eq=False)
class Expiry:
    """Records how long this leader has not seen the objects of charges.

    The time written in a charge does not matter: clocks differ, and a new leader has seen no objects yet.
    """

    client: APIClient
    view: ClusterView
    clock: Callable[[], float]
    """Returns monotonic seconds."""
    _since: dict[LedgerKey, dict[_Charge, float]] = field(default_factory=dict, init=False)

    def forget(self, key: LedgerKey | None = None) -> None:
        """Start again, in a ledger or everywhere."""
        if key is None:
            self._since = {}
        else:
            self._since.pop(key, None)

    async def gone(
        self, key: LedgerKey, namespaces: Collection[str], charges: Iterable[OpenCharge]
    ) -> list[OpenCharge]:
        """The charges of a ledger without an object that needs them.

        The object does not exist, is a pod without GPUs, a PodGroup without a pod that waits for its claims, or is in a
        namespace that has left the group.

        Args:
            key: Of the ledger.
            namespaces: Those that it counts.
            charges: All charges that remain after a count.

        Raises:
            ClusterError: The API server did not answer.
        """
        now, before = self.clock(), self._since.get(key, {})
        unseen = {
            (charge.uid, charge.time): charge for charge in charges if OWN in charge.pieces or charge.kind != "Pod"
        }
        since = self._since[key] = {charge: before.get(charge, now) for charge in unseen}
        limits = {
            charge: _ALLOWANCE_SECONDS if each.kind == ALLOWANCE else _UNSEEN_SECONDS for charge, each in unseen.items()
        }
        due = [unseen[charge] for charge, moment in since.items() if now >= moment + limits[charge]][:_MOST_LOOKUPS]
        exist = await asyncio.gather(*(self._exists(key, namespaces, charge) for charge in due))
        since.update({(charge.uid, charge.time): now for charge, exists in zip(due, exist, strict=True) if exists})
        return [charge for charge, exists in zip(due, exist, strict=True) if not exists]

    async def _exists(self, key: LedgerKey, namespaces: Collection[str], charge: OpenCharge) -> bool:
        if charge.kind == ALLOWANCE:
            return False  # its replica writes it again every few seconds
        namespace, name = object_namespace(key, charge), object_name(key, charge)
        if not name or namespace not in namespaces:
            return False  # a forged charge, or one by a replica that did not know yet that the namespace had left
        if charge.kind == POD_GROUP:
            return self._is_awaited(namespace, name, charge.uid)
        resource = RESOURCES["Pod" if charge.kind == "Pod" else "ResourceClaim"]
        try:
            path = resource.path(namespace, name)
        except ValueError:
            return False  # a forged charge: no object can have this name
        found: Object | None = await get_if_exists(self.client, path)
        # An object that caches drop is never counted, so a forged charge for it would stay as long as the object.
        is_counted = found is not None and trim_for(resource)(found) is not None
        return is_counted and bool(lookup(found, ("metadata", "uid")) == charge.uid)

    def _is_awaited(self, namespace: str, name: str, uid: str) -> bool:
        """True if a PodGroup has a pod, so that a claim may still be created for it.

        The caches suffice: after two minutes they show every stored pod, and a later claim is charged itself. While
        PodGroups are unknown, a group of the same name counts.
        """
        for pod in self.view.known_objects("Pod", namespace):
            group = pod_group(pod, namespace, self.view)
            if pod_group_name(pod) == name if group is UNKNOWN else group is not None and group.uid == uid:
                return True
        return False
