"""The cost of quotas: pods created through three replicas, with the quotas charged and without.

    python benchmarks/quota.py                                    with the sandbox as API server
    KUBEBUILDER_ASSETS=FOLDER python benchmarks/quota.py          with a real one, and Kubernetes' own ResourceQuota too

Pods that request one GPU are created by 32 clients in one namespace, or spread over 100, each with a quota that they all
fit into. In `no quota` the webhooks that charge quotas are called at `/guard-pods`, which checks
access only; `ResourceQuota` has one of Kubernetes' own instead. `writes` counts all writes of ledgers while pods are
created, the reconciler's too. Every round measures all of them one after the other, so that they share whatever else the
machine does; what is printed is the median of the rounds. API server, replicas and clients share the machine.
"""

from __future__ import annotations

import asyncio
import os
import platform
import statistics
import tempfile
import time
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from policies.admission import ENTRIES
from policies.quota.ledger.open_charges import ALLOWANCE
from policies.quota.ledger.status import charge_items
from testbed import manifests
from testbed.background import Background
from testbed.replicated_clusters import RealReplicatedCluster, replicated_cluster
from testbed.waiting import until_right
from webhook.cluster.answers import APIError
from webhook.cluster.resources import RESOURCES

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from testbed.replicated_clusters import ReplicatedCluster
    from webhook.cluster.client import APIClient

CLIENTS = 32
PODS = 640
"""Of a round: it lasts for several seconds, so that what is written together is written in its time."""
PODS_OF_ONE = 40
"""Pods that one client alone creates after the others of each round."""
ROUNDS = 4
SPREAD = 100
HARD = 100_000
CHARGING = {entry.webhook for entry in ENTRIES.values() if "quota" in entry.concerns}
"""The webhooks that charge quotas."""
CONFIGURATION = RESOURCES["ValidatingWebhookConfiguration"].path("", "gpu-admission")
_SECONDS = 60.0

Document: TypeAlias = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Case:
    """One way to have quotas, or none."""

    name: str
    namespaces: tuple[str, ...]
    asks: bool
    """Whether the quota entries are asked."""


@dataclass(frozen=True, slots=True)
class Round:
    """The result of one round of one case."""

    rate: float
    """Pods per second."""
    median: float
    """Milliseconds of a creation, and the 99th percentile of all."""
    most: float
    writes: float
    """Of ledgers, per pod."""
    server: float
    """Milliseconds of CPU of the API server per pod, and of all replicas."""
    replicas: float
    alone: float
    """Milliseconds of a creation, by one client alone."""

    @property
    def interval(self) -> float:
        """Milliseconds from one pod to the next."""
        return 1000 / self.rate


def main() -> None:
    """Start everything, measure, and print a table."""
    background = Background()
    with tempfile.TemporaryDirectory() as folder:
        is_real = any(os.environ.get(name) for name in ("KUBECONFIG", "KUBEBUILDER_ASSETS"))
        cluster = replicated_cluster(background, Path(folder), is_real=is_real)
        try:
            cluster.begin()
            cases = cases_of(cluster)
            rounds = background.run(measure(cluster, cases), 3600)
            print_table(cluster, cases, rounds)
            cluster.tidy()
        finally:
            cluster.close()
            background.close()


def cases_of(cluster: ReplicatedCluster) -> list[Case]:
    """A case that is measured, with its namespaces and quotas made."""
    cases = []
    for count, words in ((1, "1 namespace"), (SPREAD, f"{SPREAD} namespaces")):
        bare = tuple(cluster.namespace() for _ in range(count))
        cases.append(Case(f"no quota, {words}", bare, asks=False))
        if cluster.is_real:
            kept = tuple(cluster.namespace() for _ in range(count))
            put(cluster, map(resource_quota, kept))
            cases.append(Case(f"ResourceQuota, {words}", kept, asks=False))
        ours = tuple(cluster.namespace(quota="enforced") for _ in range(count))
        put(cluster, map(gpu_quota, ours))
        cases.append(Case(f"GPUQuota, {words}", ours, asks=True))
    return cases


def put(cluster: ReplicatedCluster, documents: Iterable[Document]) -> None:
    """Create objects."""
    for document in documents:
        path = f"/api/v1/namespaces/{document['metadata']['namespace']}/resourcequotas"
        answer = (
            cluster.create(document)
            if document["kind"] in RESOURCES
            else cluster.api.request("POST", path, {}, document)
        )
        if not answer.accepted:
            raise SystemExit(answer.message)


