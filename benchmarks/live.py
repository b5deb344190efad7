"""The caches of a large cluster: memory, time until the first complete sync, and the cost of changes.

5,000 nodes with 40,000 GPUs in slices, 100,000 pods of which 20,000 request GPUs, each of these with an allocated claim. A
process of its own plays the API server and writes objects as big as real ones: a node 16 kB, a pod 6 kB, a slice 11 kB.
Both share the machine, so the time is what server and caches take together where there are fewer than two free cores.

Run it with `.venv/bin/python benchmarks/live.py`; the aim is 300 MiB and 10 s.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
import resource
import subprocess
import sys
import tempfile
import time
import timeit
from pathlib import Path
from typing import TYPE_CHECKING

import orjson
from aiohttp import web
from large_cluster import MADE, NODES, VERSION, node, pod

from policies.admission import load_rules
from policies.devices.published_devices import published_devices
from policies.fleet.cluster_digest import ResourceUsage, read_cluster, used_amounts
from policies.fleet.gpu_nodes import gpu_nodes
from policies.kubernetes.view import UNKNOWN
from policies.rules.settings import DEFAULTS
from webhook.cluster.client import APIClient
from webhook.cluster.resources import RESOURCES
from webhook.cluster.sync import Sync

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator
    from typing import Any

    from policies.kubernetes.view import ClusterView

HEARTBEATS, RESTARTS = 100, 100
"""Changes in each second of the steady state: of conditions of nodes, and pods with GPUs that come or go."""
STEADY = 10.0
BOOKMARKS = 30
"""Seconds between signs of life of a watch in which nothing happens."""
MIB = 1024 * 1024


class Server:
    """Lists and watches: after a GET of `/steady`, nodes report their health and pods come and go."""

    def __init__(self) -> None:
        self._steady = asyncio.Event()
        self._version = int(VERSION)
        self._quotas: dict[str, dict[str, Any]] = {}
        """Written GPUQuotas by namespace."""

    def application(self) -> web.Application:
        """An API server, so far as caches ask it."""
        app = web.Application(client_max_size=8 * MIB)
        app.router.add_get("/version", self._tell_version)
        app.router.add_get("/steady", self._begin)
        for each in RESOURCES.values():
            app.router.add_get(each.path(), self._answer(each.kind))
            if each.namespaced:
                one = each.path("namespace").replace("/namespace/", "/{namespace}/")
                app.router.add_get(one, self._answer(""))
        quota = RESOURCES["GPUQuota"].path("namespace", "gpu").replace("/namespace/", "/{namespace}/")
        app.router.add_get(quota, self._tell_quota)
        app.router.add_put(f"{quota}/status", self._write_quota)
        app.router.add_get("/{path:.*}", self._tell_not_served)
        return app

    async def _tell_not_served(self, request: web.Request) -> web.Response:
        """As kube-apiserver answers for a group that is not installed."""
        return web.Response(status=404, text="404 page not found\n")

    def _answer(self, kind: str) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
        async def answer(request: web.Request) -> web.StreamResponse:
            if "watch" in request.query:
                return await self._watch(request, kind)
            return web.Response(body=self._page(kind, request), content_type="application/json")

        return answer

    def _page(self, kind: str, request: web.Request) -> bytes:
        make, count = MADE.get(kind, (node, 0))
        first = int(request.query.get("continue", "0"))
        last = min(first + int(request.query.get("limit", "500")), count)
        more = {"continue": str(last)} if last < count else {}
        items = [make(number) for number in range(first, last)]
        return orjson.dumps({"metadata": {"resourceVersion": VERSION, **more}, "items": items})

    async def _watch(self, request: web.Request, kind: str) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(request)
        pace = {"Node": HEARTBEATS, "Pod": RESTARTS}.get(kind, 0)
        bookmark = {"kind": kind, "metadata": {"resourceVersion": VERSION}}
        while not (pace and self._steady.is_set()):
            await response.write(orjson.dumps({"type": "BOOKMARK", "object": bookmark}) + b"\n")
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._steady.wait() if pace else asyncio.sleep(BOOKMARKS + 1), BOOKMARKS)
        number = 0
        while pace:
            await asyncio.sleep(1 / pace)
            number += 1
            self._version += 1
            change, changed = _heartbeat(number) if kind == "Node" else _coming_or_going(number)
            changed["metadata"]["resourceVersion"] = str(self._version)
            changed |= {"apiVersion": "v1", "kind": kind}
            await response.write(orjson.dumps({"type": change, "object": changed}) + b"\n")
        return response

    def _quota(self, namespace: str) -> dict[str, Any]:
        make, _ = MADE["GPUQuota"]
        return self._quotas.get(namespace) or make(int(namespace.removeprefix("team-")))

    async def _tell_quota(self, request: web.Request) -> web.Response:
        return web.json_response(body=orjson.dumps(self._quota(request.match_info["namespace"])))

    async def _write_quota(self, request: web.Request) -> web.Response:
        namespace, document = request.match_info["namespace"], orjson.loads(await request.read())
        if document["metadata"]["resourceVersion"] != self._quota(namespace)["metadata"]["resourceVersion"]:
            return web.json_response({"kind": "Status", "code": 409, "reason": "Conflict"}, status=409)
        self._version += 1
        document["metadata"]["resourceVersion"] = str(self._version)
        self._quotas[namespace] = document
        return await self._tell_quota(request)

    async def _begin(self, request: web.Request) -> web.Response:
        self._steady.set()
        return web.Response()

    async def _tell_version(self, request: web.Request) -> web.Response:
        return web.json_response({"major": "1", "minor": "36"})


def _heartbeat(number: int) -> tuple[str, dict[str, Any]]:
    """A node reports its health."""
    changed = node(number % NODES)
    changed["status"]["conditions"][0]["lastHeartbeatTime"] = str(number)
    return "MODIFIED", changed


def _coming_or_going(number: int) -> tuple[str, dict[str, Any]]:
    """A new pod that requests GPUs; every other time, the end of one that came 100 changes earlier."""
    is_end = bool(number % 2)
    new = number - 101 if is_end else number
    changed = pod(new % 1000)
    changed["metadata"] |= {"name": f"new-{new}", "uid": f"new-{new}"}
    return ("DELETED" if is_end else "ADDED"), changed


async def serve() -> None:
    """Serve on a free port, and print it."""
    runner = web.AppRunner(Server().application())
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    print(site.port, flush=True)
    await asyncio.Event().wait()


def resident() -> float:
    """MiB that this process has in memory now."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / MIB


