"""One replica in a large cluster: time until it is ready, memory, and how long its event loop is held.

    make scale                                the benchmark's own server
    KUBEBUILDER_ASSETS=FOLDER make scale      a real API server
    SCALE_NODES=100 .venv/bin/python benchmarks/scale.py --write     another size, written into benchmarks/results/scale.json

5,000 nodes with 40,000 GPUs in slices, 100,000 pods of which 20,000 request GPUs, 20,000 claims, 10,000 namespaces, 1,000
GPUQuotas, one of them with 5,000 open charges. Each figure stands beside a control of the same run. The control of times is a bare list: the same client reads the same pages,
decodes them and keeps nothing. It is measured before and after, and the mean counts. Ends with 1 if a limit is missed.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import aiohttp
import digests
import live
import yaml
from large_cluster import GPUS, MADE, NODES, PODS, VERSION, namespace, pod
from loop_lag import LoopLag
from real_api_server import EtcdObjects, define_quotas, real_api_server

from benchmarks.results import ClusterSize, write_size
from benchmarks.themes.explanation import template
from policies import outcome
from policies.admission import load_rules, review
from policies.analyses import explain as explanation
from policies.quota.ledger.ledger import ROOM, Ledger
from policies.quota.ledger.recount import Snapshot, recount
from policies.quota.limits.quota import parse_quota
from policies.rules.charges import Bill, Charge
from policies.rules.settings import DEFAULTS
from webhook.cluster.answers import APIError
from webhook.cluster.client import APIClient
from webhook.cluster.lists import PAGE, raw_pages
from webhook.cluster.resources import RESOURCES
from webhook.cluster.sync import Sync
from webhook.cluster.watched_kinds import watched_kinds
from webhook.controllers.audit_round import AuditRound, DeviceRound
from webhook.ledger import LedgerKey, LedgerWriter
from webhook.server.driver import LedgerRunner, warm_up
from webhook.server.listeners import set_up_interpreter
from webhook.server.metrics import Exposition
from webhook.server.turns import run_aside

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Iterator
    from typing import Any

    from policies.kubernetes.view import ClusterView
    from webhook.cluster.watched_kinds import Watched

LIMITED = 5_000
"""The nodes of the cluster that the limits are for."""
NAMESPACES = 2 * NODES
OPERATOR_NAMESPACES = DEFAULTS.configuration.operator_namespaces
STEADY = 10.0
CHANGES = 100
"""Pods that are created in each second of the steady state, and as many that are deleted."""
REVIEWS = 200
LIBRARY = 37
"""Mebibytes of kubernetes-asyncio, which reads the kubeconfig here; a replica in a pod does not import it."""
QUOTAS = max(NODES // 5, 1)
CHARGES = 50
"""Charges that are written, the last of 5,000 of a namespace."""
CHARGED = "team-000"
"""The namespace of the ledger that is almost full."""
QUESTIONS = {
    "the first, 1 GPU": template(1, "40Gi"),
    "8 GPUs": template(8, "79Gi"),
    "2 GPUs of 100Gi, none exists": template(2, "100Gi"),
}


@dataclass(frozen=True, slots=True)
class Figure:
    """Something that was measured, beside its control and its limit."""

    name: str
    measured: float
    control: float
    limit: float
    unit: str

    def __str__(self) -> str:
        mark = "ok  " if self.measured <= self.limit else "MORE"
        return f"{mark} {self.name:58}{self.measured:9.1f}{self.control:10.1f}{self.limit:9.1f}  {self.unit}"


@dataclass(frozen=True, slots=True)
class Cost:
    """The time and memory that something took."""

    seconds: float
    cpu: float
    lag: float
    """The longest time, in milliseconds, that the event loop was held."""


async def cost_of(work: Callable[[], Awaitable[object]]) -> Cost:
    """Do something, and measure what it takes."""
    begun, cpu = time.perf_counter(), time.process_time()
    async with LoopLag().measure() as lag:
        await work()
    return Cost(time.perf_counter() - begun, time.process_time() - cpu, lag.longest)


async def bare_list(client: APIClient, kinds: tuple[Watched, ...]) -> None:
    """Read all pages of some kinds, at the same time as a replica does, and keep nothing."""

    async def read(each: Watched) -> None:
        with contextlib.suppress(APIError):  # the kind is not installed
            async for _ in raw_pages(client, each.resource, each.namespace, each.query, limit=PAGE):
                pass

    gc.disable()  # as while a replica reads the cluster
    try:
        await asyncio.gather(*map(read, kinds))
    finally:
        gc.enable()


async def measure(
    client: APIClient, change: Callable[[], Coroutine[Any, Any, None]]
) -> tuple[list[Figure], ClusterSize]:
    """All figures of one replica, and those that a page shows for this size of a cluster.

    Args:
        client: Talks to the API server.
        change: Lets pods come and go until it is cancelled.
    """
    kinds = watched_kinds(OPERATOR_NAMESPACES)
    before = await cost_of(lambda: bare_list(client, kinds))
    at_rest = live.resident()
    sync = Sync(client)

    async def read() -> None:
        sync.start(OPERATOR_NAMESPACES)
        await sync.wait_for_first()

    synced = await cost_of(read)
    warmed = await cost_of(lambda: asyncio.to_thread(warm_up, sync.view, DEFAULTS))
    ready = live.highest()
    gc.collect()  # as a server does when it is ready
    gc.freeze()
    after = await cost_of(lambda: bare_list(client, kinds))
    bare, bare_cpu = (before.seconds + after.seconds) / 2, (before.cpu + after.cpu) / 2
    bare_lag = max(before.lag, after.lag)
    figures = [
        Figure("ready: read and warmed up", synced.seconds + warmed.seconds, bare, 1.5 * bare, "s"),
        Figure("ready: our processor time", synced.cpu + warmed.cpu, bare_cpu, 1.5 * bare_cpu, "s"),
        Figure("event loop held while the cluster is read", synced.lag, bare_lag, 50, "ms"),
        Figure("event loop held during the warm-up", warmed.lag, bare_lag, 50, "ms"),
    ]
    explained = await explanations(sync, bare_cpu, bare_lag)
    steady = await steady_state(sync, change)
    figures += [
        *explained,
        Figure("event loop held while pods come and go", steady.cost.lag, bare_lag, 50, "ms"),
        Figure("the longest review of a claim meanwhile", steady.claims[-1], bare_lag, 50, "ms"),
        *await charges(client),
    ]
    audit = AuditRound(client, sync.view, lambda: DEFAULTS)
    pods = await cost_of(lambda: bare_list(client, tuple(each for each in kinds if each.kind == "Pod")))
    audited = await cost_of(audit.round)
    devices = DeviceRound(sync.view, lambda: DEFAULTS)
    await devices.round()
    counted = await cost_of(devices.round)
    scraped = await cost_of(partial(asyncio.to_thread, Exposition(tuple(devices.collect()), is_open_metrics=True).text))
    figures += [
        Figure("audit: processor time, without reading the pods", audited.cpu - pods.cpu, pods.cpu, 10, "s"),
        Figure("event loop held during the audit", audited.lag, pods.lag, 50, "ms"),
        Figure("devices by state: processor time of a count", counted.cpu, pods.cpu, 5, "s"),
        Figure("devices by state: processor time of a scrape", scraped.cpu, pods.cpu, 1, "s"),
        Figure("event loop held by both", max(counted.lag, scraped.lag), pods.lag, 50, "ms"),
        Figure("memory when ready, at most", ready, at_rest, 300 + LIBRARY, "MiB"),
        Figure("memory after explanations and an audit, at most", live.highest(), at_rest, 400 + LIBRARY, "MiB"),
    ]
    await sync.close()
    size = ClusterSize(
        nodes=NODES,
        gpus=NODES * GPUS,
        pods=PODS,
        ready_cpu_s=synced.cpu + warmed.cpu,
        ready_mib=ready - LIBRARY,
        most_mib=live.highest() - LIBRARY,
        converted_p50_ms=steady.pods[len(steady.pods) // 2],
        converted_p99_ms=steady.pods[len(steady.pods) * 99 // 100],
        claim_p50_ms=steady.claims[len(steady.claims) // 2],
        claim_p99_ms=steady.claims[len(steady.claims) * 99 // 100],
        changes_per_second=steady.changes / steady.cost.seconds,
        steady_percent=steady.cost.cpu / steady.cost.seconds * 100,
        explain_cpu_s=explained[0].measured,
        audit_cpu_s=audited.cpu - pods.cpu,
    )
    return figures, size


async def explanations(sync: Sync, bare_cpu: float, bare_lag: float) -> list[Figure]:
    """The time of explanations, in a thread as a replica computes them; the first one reads the cluster."""
    figures, lags = [], []
    for name, document in QUESTIONS.items():
        async with LoopLag().measure() as lag:
            seconds = await run_aside(partial(explain_template, document, sync.view), 60, lambda: None)
        lags.append(lag.longest)
        figures.append(Figure(f"explain: {name}", seconds, bare_cpu, 1, "s"))
    return [*figures, Figure("event loop held during explanations", max(lags), bare_lag, 50, "ms")]


def explain_template(document: dict[str, Any], view: ClusterView) -> float:
    """Explain a ResourceClaimTemplate; returns the seconds of the processor that it took."""
    begun = time.thread_time()
    (question,) = outcome.questions(document, "team-a", view, DEFAULTS)
    explanation.explain(question, view, DEFAULTS)
    return time.thread_time() - begun


def device_class(number: int) -> dict[str, Any]:
    """The class of NVIDIA's GPUs."""
    found: dict[str, Any] = next(
        each
        for each in yaml.safe_load(digests.DEVICE_CLASSES.read_text())["items"]
        if each["metadata"]["name"] == "gpu.nvidia.com"
    )
    return found


