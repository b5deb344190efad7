"""Faults during a storm, all at once, until it ends."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import suppress
from typing import TYPE_CHECKING, TypeAlias

from tests.storm.harness.forger import Forger
from tests.storm.harness.orders import TEMPLATES, template
from webhook.cluster.answers import ClusterError
from webhook.cluster.leases import holder_of
from webhook.cluster.resources import RESOURCES
from webhook.controllers.replica_config import LEASE, NAMESPACE

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence
    from random import Random

    from testbed.relay import Relay
    from testbed.replicas import Replica
    from testbed.replicated_clusters import ReplicatedCluster
    from webhook.cluster.client import APIClient

__all__ = ["Chaos"]

_KILLED = "replicas killed"
_SILENCED = "replicas that heard nothing"
_HUSHES = "replicas with silent connections"
_HUSHED = "connections of replicas that stayed open and silent"

_Work: TypeAlias = "Callable[[], Awaitable[float]]"

_FIRST_SECONDS = 1.0
"""Before the first of each."""
_OUTAGE_SECONDS = 1.5
_SILENCE_SECONDS = 40.0
"""Longer than the leader waits for a replica (`webhook.controllers.presence`)."""
_HANG_SECONDS = 4.0
"""At most; the others wait for an owner for 0.3 s, and close the connection to it after 3 s."""
_WRITE_SECONDS = 0.02
_FORGED_SECONDS = 0.1


class Chaos:
    """Kills replicas, cuts and holds connections, restarts the API server, writes what others write, forges calls."""

    def __init__(
        self,
        cluster: ReplicatedCluster,
        client: APIClient,
        namespaces: Sequence[str],
        random: Random,
        *,
        pace: float,
        kills: int,
        silences: int,
        hushes: int,
        spares_leader: bool,
        writers: int,
        forgers: int,
    ) -> None:
        """Prepare.

        Args:
            cluster: Of the storm.
            client: To write by.
            namespaces: Those with quotas.
            random: Chooses.
            pace: Seconds between two kills, on average; the others follow it.
            kills: How many replicas are killed before `kill_the_leader`.
            silences: How often a replica hears nothing from its API server for a long time.
            hushes: How often some open connections of a replica fall silent for good.
            spares_leader: Whether it is killed by that only.
            writers: The number of clients that write GPUQuotas.
            forgers: The number of clients that forge calls.
        """
        self.done: Counter[str] = Counter()
        self._cluster = cluster
        self._client = client
        self._namespaces = namespaces
        self._random = random
        self._pace = pace
        self._kills = kills
        self._silences, self._hushes = silences, hushes
        self._silent: Replica | None = None
        """The replica that hears nothing."""
        self._starting: list[Replica] = []
        """The replicas that were killed and are being started."""
        self._spares_leader = spares_leader
        self._writers, self._forgers = writers, forgers
        self._forger = Forger(client, cluster.replicas, namespaces, random)

    @property
    def is_done(self) -> bool:
        """True if all were killed, silenced and hushed that shall be."""
        wanted = {_KILLED: self._kills, _SILENCED: self._silences, _HUSHES: self._hushes}
        return all(self.done[what] >= count for what, count in wanted.items())

    async def rage(self, until: asyncio.Event) -> None:
        """Go on until an event; when this returns, everything is whole again."""
        writers, forgers = [self._write] * self._writers, [self._forge] * self._forgers
        works = (
            self._kill,
            self._hang,
            self._cut,
            self._hold,
            self._silence,
            self._hush,
            self._restart,
            *writers,
            *forgers,
            self._swap,
        )
        await asyncio.gather(*(self._repeat(work, until) for work in works))
        await asyncio.to_thread(self._cluster.replicas.start)

    async def _repeat(self, work: _Work, until: asyncio.Event) -> None:
        seconds = _FIRST_SECONDS
        while not until.is_set():
            with suppress(TimeoutError):
                await asyncio.wait_for(until.wait(), seconds * (0.5 + self._random.random()))
            if not until.is_set():
                seconds = await work()

    async def _kill(self) -> float:
        """`kill -9` of one replica, or of several, and their start."""
        if self.done[_KILLED] >= self._kills:
            return self._pace
        try:
            leader = await self._leader()
        except ClusterError:
            # The API server is away, by chance or by us; the kill comes a little later.
            return _FIRST_SECONDS
        # A replica that hears nothing could not start again.
        spared = [self._silent, leader if self._spares_leader else None]
        replicas = [each for each in self._cluster.replicas if each not in spared]
        count = min(self._random.choice([1, 1, 1, 2]), len(replicas))
        self._starting = self._random.sample(replicas, count)
        for replica in self._starting:
            await asyncio.to_thread(replica.kill)
            self.done[_KILLED] += 1
        await asyncio.to_thread(self._cluster.replicas.start)
        self._starting = []
        return self._pace

    async def _hang(self) -> float:
        """Suspend a replica for a while; when it resumes, it still takes itself for the owner of its ledgers."""
        replica = self._random.choice([each for each in self._cluster.replicas if each not in self._starting])
        # In threads: a replica that is being started makes both wait.
        await asyncio.to_thread(replica.suspend)
        try:
            await asyncio.sleep(self._random.random() * _HANG_SECONDS)
        finally:
            await asyncio.to_thread(replica.resume)
        self.done["replicas that hung"] += 1
        return self._pace

    async def kill_the_leader(self) -> None:
        """`kill -9` of the one that counts, once everybody else has ended."""
        leader = await self._leader()
        assert leader is not None, "none of the replicas says that it holds the lease"
        await asyncio.to_thread(leader.kill)
        self.done[_KILLED] += 1
        await asyncio.to_thread(self._cluster.replicas.start)

    async def _leader(self) -> Replica | None:
        lease = await self._client.get(RESOURCES["Lease"].path(NAMESPACE, LEASE))
        holder = holder_of(lease)
        return next((each for each in self._cluster.replicas if holder and each.led_as(holder)), None)

    async def _cut(self) -> float:
        self.done["connections of replicas cut"] += sum(relay.cut(0.5) for relay in self._relays())
        self.done["connections of clients cut"] += self._cluster.to_clients.cut(0.1)
        return self._pace

    async def _hold(self) -> float:
        """Caches that lag, and writes that arrive late."""
        self.done["connections held"] += 1
        seconds = self._random.random() * 2
        await asyncio.gather(*(relay.hold(0.5, seconds) for relay in self._relays()))
        return self._pace / 2

    async def _silence(self) -> float:
        """One replica hears nothing from its API server, and API servers call it all the same."""
        if self.done[_SILENCED] < self._silences:
            replicas = [*self._cluster.replicas]
            # One that hears nothing could not start.
            number = self._random.choice([n for n, each in enumerate(replicas) if each not in self._starting])
            self._silent = replicas[number]
            await self._cluster.to_replicas[number].silence(_SILENCE_SECONDS)
            self._silent = None
            self.done[_SILENCED] += 1
        return self._pace

    async def _hush(self) -> float:
        """Some open connections of one replica carry nothing any more, while new ones work."""
        if self.done[_HUSHES] < self._hushes:
            self.done[_HUSHED] += self._random.choice(self._relays()).hush(0.5)
            self.done[_HUSHES] += 1
        return self._pace * 2

    def _relays(self) -> list[Relay]:
        """Those between replicas and API servers, without that of a replica that hears nothing."""
        both = zip(self._cluster.to_replicas, self._cluster.replicas, strict=True)
        return [relay for relay, replica in both if replica is not self._silent]

    async def _restart(self) -> float:
        number = self._random.randrange(len(self._cluster.apis))
        await self._cluster.restart_api_server(number, _OUTAGE_SECONDS * self._random.random())
        self.done["API servers restarted"] += 1
        return self._pace * 3

    async def _write(self) -> float:
        """Somebody else writes a GPUQuota, so that whoever had read it has to read it again."""
        namespace = self._random.choice(self._namespaces)
        patch = {"metadata": {"annotations": {"storm/written": str(self._random.random())}}}
        with suppress(ClusterError):
            await self._client.patch(RESOURCES["GPUQuota"].path(namespace, "gpu"), patch)
            self.done["GPUQuotas written by somebody else"] += 1
        return _WRITE_SECONDS

    async def _forge(self) -> float:
        """Somebody who is no API server calls for a pod that exists."""
        with suppress(ClusterError):
            self.done["calls forged"] += await self._forger.forge()
        return _FORGED_SECONDS

    async def _swap(self) -> float:
        """A template asks for something else than when pods were charged for it."""
        namespace, name = self._random.choice(self._namespaces), TEMPLATES[-1]
        kind = RESOURCES["ResourceClaimTemplate"]
        with suppress(ClusterError):
            await self._client.delete(kind.path(namespace, name))
        with suppress(ClusterError):
            await self._client.post(kind.path(namespace), template(namespace, name, self._random.choice([1, 3])))
            self.done["templates swapped"] += 1
        return self._pace / 5
