"""The presence of replicas: what each has seen of quotas and namespaces, in a Lease.

A replica charges the GPUQuota that its cache shows, and the group that its caches of Namespaces and ClusterGPUQuotas show.
While they show none for a namespace, it asks the API server only if they may be behind. So a new GPUQuota, or a namespace
that joins a group, is limited once every replica has seen it, and the leader must know when that is. Each replica keeps a
Lease with the resourceVersions up to which it has seen each kind. Three rules make the leader's answer certain:

- A replica trusts its caches only while its Lease was renewed less than `trusted` seconds ago.
- The leader waits for a replica until its Lease has not changed for `expired` seconds, which is longer. So a replica that the
  leader does not wait for reads quotas from the API server.
- After a Lease was created, or was not renewed for too long, the replica first compares each cache with a list from the API
  server: the leader may have decided without it.

The Lease also names the kinds of which the replica has heard nothing for too long. A leader whose own caches are silent finds
there whether another replica is better off.

Clocks must run at the same speed within a few percent; the time of day does not matter.
"""

from __future__ import annotations

import logging
import math
import secrets
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from policies.kubernetes.objects import lookup, name_of
from policies.quota.ledger.recount import awaits_replicas
from policies.quota.limits.cluster_quota import CLUSTER_QUOTA
from policies.quota.limits.quota import GROUP
from webhook.cluster.answers import APIError, ClusterError
from webhook.cluster.client import MERGE_PATCH
from webhook.cluster.clockwork import Clockwork, micro_time
from webhook.cluster.leases import LEASE, REPLICA_LABELS, REPLICA_QUERY, holder_of, version_of
from webhook.cluster.lists import list_all
from webhook.cluster.resources import RESOURCES
from webhook.cluster.store import is_older

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from typing import NoReturn

    from policies.kubernetes.objects import Object
    from webhook.cluster.client import APIClient
    from webhook.cluster.store import Store


_LEDGERS = ("GPUQuota", GROUP)
_SEEN = {
    "GPUQuota": "gpu-admission.io/quotas-seen",
    CLUSTER_QUOTA: "gpu-admission.io/cluster-quotas-seen",
    GROUP: "gpu-admission.io/quota-groups-seen",
    "Namespace": "gpu-admission.io/namespaces-seen",
}
"""By kind, the annotation of a Lease with the resourceVersion that the replica has seen."""
_SILENT = "gpu-admission.io/silent-kinds"
_CALL_SECONDS = 5.0

_logger = logging.getLogger("gpu_admission.presence")


@dataclass(frozen=True, slots=True)
class PresenceTiming:
    """Durations in seconds."""

    renew: float = 10.0
    """Between two renewals, if the caches do not change."""
    look: float = 0.25
    """Between two looks at the caches, for changes that the leader waits for."""
    retry: float = 1.0
    """Between two renewals while a cache is not trusted."""
    trusted: float = 20.0
    """A replica trusts its caches for this long after it began its last renewal."""
    expired: float = 30.0
    """The leader waits for a replica until its Lease was the same for this long."""
    forgotten: float = 600.0
    """The leader deletes a Lease that was the same for this long."""

    def __post_init__(self) -> None:
        if not 0 < self.look <= self.retry <= self.renew < self.trusted < self.expired < self.forgotten:
            raise ValueError(f"must be 0 < look <= retry <= renew < trusted < expired < forgotten, and is {self}")


class _Compared(NamedTuple):
    """A cache that showed what the API server had listed."""

    store: Store
    state: str
    """Of the cache then. A kind that is served, or no longer served, is compared again."""