@dataclass(frozen=True, slots=True)
class Steady:
    """The cost of the steady state, changes of kept pods, and sorted CPU milliseconds of reviews."""

    cost: Cost
    changes: int
    claims: list[float]
    pods: list[float]


async def steady_state(sync: Sync, change: Callable[[], Coroutine[Any, Any, None]]) -> Steady:
    """Review claims and pods to convert while pods come and go.

    Each review finds digests outdated by the changes.
    """
    reviews: dict[str, list[float]] = {"claim": [], "convert": []}
    pods = next(each.store for each in sync.caches if each.watched.kind == "Pod")
    version = pods.version

    async def answer_reviews() -> None:
        changing = asyncio.create_task(change())
        for number in range(2 * REVIEWS):
            kind = ("claim", "convert")[number % 2]
            begun = time.thread_time()
            review(digests.REQUESTS[kind], sync.view, DEFAULTS)
            reviews[kind].append((time.thread_time() - begun) * 1000)
            await asyncio.sleep(STEADY / REVIEWS / 2)
        changing.cancel()
        await asyncio.gather(changing, return_exceptions=True)

    cost = await cost_of(answer_reviews)
    changes = pods.version - version
    if not changes:
        raise AssertionError("no pod changed in the steady state")
    return Steady(cost, changes, sorted(reviews["claim"]), sorted(reviews["convert"]))


