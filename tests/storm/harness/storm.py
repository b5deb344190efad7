"""One storm: clients, faults, observers, and the final checks."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction
from random import Random
from typing import TYPE_CHECKING, Any

from policies.quota.ledger.status import charge_items
from testbed import manifests
from testbed.waiting import until_right
from tests.storm.harness import oracle
from tests.storm.harness.chaos import Chaos
from tests.storm.harness.clients import Client, Tally
from tests.storm.harness.founder import Founder
from tests.storm.harness.history import History
from tests.storm.harness.new_quotas import judge
from tests.storm.harness.oracle import EXACT, Broken, Truth, replay
from tests.storm.harness.orders import (
    SHARES,
    TAKEN,
    TEMPLATES,
    UNLIMITED_SHARE,
    Orders,
    share_template,
    shared_slice,
    template,
)
from webhook.cluster.answers import APIError
from webhook.cluster.resources import RESOURCES
from webhook.controllers.replica_config import NAMESPACE

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from testbed.replicated_clusters import ReplicatedCluster
    from tests.storm.harness.new_quotas import Report
    from tests.storm.harness.orders import Document
    from webhook.cluster.client import APIClient

__all__ = ["FULL", "SMALL", "Outcome", "Size", "Storm"]

_CLIENTS_PER_CONNECTION = 16
_FOUNDED_CLIENTS = 4
"""Clients of each namespace whose quota comes and goes."""
_QUIET_PODS = 5
"""Pods in each namespace without a quota, through each API server, before the storm begins."""


@dataclass(frozen=True, slots=True)
class Size:
    """How large a storm is."""

    pods: int
    """With GPUs, that are stored."""
    clients: int
    plain: int
    """Namespaces that leave pods as they are."""
    converting: int
    """Namespaces that convert them."""
    hard: tuple[int, int, int]
    """Of each namespace: GPUs, devices, slices."""
    tenants: int
    """Tenants, each with the same number of namespaces, whose limits are three fifths of theirs together."""
    kills: int
    """How many replicas are killed, besides the leader at the end."""
    founded: int
    """Namespaces whose quota comes and goes."""
    enforced: int
    """How often new quotas are enforced, at least."""
    silences: int
    """How often a replica hears nothing from its API server for longer than it trusts its cache."""
    hushes: int
    """The number of times that some open connections of a replica fall silent for good, while new ones work."""
    spares_leader: bool
    """Whether the leader is not killed before that. While there is none, for 15 seconds and more, nothing is counted, so
    quotas stay as full as they are; a small storm has no time for it twice."""
    writers: int
    """The number of clients that write GPUQuotas while replicas do; each writes up to 50 times a second."""
    forgers: int
    """The number of clients that call replicas for pods that exist already; each calls up to 10 times a second."""
    pace: float
    """Seconds between two kills."""
    seconds: float
    """For everybody to be done."""
    expires: float
    """Seconds in which every charge has ended that belongs to nothing; 0 not to wait for it."""
    limit: float
    """Seconds for all of it, much more than it ever takes."""


SMALL = Size(
    pods=120,
    clients=12,
    plain=2,
    converting=1,
    hard=(60, 72, 24),
    tenants=2,
    kills=1,
    founded=1,
    enforced=1,
    silences=0,
    hushes=0,
    spares_leader=True,
    writers=1,
    forgers=1,
    pace=4,
    seconds=240,
    expires=0,
    limit=500,
)
FULL = Size(
    pods=2000,
    clients=64,
    plain=14,
    converting=6,
    hard=(36, 43, 15),
    tenants=3,
    kills=12,
    founded=3,
    enforced=6,
    silences=2,
    hushes=3,
    spares_leader=False,
    writers=3,
    forgers=2,
    pace=15,
    seconds=1500,
    expires=300,
    limit=2900,
)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a storm came to."""

    tally: Tally
    done: Mapping[str, int]
    over: Sequence[Broken]
    """Moments at which more was held than allowed."""
    under: Sequence[Broken]
    """Moments at which more was held than the ledger knew of."""
    new_quotas: Report
    quiet_calls: Sequence[str]
    """Calls for pods of namespaces without a quota, while no cache was behind."""
    changes: int
    gaps: int
    tracebacks: Sequence[str]

    def __str__(self) -> str:
        lines = [f"{self.tally.stored} pods with GPUs stored, {self.changes} changes looked at, {self.gaps} gaps"]
        lines.append(f"requests: {self.tally.waited}")
        shown = {
            "answers": self.tally.outcomes,
            "kinds": self.tally.by_tag,
            "chaos": self.done,
            "new quotas": self.new_quotas.counts,
        }
        for name, counts in shown.items():
            lines.append(f"{name}: " + ", ".join(f"{count} {what}" for what, count in sorted(counts.items())))
        lines += map(str, (*self.over, *self.under, *self.new_quotas.broken))
        lines += [f"  {outcome}: {message[:300]}" for outcome, message in self.tally.examples.items() if message]
        return "\n".join(lines)