def gpu_quota(namespace: str) -> Document:
    """A GPUQuota with one limit."""
    return {
        "apiVersion": "gpu-admission.io/v1alpha1",
        "kind": "GPUQuota",
        "metadata": {"name": "gpu", "namespace": namespace},
        "spec": {"limits": [{"name": "all", "gpus": HARD}]},
    }


def resource_quota(namespace: str) -> Document:
    """A ResourceQuota that says the same."""
    return {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "gpu", "namespace": namespace},
        "spec": {"hard": {"requests.nvidia.com/gpu": str(HARD)}},
    }


async def measure(cluster: ReplicatedCluster, cases: Sequence[Case]) -> dict[str, list[Round]]:
    """All rounds of all cases, after one that is not counted."""
    client = await cluster.client(relayed=False)
    with_quotas = await client.get(CONFIGURATION)
    await until_right(lambda: quotas_without_count(client, cases), _SECONDS)
    rounds: dict[str, list[Round]] = {case.name: [] for case in cases}
    for number in range(ROUNDS + 1):
        for case in cases:
            await ask_quotas(client, with_quotas["webhooks"], asks=case.asks)
            measured = await one_round(cluster, client, case)
            await clear(client, case)
            if number:
                rounds[case.name].append(measured)
    return rounds


async def quotas_without_count(client: APIClient, cases: Sequence[Case]) -> str:
    """The quotas of the cases that have no count of what is used yet."""
    wanted = {namespace for case in cases if case.asks for namespace in case.namespaces}
    for quota in (await client.get(RESOURCES["GPUQuota"].path()))["items"]:
        limits = (quota.get("status") or {}).get("limits") or []
        if limits and all("used" in limit for limit in limits):
            wanted.discard(quota["metadata"]["namespace"])
    return ", ".join(sorted(wanted))


async def ask_quotas(client: APIClient, webhooks: Sequence[Document], *, asks: bool) -> None:
    """Have the webhooks charge quotas or only check access, and wait until the API server knows."""
    stored = await client.get(CONFIGURATION)
    bundles = {webhook["name"]: webhook["clientConfig"] for webhook in [*webhooks, *stored["webhooks"]]}
    wanted = []
    for webhook in webhooks:
        url: str = webhook["clientConfig"]["url"]
        if not asks and webhook["name"] in CHARGING:
            url = f"{url.rpartition('/')[0]}/guard-pods"
        wanted.append({**webhook, "clientConfig": {**bundles[webhook["name"]], "url": url}})
    if wanted != stored["webhooks"]:
        await client.put(CONFIGURATION, {**stored, "webhooks": wanted})
        # Nothing shows when an API server has taken note of a configuration.
        await asyncio.sleep(1.5)


def processor_seconds(processes: Iterable[int]) -> float:
    """Seconds of CPU that processes have used so far."""
    fields = (Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split() for process in processes)
    return sum(int(user) + int(system) for *_, user, system in (each[:13] for each in fields)) / os.sysconf(
        "SC_CLK_TCK"
    )


def processes(cluster: ReplicatedCluster) -> tuple[list[int], list[int]]:
    """The processes of the API server, if it is ours, and of the replicas."""
    control_plane = cluster.control_plane if isinstance(cluster, RealReplicatedCluster) else None
    servers = [] if control_plane is None else control_plane.process_ids("kube-apiserver")
    return servers, [replica.process_id for replica in cluster.replicas]