@dataclass(eq=False)
class Presence:
    """Keeps the Lease of this replica, and says whether its caches can be trusted."""

    client: APIClient
    """Reads quotas and namespaces, and writes the Lease."""
    namespace: str
    """The namespace of the Lease."""
    identity: str
    """Names this replica in the Lease."""
    stores: Callable[[], Mapping[str, Store]]
    """Returns the caches by kind; some are missing while there are none."""
    annotations: Callable[[], Mapping[str, str]] = dict
    """Returns more annotations of the Lease; called at each renewal."""
    silent_kinds: Callable[[], Iterable[str]] = tuple
    """Returns the kinds of which the caches have heard nothing for too long."""
    timing: PresenceTiming = field(default_factory=PresenceTiming)
    """Durations."""
    clockwork: Clockwork = field(default_factory=Clockwork)
    """Time."""
    _name: str = field(default="", init=False)
    """The name of the Lease; empty before it is created, and once it is gone."""
    _until: float = field(default=-math.inf, init=False)
    """Until when the caches are trusted."""
    _compared: dict[str, _Compared] = field(default_factory=dict, init=False)
    """The kinds whose cache agreed with a list that is newer than the Lease."""
    _trouble: str = field(default="", init=False)

    @property
    def is_trusted(self) -> bool:
        """True if the cache shows every GPUQuota of which the leader says that all replicas have seen it."""
        return self._is_compared("GPUQuota") and self.clockwork.clock() < self._until

    @property
    def is_trusted_with_groups(self) -> bool:
        """True if the caches show the same of the group of each namespace, too."""
        return all(map(self._is_compared, _SEEN)) and self.clockwork.clock() < self._until

    async def run(self) -> NoReturn:
        """Renew the Lease until cancelled: now and then, and at changes while the leader waits for replicas."""
        while True:
            began, seen = self.clockwork.clock(), self._versions()
            await self._turn(began)
            pause = self.timing.renew if all(map(self._is_compared, _SEEN)) else self.timing.retry
            while not self._is_awaited(seen) and self.clockwork.clock() < began + pause:
                await self.clockwork.sleep(self.timing.look)

    async def withdraw(self) -> None:
        """Release the Lease, so that the leader does not wait for this replica; it deletes the Lease."""
        name, self._name, self._until = self._name, "", -math.inf
        if not name:
            return
        released = {"spec": {"holderIdentity": ""}}
        try:
            path = LEASE.path(self.namespace, name)
            await self.client.patch(path, released, content_type=MERGE_PATCH, timeout=_CALL_SECONDS)
        except ClusterError as error:
            _logger.warning("cannot release the Lease of this replica, so it expires later: %s", error)

    async def _turn(self, began: float) -> None:
        trouble = ""
        try:
            if await self._renew(began):
                for kind in _SEEN:
                    if not self._is_compared(kind):
                        await self._compare(kind)
        except ClusterError as error:
            trouble = str(error)
        if trouble and trouble != self._trouble:
            _logger.warning("quotas are read live, because the Lease of this replica is not kept: %s", trouble)
        self._trouble = trouble

    async def _renew(self, began: float) -> bool:
        """Write the Lease; False if it was deleted meanwhile."""
        if began >= self._until:
            self._compared = {}
        if not self._name:
            name = f"gpu-admission-{secrets.token_hex(5)}"
            lease = self._state()
            lease["metadata"] |= {"name": name, "namespace": self.namespace, "labels": REPLICA_LABELS}
            await self.client.post(LEASE.path(self.namespace), lease, timeout=_CALL_SECONDS)
            self._name = name
        else:
            path = LEASE.path(self.namespace, self._name)
            try:
                await self.client.patch(path, self._state(), content_type=MERGE_PATCH, timeout=_CALL_SECONDS)
            except APIError as error:
                if not error.is_not_found:
                    raise
                self._name, self._until = "", -math.inf
                return False
        self._until = began + self.timing.trusted
        return True

    async def _compare(self, kind: str) -> None:
        """Note whether the cache of a kind shows what the API server lists."""
        stores = self.stores()
        if (store := stores.get(kind)) is None:
            return
        has_no_groups = self._is_compared(CLUSTER_QUOTA) and not len(stores[CLUSTER_QUOTA])
        if has_no_groups and kind in (GROUP, "Namespace"):
            is_shown = True  # the leader has said nothing about groups, and waits for this replica from now on
        else:
            try:
                stored = await list_all(self.client, RESOURCES[kind])
            except APIError as error:
                if not error.is_not_found:
                    raise
                is_shown = store.state == "absent"
            else:
                is_shown = store.state != "absent" and _shows(store, stored, only_new=kind == "GPUQuota")
        if is_shown:
            self._compared[kind] = _Compared(store, store.state)

    def _is_compared(self, kind: str) -> bool:
        found = self._compared.get(kind)
        return found is not None and (found.store.state == "absent") is (found.state == "absent")

    def _state(self) -> Object:
        """The fields of the Lease that each renewal writes."""
        spec = {
            "holderIdentity": self.identity,
            "leaseDurationSeconds": round(self.timing.expired),
            "renewTime": micro_time(self.clockwork.now()),
        }
        seen = {_SEEN[kind]: version for kind, version in self._versions().items()}
        metadata = {"annotations": {**self.annotations(), **seen, _SILENT: ",".join(sorted(self.silent_kinds()))}}
        return {"apiVersion": LEASE.api_version, "kind": LEASE.kind, "metadata": metadata, "spec": spec}

    def _is_awaited(self, seen: Mapping[str, str]) -> bool:
        """True if the caches have seen more, and replicas may not have seen some quota or group."""
        if seen == self._versions():
            return False
        stores = self.stores()
        return any(stores[kind].counts(awaits_replicas).get(True, 0) > 0 for kind in _LEDGERS if kind in stores)

    def _versions(self) -> Mapping[str, str]:
        """By kind, the resourceVersion that its cache has reached; empty while it has no objects."""
        stores = self.stores()
        return {kind: stores[kind].resource_version if kind in stores else "" for kind in _SEEN}


class _LeaseState(NamedTuple):
    """A Lease, and when the leader first saw it in this version."""

    lease: Object
    since: float
    is_renewed: bool = False
    """True if the leader saw an earlier version a moment before."""