async def charges(client: APIClient) -> list[Figure]:
    """Charges in a namespace with 5,000 open ones, beside bare reads and writes of the same GPUQuota."""
    path, status = (RESOURCES["GPUQuota"].path(CHARGED, *parts) for parts in (("gpu",), ("gpu", "status")))
    writer = LedgerWriter(client, run=LedgerRunner())

    async def write_bare() -> None:
        for _ in range(CHARGES):
            await client.put(status, await client.get(path))

    async def charge() -> None:
        for number in range(ROOM.charges - CHARGES, ROOM.charges):
            verdict = await writer.charge(
                LedgerKey.of_namespace(CHARGED), lambda _, number=number: pod_charge(number), enforced=True
            )
            if not getattr(verdict, "allowed", False):
                raise AssertionError(f"a charge was refused: {verdict}")

    bare, charged = await cost_of(write_bare), await cost_of(charge)
    each, control = charged.cpu / CHARGES * 1000, bare.cpu / CHARGES * 1000
    return [
        Figure("a charge beside 5,000: processor time", each, control, 50, "ms"),
        Figure("event loop held by charges beside 5,000", charged.lag, bare.lag, 50, "ms"),
    ]


def pod_charge(number: int) -> Charge:
    """The charge of a pod with two GPUs of a claim."""
    bill = Bill({"all": Fraction(2)}, {"gpus": Fraction(2), "devices": Fraction(2)})
    name = f"train-{number // 20:05}-{number:06x}"
    return Charge(f"{number:08x}-0000-4000-a000-{number:012x}", "Pod", CHARGED, name, {"gpu": bill})