def highest() -> float:
    """MiB that this process had in memory at most."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def digests(view: ClusterView) -> Iterator[tuple[str, float]]:
    """Milliseconds that each digest of the cluster takes, when something that it rests on has changed."""
    for function in (published_devices, read_cluster, used_amounts):
        begun = time.perf_counter()
        view.derive(function)
        yield function.__name__, (time.perf_counter() - begun) * 1000
    begun = time.perf_counter()
    gpu_nodes(view)
    yield "gpu_nodes", (time.perf_counter() - begun) * 1000


def kubeconfig(folder: str, port: int) -> str:
    """A kubeconfig for the server, written into a folder."""
    written = Path(folder, "config")
    cluster = {"name": "large", "cluster": {"server": f"http://127.0.0.1:{port}"}}
    context = {"name": "large", "context": {"cluster": "large", "user": "nobody"}}
    config = {"clusters": [cluster], "contexts": [context], "users": [{"name": "nobody", "user": {}}]}
    written.write_text(json.dumps({"current-context": "large", "kind": "Config", "apiVersion": "v1", **config}))
    return str(written)


async def measure(port: int) -> None:
    """Read the cluster, and print what that cost."""
    before = resident()
    with tempfile.TemporaryDirectory() as folder:
        client = await APIClient.connect(kubeconfig(folder, port))
    sync = Sync(client)
    begun, cpu = time.perf_counter(), time.process_time()
    sync.start(DEFAULTS.configuration.operator_namespaces)
    await sync.wait_for_first()
    seconds, used = time.perf_counter() - begun, time.process_time() - cpu
    print(f"before                 {before:7.0f} MiB")
    print(f"synced                 {resident():7.0f} MiB, at most {highest():.0f} MiB")
    print(f"time to readiness      {seconds:7.1f} s, of which {used:.1f} s of our CPU")
    for kept in sync.caches:
        if len(kept.store):
            print(f"  {kept.watched.words:30} {len(kept.store):7} objects")
        if kept.store.others is not None:
            print(f"  {'pods that are only counted':30} {len(kept.store.others):7}")
    for name, milliseconds in digests(sync.view):
        print(f"digest {name:15} {milliseconds:7.0f} ms")
    print(f"with digests           {resident():7.0f} MiB, at most {highest():.0f} MiB")
    begun = time.perf_counter()
    taken = ResourceUsage(sync.view)
    for number in range(NODES):
        taken.of(f"node-{number:05}")
    print(f"taken of all nodes     {(time.perf_counter() - begun) * 1000:7.1f} ms")
    rounds = 100_000
    for name, call in (
        ("get", lambda: sync.view.get("Namespace", "team-001")),
        ("list", lambda: sync.view.list("Node")),
        ("derive", lambda: sync.view.derive(published_devices)),
    ):
        print(f"{name:22} {timeit.timeit(call, number=rounds) / rounds * 1e6:7.2f} us")
    begun = time.perf_counter()
    gc.collect()
    print(f"a full collection      {(time.perf_counter() - begun) * 1000:7.1f} ms")
    versions = [(kept, kept.store.version) for kept in sync.caches]
    await client.get("/steady")
    cpu = time.process_time()
    await asyncio.sleep(STEADY)
    share = (time.process_time() - cpu) / STEADY * 100
    print(f"{HEARTBEATS} + {RESTARTS} events a second {share:5.1f} % of one core, {resident():.0f} MiB")
    print("changed by them       ", [kept.watched.kind for kept, version in versions if kept.store.version != version])
    assert sync.view.list("Pod") is not UNKNOWN  # noqa: S101 - a benchmark that measured nothing must not say so
    await sync.close()
    await client.close()


def main() -> None:
    """Start the server, and measure."""
    load_rules()
    with subprocess.Popen([sys.executable, __file__, "--serve"], stdout=subprocess.PIPE, text=True) as server:
        try:
            port = int((server.stdout or sys.stdin).readline())
            asyncio.run(measure(port))
        finally:
            server.terminate()


if __name__ == "__main__":
    asyncio.run(serve()) if "--serve" in sys.argv else main()