@dataclass(eq=False)
class Presences:
    """The leader's knowledge of what replicas have seen."""

    client: APIClient
    namespace: str
    timing: PresenceTiming = field(default_factory=PresenceTiming)
    clock: Callable[[], float] = time.monotonic
    _present: dict[str, _LeaseState] = field(default_factory=dict, init=False)
    """By name, the Leases that the leader waits for; one that vanished counts until it would have expired."""
    _listed: set[str] = field(default_factory=set, init=False)
    """The names of the Leases of the last look."""
    _trouble: str = field(default="the leader has just begun", init=False)
    _looked: float = field(default=-math.inf, init=False)

    @property
    def is_due(self) -> bool:
        """True if `look` was not called for so long that Leases of stopped replicas may pile up."""
        return self.clock() >= self._looked + self.timing.forgotten / 2

    async def look(self) -> None:
        """Read the Leases of all replicas, and delete those that were released, or not renewed for long."""
        before, self._looked = self._looked, self.clock()
        try:
            leases = await list_all(self.client, LEASE, self.namespace, REPLICA_QUERY)
            now = self.clock()
            names = {name_of(each) for each in leases}
            for lease in leases:
                seen = self._present.get(name_of(lease))
                if holder_of(lease) and (seen is None or version_of(seen.lease) != version_of(lease)):
                    is_renewed = seen is not None and now - before < self.timing.expired
                    self._present[name_of(lease)] = _LeaseState(lease, now, is_renewed)
            # Leases that are gone since the last look may have been renewed a moment ago.
            gone = (self._listed - names) & self._present.keys()
            self._present |= {name: _LeaseState(self._present[name].lease, now) for name in gone}
            self._listed = names
            for lease in leases:
                seen = self._present.get(name_of(lease))
                if not holder_of(lease) or (seen is not None and now - seen.since >= self.timing.forgotten):
                    await self._delete(lease)
        except ClusterError as error:
            self._trouble = f"the Leases of the replicas cannot be read: {error}"
            return
        released = {name_of(each) for each in leases if not holder_of(each)}
        self._present = {
            name: seen
            for name, seen in self._present.items()
            if name not in released and now - seen.since < self.timing.forgotten
        }
        self._trouble = ""

    def why_unseen(self, versions: Mapping[str, str]) -> str:
        """A clause why replicas may not have seen kinds up to these versions; empty if all have.

        The versions must have been known before the last look: a replica whose Lease it did not show reads them from the API
        server. For what a cache shows, `Store.changed_version` is the version to wait for.
        """
        if self._trouble:
            return self._trouble
        now = self.clock()
        waited_for = (each for each in self._present.values() if now - each.since < self.timing.expired)
        behind = sorted(holder_of(each.lease) for each in waited_for if _is_behind(each.lease, versions))
        return f"{', '.join(behind)} {'have' if len(behind) > 1 else 'has'} not seen it" if behind else ""

    def replica_that_hears(self, kinds: Iterable[str], besides: str) -> str:
        """The identity of a running replica whose caches of some kinds are not silent; empty without one.

        A Lease that was not renewed while the leader looked may be that of a replica that was killed.

        Args:
            kinds: The kinds.
            besides: The identity of this replica.
        """
        now, wanted = self.clock(), set(kinds)
        for seen in self._present.values():
            silent, identity = lookup(seen.lease, ("metadata", "annotations", _SILENT)), holder_of(seen.lease)
            runs = seen.is_renewed and now - seen.since < self.timing.expired
            if runs and identity != besides and isinstance(silent, str) and wanted.isdisjoint(silent.split(",")):
                return identity
        return ""

    async def _delete(self, lease: Object) -> None:
        guard = {"preconditions": {"resourceVersion": lookup(lease, ("metadata", "resourceVersion"))}}
        try:
            await self.client.delete(LEASE.path(self.namespace, name_of(lease)), guard, timeout=_CALL_SECONDS)
        except APIError as error:
            if not (error.is_not_found or error.is_conflict):
                raise


def _is_behind(lease: Object, versions: Mapping[str, str]) -> bool:
    for kind, version in versions.items():
        seen = lookup(lease, ("metadata", "annotations", _SEEN[kind]))
        if not isinstance(seen, str) or not seen or is_older(seen, version):
            return True
    return False


def _shows(store: Store, stored: Sequence[Object], *, only_new: bool) -> bool:
    """True if a cache shows the objects of a list, and all their changes unless only new ones matter."""
    uids, shown = ({lookup(each, ("metadata", "uid")) for each in objects} for objects in (stored, store.list()))
    if only_new:
        return uids <= shown
    # Alike labels do not suffice: they may have changed in between, and the cache still has to show that.
    versions = (str(lookup(each, ("metadata", "resourceVersion"))) for each in stored)
    return uids == shown and not any(is_older(store.resource_version, version) for version in versions)