def gpu_quota(number: int) -> dict[str, Any]:
    """The GPUQuota of a namespace; that of the first has almost as many open charges as it has room for."""
    metadata = {
        "name": "gpu",
        "namespace": f"team-{number:03}",
        "uid": f"{number:08x}-0000-4000-b000-{number:012x}",
        "resourceVersion": VERSION,
        "creationTimestamp": "2026-11-01T00:00:00Z",
        "generation": 1,
    }
    head = {"apiVersion": RESOURCES["GPUQuota"].api_version, "kind": "GPUQuota"}
    document = {**head, "metadata": metadata, "spec": {"limits": [{"name": "all", "gpus": 100_000}]}}
    quota = parse_quota(document)
    ledger = recount(Ledger(), quota, Snapshot({}, {}, "1", "1")) or Ledger()
    for each in range(ROOM.charges - CHARGES if metadata["namespace"] == CHARGED else 0):
        charged = ledger.charge(pod_charge(each), quota, time="2026-11-24T00:00:00Z", call="bench")
        ledger = charged if isinstance(charged, Ledger) else ledger
    return {**document, "status": ledger.status(quota, 1)}


@contextlib.contextmanager
def own_server() -> Iterator[tuple[str, str]]:
    """The server of `live.py` in a process of its own; yields a kubeconfig, and an empty text for etcd."""
    command = [sys.executable, __file__, "--serve"]
    with (
        subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server,
        tempfile.TemporaryDirectory() as folder,
    ):
        try:
            port = int((server.stdout or sys.stdin).readline())
            yield live.kubeconfig(folder, port), ""
        finally:
            server.terminate()


async def come_and_go(objects: EtcdObjects) -> None:
    """Create pods that request GPUs, and delete each a second later."""
    number, first = MADE["Pod"][1], MADE["Pod"][1]
    while True:
        made = pod(number % 1000)
        made["metadata"]["name"] = f"new-{number}"
        made["metadata"]["uid"] = f"{number:08x}-0000-4000-8000-{number:012x}"
        await objects.write("Pod", iter([made]))
        if number - first >= CHANGES:
            gone = pod((number - CHANGES) % 1000)
            gone["metadata"]["name"] = f"new-{number - CHANGES}"
            await objects.delete("Pod", gone)
        number += 1
        await asyncio.sleep(1 / CHANGES)


async def run(kubeconfig: str, etcd: str) -> tuple[list[Figure], ClusterSize]:
    """Measure with an API server; one with an etcd is filled first."""
    client = await APIClient.connect(kubeconfig)
    try:
        if not etcd:
            return await measure(client, lambda: client.get("/steady"))
        await define_quotas(client)
        async with aiohttp.ClientSession() as session:
            objects, begun = EtcdObjects(etcd, session), time.perf_counter()
            await objects.fill(MADE)
            print(f"objects written in {time.perf_counter() - begun:.0f} s", flush=True)
            return await measure(client, lambda: come_and_go(objects))
    finally:
        await client.close()


def main() -> int:
    """Print the table; 1 if a limit is missed."""
    assets = os.environ.get("KUBEBUILDER_ASSETS", "")
    print(f"API server: {'kube-apiserver' if assets else 'the server of this benchmark'}", flush=True)
    with real_api_server(Path(assets)) if assets else own_server() as (kubeconfig, etcd):
        figures, size = asyncio.run(run(kubeconfig, etcd))
    print(f"     {'':58}{'measured':>9}{'control':>10}{'limit':>9}")
    print(*figures, sep="\n", flush=True)
    print(f"{size.changes_per_second:.0f} changes of kept pods a second: {size.steady_percent:.0f} % of one core")
    if "--write" in sys.argv:
        write_size(size)
    return int(NODES == LIMITED and any(figure.measured > figure.limit for figure in figures))


if __name__ == "__main__":
    MADE["Namespace"] = (namespace, NAMESPACES)
    live.RESTARTS = 2 * CHANGES
    MADE["DeviceClass"] = (device_class, 1)
    MADE["GPUQuota"] = (gpu_quota, QUOTAS)
    set_up_interpreter()
    load_rules()
    sys.exit(asyncio.run(live.serve()) if "--serve" in sys.argv else main())
