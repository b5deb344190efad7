"""The presence of replicas: what each has seen of GPUQuotas, in a Lease.

A replica that has a GPUQuota in its cache charges to it. While its cache shows none for a namespace, it asks the API server
only if the cache may be behind. So a new GPUQuota holds once every replica has seen it, and the leader must know when that
is. Each replica keeps a Lease with the resourceVersion up to which it has seen GPUQuotas. Three rules make the leader's
answer certain:

- A replica trusts its cache only while its Lease was renewed less than `trusted` seconds ago.
- The leader waits for a replica until its Lease has not changed for `expired` seconds, which is longer. So a replica that the
  leader does not wait for reads GPUQuotas from the API server.
- After a Lease was created, or was not renewed for too long, the replica first compares its cache with a list from the API
  server: the leader may have decided without it.

Clocks must run at the same speed within a few percent; the time of day does not matter.
"""

from __future__ import annotations

import logging
import math
import secrets
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from policies.kubernetes.objects import lookup, name_of
from policies.quota.ledger.recount import awaits_replicas
from webhook.cluster.answers import APIError, ClusterError
from webhook.cluster.client import MERGE_PATCH
from webhook.cluster.clockwork import Clockwork, micro_time
from webhook.cluster.leases import LEASE, REPLICA_LABELS, REPLICA_QUERY, holder_of, version_of
from webhook.cluster.resources import RESOURCES, list_all
from webhook.cluster.store import is_older

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import NoReturn

    from policies.kubernetes.objects import Object
    from webhook.cluster.client import APIClient
    from webhook.cluster.store import Store

__all__ = ["Presence", "PresenceTiming", "Presences"]

_QUOTA = RESOURCES["GPUQuota"]
_SEEN = "gpu-admission.io/quotas-seen"
_CALL_SECONDS = 5.0

_logger = logging.getLogger("gpu_admission.presence")


@dataclass(frozen=True, slots=True)
class PresenceTiming:
    """Durations in seconds."""

    renew: float = 10.0
    """Between two renewals, if the cache of GPUQuotas does not change."""
    look: float = 0.25
    """Between two looks at the cache of GPUQuotas, for changes that the leader waits for."""
    retry: float = 1.0
    """Between two renewals while the cache is not trusted."""
    trusted: float = 20.0
    """A replica trusts its cache for this long after it began its last renewal."""
    expired: float = 30.0
    """The leader waits for a replica until its Lease was the same for this long."""
    forgotten: float = 600.0
    """The leader deletes a Lease that was the same for this long."""

    def __post_init__(self) -> None:
        if not 0 < self.look <= self.retry <= self.renew < self.trusted < self.expired < self.forgotten:
            raise ValueError(f"must be 0 < look <= retry <= renew < trusted < expired < forgotten, and is {self}")


class Presence:
    """Keeps the Lease of this replica, and says whether its cache of GPUQuotas can be trusted."""

    def __init__(
        self,
        client: APIClient,
        namespace: str,
        identity: str,
        store: Callable[[], Store | None],
        *,
        annotations: Callable[[], Mapping[str, str]] = dict,
        timing: PresenceTiming = PresenceTiming(),
        clockwork: Clockwork = Clockwork(),  # noqa: B008 - it is immutable
    ) -> None:
        """Sends no request before `run`.

        Args:
            client: Reads GPUQuotas, and writes the Lease.
            namespace: The namespace of the Lease.
            identity: Names this replica in the Lease.
            store: Returns the cache of GPUQuotas; None while there is none.
            annotations: Returns more annotations of the Lease; called at each renewal.
            timing: Durations.
            clockwork: Time.
        """
        self._client = client
        self._namespace = namespace
        self._identity = identity
        self._store = store
        self._annotations = annotations
        self._timing = timing
        self._clockwork = clockwork
        self._name = ""
        """The name of the Lease; empty before it is created, and once it is gone."""
        self._until = -math.inf
        """Until when the cache is trusted."""
        self._is_compared = False
        """True once the cache had all GPUQuotas of a list that is newer than the Lease."""
        self._trouble = ""

    @property
    def is_trusted(self) -> bool:
        """True if the cache shows every GPUQuota of which the leader says that all replicas have seen it."""
        return self._is_compared and self._clockwork.clock() < self._until

    async def run(self) -> NoReturn:
        """Renew the Lease until cancelled: now and then, and at changes while the leader waits for replicas."""
        while True:
            began, version = self._clockwork.clock(), self._cache_version()
            await self._turn(began)
            pause = self._timing.renew if self._is_compared else self._timing.retry
            while not self._is_awaited(version) and self._clockwork.clock() < began + pause:
                await self._clockwork.sleep(self._timing.look)

    async def withdraw(self) -> None:
        """Release the Lease, so that the leader does not wait for this replica; it deletes the Lease."""
        name, self._name, self._until = self._name, "", -math.inf
        if not name:
            return
        released = {"spec": {"holderIdentity": ""}}
        try:
            path = LEASE.path(self._namespace, name)
            await self._client.patch(path, released, content_type=MERGE_PATCH, timeout=_CALL_SECONDS)
        except ClusterError as error:
            _logger.warning("cannot release the Lease of this replica, so it expires later: %s", error)

    async def _turn(self, began: float) -> None:
        trouble = ""
        try:
            if await self._renew(began) and not self._is_compared:
                self._is_compared = await self._has_all_quotas()
        except ClusterError as error:
            trouble = str(error)
        if trouble and trouble != self._trouble:
            _logger.warning("GPUQuotas are read live, because the Lease of this replica is not kept: %s", trouble)
        self._trouble = trouble

    async def _renew(self, began: float) -> bool:
        """Write the Lease; False if it was deleted meanwhile."""
        if began >= self._until:
            self._is_compared = False
        if not self._name:
            name = f"gpu-admission-{secrets.token_hex(5)}"
            lease = self._state()
            lease["metadata"] |= {"name": name, "namespace": self._namespace, "labels": REPLICA_LABELS}
            await self._client.post(LEASE.path(self._namespace), lease, timeout=_CALL_SECONDS)
            self._name = name
        else:
            path = LEASE.path(self._namespace, self._name)
            try:
                await self._client.patch(path, self._state(), content_type=MERGE_PATCH, timeout=_CALL_SECONDS)
            except APIError as error:
                if not error.is_not_found:
                    raise
                self._name, self._until = "", -math.inf
                return False
        self._until = began + self._timing.trusted
        return True

    def _state(self) -> Object:
        """The fields of the Lease that each renewal writes."""
        store = self._store()
        spec = {
            "holderIdentity": self._identity,
            "leaseDurationSeconds": round(self._timing.expired),
            "renewTime": micro_time(self._clockwork.now()),
        }
        seen = "" if store is None else store.resource_version
        metadata = {"annotations": {**self._annotations(), _SEEN: seen}}
        return {"apiVersion": LEASE.api_version, "kind": LEASE.kind, "metadata": metadata, "spec": spec}

    def _is_awaited(self, version: int) -> bool:
        """True if the cache changed since a version, and replicas may not have seen some GPUQuota."""
        store = self._store()
        return store is not None and store.version != version and store.counts(awaits_replicas).get(True, 0) > 0

    def _cache_version(self) -> int:
        store = self._store()
        return -1 if store is None else store.version

    async def _has_all_quotas(self) -> bool:
        """True if the cache has every GPUQuota that is stored now."""
        stored = await list_all(self._client, _QUOTA)
        store = self._store()
        return store is not None and _uids(stored) <= _uids(store.list())