class Storm:
    """Prepares a cluster, rages, and looks whether everything is right afterwards."""

    def __init__(self, cluster: ReplicatedCluster, size: Size, seed: int) -> None:
        """Args: of a cluster whose replicas run; how large; what all chance comes from."""
        self._cluster = cluster
        self._size = size
        self._seed = seed
        self._plain: list[str] = []
        self._converting: list[str] = []
        self._founded: list[str] = []
        self._groups: dict[str, str] = {}
        """By namespace, the GPUQuotaGroup of its tenant."""

    @property
    def namespaces(self) -> list[str]:
        """Those that have a quota from the beginning."""
        return [*self._plain, *self._converting]

    @property
    def _all(self) -> list[str]:
        return [*self.namespaces, *self._founded]

    def prepare(self) -> None:
        """Make namespaces with quotas and templates, and wait until the quotas are counted."""
        self._plain = [self._cluster.namespace(quota="enforced") for _ in range(self._size.plain)]
        self._converting = [
            self._cluster.namespace(quota="enforced", dra="enabled") for _ in range(self._size.converting)
        ]
        self._founded = [self._cluster.namespace(quota="enforced") for _ in range(self._size.founded)]
        assert self._cluster.configure(quota={"unlimitedShare": UNLIMITED_SHARE}).accepted
        self._cluster.belongings.add(shared_slice())
        for namespace in self.namespaces:
            self._put(oracle.quota(namespace, *self._size.hard))
        self._prepare_tenants()
        for namespace in self._all:
            for name in TEMPLATES:
                self._put(template(namespace, name, 1 + (name == "two")))
            for product in SHARES:
                self._put(share_template(namespace, product))
            taken = manifests.pod(namespace, TAKEN)
            del taken["spec"]["containers"][0]["resources"]
            self._put(taken)

    def _prepare_tenants(self) -> None:
        """Give each namespace a tenant, and the tenants limits."""
        name, key = f"storm-{self._seed}", f"storm.example/tenant-{self._seed}"
        members = len(self.namespaces) // self._size.tenants
        gpus, devices, slices = (members * amount * 3 // 5 for amount in self._size.hard)
        self._put(oracle.tenants_quota(name, key, gpus, devices, slices))
        for number, namespace in enumerate(self.namespaces):
            tenant = f"tenant-{number % self._size.tenants}"
            body = {"metadata": {"labels": {key: tenant}}}
            assert self._cluster.patch("Namespace", namespace, body=body).accepted
            self._groups[namespace] = f"{name}.{tenant}"

    def _put(self, document: Document) -> None:
        assert self._cluster.create(document).accepted

    async def run(self) -> Outcome:
        """Rage until enough pods were stored, and come back when everything is whole again."""
        quiet = await self._cluster.client(relayed=False)
        await self._counted(quiet)
        quiet_calls = await self._quiet_calls()
        history = History(quiet, [*self._all, NAMESPACE])
        await history.begin()
        chaos = Chaos(
            self._cluster,
            quiet,
            self.namespaces,
            self._random("chaos"),
            pace=self._size.pace,
            kills=self._size.kills,
            silences=self._size.silences,
            hushes=self._size.hushes,
            spares_leader=self._size.spares_leader,
            writers=self._size.writers,
            forgers=self._size.forgers,
        )
        founder = Founder(quiet, self._cluster.to_replicas, self._founded, self._random("founder"))
        tally = Tally(self._size.pods, lambda: chaos.is_done and founder.enforced >= self._size.enforced)
        beside = Tally(0, lambda: tally.enough)
        clients = await self._clients(quiet, tally, beside)
        over = asyncio.Event()
        raging = asyncio.create_task(chaos.rage(over))
        founding = asyncio.create_task(founder.run(over))
        crowd = asyncio.gather(*(client.run() for client in clients))
        try:
            async with asyncio.timeout(self._size.seconds):
                # Before it is told to end, the chaos ends by failing only; clients would then wait for kills that never come.
                await asyncio.wait({crowd, raging, founding}, return_when=asyncio.FIRST_COMPLETED)
            if crowd.done():
                crowd.result()
        except TimeoutError:
            events = [event for event in history.events if "namespace" in event.object["metadata"]]
            report = judge(events, self._founded, history.gaps)
            so_far = Outcome(tally, chaos.done, [], [], report, [], len(history.events), len(history.gaps), [])
            raise AssertionError(f"only {so_far}\n{await self._ledgers(quiet, history)}") from None
        finally:
            crowd.cancel()
            over.set()
            await raging
            await founding
        await chaos.kill_the_leader()
        await self._settled(quiet, history)
        await self._emptied(quiet)
        await history.wait_for_answers()
        await history.end()
        gaps = history.gaps
        events = [event for event in history.events if "namespace" in event.object["metadata"]]
        of_old_quotas = [event for event in events if event.object["metadata"]["namespace"] in self.namespaces]
        # In a thread: the replicas reach the API server through this loop.
        too_much, unknown = await asyncio.to_thread(replay, of_old_quotas, gaps)
        of_tenants = [*oracle.by_tenant(history.events, self._groups)]
        too_much_of_tenants, unknown_of_tenants = await asyncio.to_thread(replay, of_tenants, gaps)
        report = await asyncio.to_thread(judge, events, self._founded, gaps)
        report.counts.update({f"requests {outcome}": count for outcome, count in beside.outcomes.items()})
        tracebacks = self._cluster.replicas.tracebacks()
        over_all, under_all = too_much + too_much_of_tenants, unknown + unknown_of_tenants
        return Outcome(tally, chaos.done, over_all, under_all, report, quiet_calls, len(events), len(gaps), tracebacks)

    def _random(self, name: str) -> Random:
        return Random(f"{self._seed} {name}")

    async def _quiet_calls(self) -> list[str]:
        """Calls that pods cost in namespaces without a quota, through each API server; empty where nothing counts them."""
        before = self._cluster.audit_events()
        if before is None:
            return []
        assert before, "the API servers log no requests of replicas"
        for number, namespace in enumerate(self._founded * _QUIET_PODS):
            pod = manifests.pod(namespace, f"quiet-{number}")
            for api in self._cluster.apis:
                path = RESOURCES["Pod"].path(namespace)
                answer = await api.send("POST", path, {}, pod, "application/json")
                assert answer.code == 201, answer.message
                await api.send("DELETE", f"{path}/quiet-{number}", {}, {"gracePeriodSeconds": 0}, "application/json")
        known = {call["auditID"] for call in before}
        calls = [call for call in self._cluster.audit_events() or () if call["auditID"] not in known]
        return [f"{call['verb']} {call['requestURI']}" for call in calls if _namespace_of(call) in self._founded]

    async def _clients(self, quiet: APIClient, tally: Tally, beside: Tally) -> list[Client]:
        """The clients of all namespaces, and those of each whose quota comes and goes, with a tally of their own."""
        orders = Orders(self._random("orders"), self._plain, self._converting)
        owners = {
            namespace: (await quiet.get(RESOURCES["Pod"].path(namespace, TAKEN)))["metadata"]["uid"]
            for namespace in self._all
        }
        clients = []
        for number in range(self._size.clients):
            if number % _CLIENTS_PER_CONNECTION == 0:
                connection = await self._cluster.client()
            clients.append(Client(connection, orders, tally, self._random(f"client {number}"), owners))
        for namespace in self._founded:
            random = self._random(f"client of {namespace}")
            connection, orders = await self._cluster.client(), Orders(random, [namespace], [])
            clients += [Client(connection, orders, beside, random, owners) for _ in range(_FOUNDED_CLIENTS)]
        return clients

    async def _counted(self, client: APIClient) -> None:
        """Wait until every quota knows what is used, and every replica has seen it."""

        async def look() -> str:
            for namespace in self.namespaces:
                status = await self._status(client, namespace)
                limits = status.get("limits") or [{}]
                if not all("used" in limit for limit in limits):
                    return f"{namespace} is not counted: {limits}"
                conditions = {each["type"]: each["status"] for each in status.get("conditions") or ()}
                if conditions.get("Enforced") != "True":
                    return f"{namespace} is not said to be enforced: {conditions}"
            for group in {*self._groups.values()}:
                found = await client.get(RESOURCES["GPUQuotaGroup"].path(name=group))
                if (said := oracle.condition(found, "Enforced")).get("status") != "True":
                    return f"{group} is not said to be enforced: {said}"
            return ""

        await until_right(look, 60)

    async def _settled(self, client: APIClient, history: History) -> None:
        """Wait until every ledger says what there is, neither more nor less."""

        async def look() -> str:
            await history.wait_for_answers()
            truth = Truth.of(history.latest)
            for namespace in self._all:
                if said := await self._wrong(client, namespace, truth):
                    return said
            of_tenants = Truth.of(oracle.by_tenant(history.latest, self._groups))
            for group in {*self._groups.values()}:
                if said := await self._wrong(client, group, of_tenants):
                    return said
            return ""

        await until_right(look, self._size.expires or 60)

    async def _ledgers(self, client: APIClient, history: History) -> str:
        """What is charged, and how much of it for what was never stored: for whoever wonders why nothing goes on."""
        stored = {event.uid for event in history.events}
        lines = []
        for namespace in self.namespaces:
            status = await self._status(client, namespace)
            charges = charge_items(status)
            nobody = [f"{charge['kind']} {charge['name']}" for charge in charges if charge["uid"] not in stored]
            lines.append(
                f"{namespace}: {status.get('summary')}; {len(charges)} charges, "
                f"{len(nobody)} for what was never stored: {', '.join(nobody)}"
            )
        return "\n".join(lines)

    async def _wrong(self, client: APIClient, namespace: str, truth: Truth) -> str:
        """What is wrong with the ledger of a namespace in which nothing happens."""
        status = await self._status(client, namespace)
        held = truth.amounts(namespace)
        for limit in status["limits"]:
            used = Fraction(limit["used"])
            if used < held[limit["name"]] or (limit["name"] in EXACT and used != held[limit["name"]]):
                return f"{limit['name']} of {namespace}: {used} used, {held[limit['name']]} held"
        for charge in charge_items(status):
            if self._size.expires and not truth.is_awaited(namespace, charge["uid"]):
                return f"{namespace} still has the charge {charge}"
            if truth.is_there(namespace, charge["uid"]) and not truth.is_awaited(namespace, charge["uid"]):
                return f"{namespace} has a charge for what was counted: {charge}"
        return ""

    async def _emptied(self, client: APIClient) -> None:
        """Delete everything, and wait until the ledgers are empty."""

        async def look() -> str:
            for namespace in self._all:
                if await self._deleted(client, namespace):
                    return f"{namespace} still had something"
                status = await self._status(client, namespace)
                left = {limit["name"]: limit["used"] for limit in status["limits"] if limit["used"] != "0"}
                charged = charge_items(status)
                if left or (self._size.expires and charged):
                    return f"{namespace} is empty, and its ledger says {left} used, {charged} charged"
            return ""

        await until_right(look, self._size.expires or 60)

    async def _deleted(self, client: APIClient, namespace: str) -> int:
        """Delete what there is; how much it was."""
        count = 0
        for kind in ("Pod", "ResourceClaim"):
            path = RESOURCES[kind].path(namespace)
            for item in (await client.get(path))["items"]:
                count += 1
                with suppress(APIError):
                    await client.delete(f"{path}/{item['metadata']['name']}", {"gracePeriodSeconds": 0})
        return count

    async def _status(self, client: APIClient, namespace: str) -> dict[str, Any]:
        """Of the GPUQuota of a namespace, or of a GPUQuotaGroup."""
        is_group = namespace in self._groups.values()
        path = (
            RESOURCES["GPUQuotaGroup"].path(name=namespace)
            if is_group
            else RESOURCES["GPUQuota"].path(namespace, "gpu")
        )
        found = await client.get(path)
        status: dict[str, Any] = found.get("status") or {}
        return status


def _namespace_of(call: Mapping[str, Any]) -> object:
    """The namespace of an audit event; None without one."""
    return call.get("objectRef", {}).get("namespace")