async def one_round(cluster: ReplicatedCluster, client: APIClient, case: Case) -> Round:
    """Create all pods of a round."""
    version: str = (await client.get(RESOURCES["GPUQuota"].path()))["metadata"]["resourceVersion"]
    namespaces = cycle(case.namespaces)
    waiting = [manifests.pod(next(namespaces), f"pod-{number}") for number in range(PODS)]
    writes = asyncio.create_task(count_writes(client, frozenset(case.namespaces), version))
    times: list[float] = []
    measured = processes(cluster)
    used = [processor_seconds(each) for each in measured]
    begin = time.perf_counter()
    await asyncio.gather(*(create(client, waiting, times) for _ in range(CLIENTS)))
    seconds = time.perf_counter() - begin
    server, replicas = (processor_seconds(each) - before for each, before in zip(measured, used, strict=True))
    waiting = [manifests.pod(next(namespaces), f"alone-{number}") for number in range(PODS_OF_ONE)]
    alone: list[float] = []
    await create(client, waiting, alone)
    writes.cancel()
    written = await writes
    times.sort()
    return Round(
        rate=PODS / seconds,
        median=statistics.median(times) * 1000,
        most=times[len(times) * 99 // 100] * 1000,
        writes=written / (PODS + PODS_OF_ONE),
        server=server / PODS * 1000,
        replicas=replicas / PODS * 1000,
        alone=statistics.median(alone) * 1000,
    )


async def create(client: APIClient, waiting: list[Document], times: list[float]) -> None:
    """Create pods as long as there are any; notes the seconds that each took, until it was stored."""
    while waiting:
        pod = waiting.pop()
        path = RESOURCES["Pod"].path(pod["metadata"]["namespace"])
        begin = time.perf_counter()
        while True:
            try:
                await client.post(path, pod, timeout=_SECONDS)
                break
            except APIError as error:
                if not error.is_too_many_requests:
                    raise
                await asyncio.sleep(error.retry_after or 1)
        times.append(time.perf_counter() - begin)


async def count_writes(client: APIClient, namespaces: frozenset[str], version: str) -> int:
    """The number of writes of GPUQuotas until this is cancelled."""
    count = 0
    query = {"resourceVersion": version}
    try:
        async for event in client.watch(RESOURCES["GPUQuota"].path(), query, read_timeout=600):
            count += event["object"]["metadata"].get("namespace") in namespaces
    except asyncio.CancelledError:
        return count
    return count


async def clear(client: APIClient, case: Case) -> None:
    """Delete all pods, and wait until nothing is charged for them."""
    for namespace in case.namespaces:
        path = RESOURCES["Pod"].path(namespace)
        names = [item["metadata"]["name"] for item in (await client.get(path))["items"]]
        for begin in range(0, len(names), CLIENTS):
            batch = names[begin : begin + CLIENTS]
            await asyncio.gather(*(client.delete(f"{path}/{name}", {"gracePeriodSeconds": 0}) for name in batch))
    await until_right(lambda: remaining_charges(client, case), _SECONDS)


async def remaining_charges(client: APIClient, case: Case) -> str:
    """The charges that the ledgers of a case still hold."""
    items = (await client.get(RESOURCES["GPUQuota"].path()))["items"]
    left = [item for item in items if item["metadata"]["namespace"] in case.namespaces and not is_empty(item)]
    return ", ".join(item["status"]["summary"] for item in left)


def is_empty(document: Document) -> bool:
    """True if nothing is used or reserved, except ahead of time."""
    status = document["status"]
    return all(item["kind"] == ALLOWANCE for item in charge_items(status)) and all(
        limit["used"] == "0" for limit in status["limits"]
    )


def print_table(cluster: ReplicatedCluster, cases: Sequence[Case], rounds: dict[str, list[Round]]) -> None:
    """The medians, and each compared with having no quota."""
    server = f"kube-apiserver 1.{cluster.minor}" if cluster.is_real else "sandbox"
    print(
        f"{server}, {os.cpu_count()} cores, Python {platform.python_version()}, {PODS} pods a round, {ROUNDS} rounds\n"
    )
    print(
        "| quota | pods per second | p50 | p99 | ledger writes per pod | CPU of the API server per pod | of replicas |"
        " p50 against none | p50 of one client |"
    )
    print("|---|---|---|---|---|---|---|---|---|")
    base: list[Round] = []
    for case in cases:
        found = rounds[case.name]
        base = found if case.name.startswith("no quota") else base
        ratio = statistics.median(one.median / none.median for one, none in zip(found, base, strict=True))
        rate, median, most, writes, server, replicas, alone = (
            statistics.median(getattr(each, field) for each in found)
            for field in ("rate", "median", "most", "writes", "server", "replicas", "alone")
        )
        print(
            f"| {case.name} | {rate:.0f} | {median:.0f} ms | {most:.0f} ms | {writes:.2f} | {server:.1f} ms |"
            f" {replicas:.1f} ms | {ratio:.2f} | {alone:.1f} ms |"
        )


if __name__ == "__main__":
    main()