class _LeaseState(NamedTuple):
    """A Lease, and when the leader first saw it in this version."""

    lease: Object
    since: float


class Presences:
    """The leader's knowledge of what replicas have seen."""

    def __init__(
        self,
        client: APIClient,
        namespace: str,
        *,
        timing: PresenceTiming = PresenceTiming(),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Sends no request before `look`; `clock` returns monotonic seconds."""
        self._client = client
        self._namespace = namespace
        self._timing = timing
        self._clock = clock
        self._present: dict[str, _LeaseState] = {}
        """By name, the Leases that the leader waits for; one that vanished counts until it would have expired."""
        self._listed: set[str] = set()
        """The names of the Leases of the last look."""
        self._trouble = "the leader has just begun"
        self._looked = -math.inf

    @property
    def is_due(self) -> bool:
        """True if `look` was not called for so long that Leases of stopped replicas may pile up."""
        return self._clock() >= self._looked + self._timing.forgotten / 2

    async def look(self) -> None:
        """Read the Leases of all replicas, and delete those that were released, or not renewed for long."""
        self._looked = self._clock()
        try:
            leases = await list_all(self._client, LEASE, self._namespace, REPLICA_QUERY)
            now = self._clock()
            self._present |= {name_of(each): self._lease_state(each, now) for each in leases if holder_of(each)}
            self._present |= self._vanished_leases(leases, now)
            for lease in leases:
                seen = self._present.get(name_of(lease))
                if not holder_of(lease) or (seen is not None and now - seen.since >= self._timing.forgotten):
                    await self._delete(lease)
        except ClusterError as error:
            self._trouble = f"the Leases of the replicas cannot be read: {error}"
            return
        released = {name_of(each) for each in leases if not holder_of(each)}
        self._present = {
            name: seen
            for name, seen in self._present.items()
            if name not in released and now - seen.since < self._timing.forgotten
        }
        self._trouble = ""

    def why_unseen(self, version: str) -> str:
        """Why replicas may not have seen GPUQuotas up to a resourceVersion, as a clause; empty if all have."""
        if self._trouble:
            return self._trouble
        now = self._clock()
        waited_for = (each for each in self._present.values() if now - each.since < self._timing.expired)
        behind = sorted(holder_of(each.lease) for each in waited_for if _is_behind(each.lease, version))
        return f"{', '.join(behind)} {'have' if len(behind) > 1 else 'has'} not seen it" if behind else ""

    def _vanished_leases(self, leases: Iterable[Object], now: float) -> dict[str, _LeaseState]:
        """The Leases that are gone since the last look; they may have been renewed a moment ago."""
        names = {name_of(each) for each in leases}
        gone, self._listed = self._listed - names, names
        return {name: _LeaseState(self._present[name].lease, now) for name in gone if name in self._present}

    def _lease_state(self, lease: Object, now: float) -> _LeaseState:
        before = self._present.get(name_of(lease))
        is_same = before is not None and version_of(before.lease) == version_of(lease)
        return before if before is not None and is_same else _LeaseState(lease, now)

    async def _delete(self, lease: Object) -> None:
        guard = {"preconditions": {"resourceVersion": lookup(lease, ("metadata", "resourceVersion"))}}
        try:
            await self._client.delete(LEASE.path(self._namespace, name_of(lease)), guard, timeout=_CALL_SECONDS)
        except APIError as error:
            if not (error.is_not_found or error.is_conflict):
                raise


def _is_behind(lease: Object, version: str) -> bool:
    seen = lookup(lease, ("metadata", "annotations", _SEEN))
    return not isinstance(seen, str) or not seen or is_older(seen, version)


def _uids(documents: Iterable[Object]) -> set[object]:
    return {lookup(each, ("metadata", "uid")) for each in documents}
