"""Latency of the webhook: its own process, real AdmissionReviews over TLS, connections kept alive.

    python benchmarks/webhook_latency.py

Prints, for a GPU pod that is converted and for one without GPUs, each about 8 KB, and for 1 and 16 connections: the
median and the 99th percentile of the time to an answer, and answers per second. Everything stays on the loopback
interface and ends by itself. The client takes a core of its own; with fewer than two, it measures itself too.
"""

from __future__ import annotations

import asyncio
import base64
import json
import ssl
import statistics
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from policies.settings import DEFAULTS
from webhook.cluster.manifests import ManifestsView
from webhook.server.config import SelfSigned, ServerConfig
from webhook.server.lifecycle import run
from webhook.server.log_handler import configure
from webhook.server.service import Service

if TYPE_CHECKING:
    from asyncio import StreamReader, StreamWriter
    from asyncio.subprocess import Process

    from webhook.server.listeners import Ready

CLUSTER = Path(__file__).parents[1] / "examples" / "cluster"
POD_BYTES = 8000
WARM_UP = 300
REQUESTS = 3000
ROUNDS = 3


def main() -> None:
    """Serve, if told so; otherwise start a server and measure it."""
    if sys.argv[1:] == ["serve"]:
        asyncio.run(run_server())
    else:
        asyncio.run(measure())


async def run_server() -> None:
    """Serve the cluster of the examples, as `gpu-admission serve` does, and tell where on stdout."""

    def tell(ready: Ready) -> None:
        print(json.dumps({"port": ready.port, "ca": (ready.ca_pem or b"").decode()}), flush=True)

    configure()
    documents = (
        document
        for file in sorted(CLUSTER.glob("*.yaml"))
        for document in yaml.load_all(file.read_text(), yaml.CSafeLoader)
    )
    config = ServerConfig(certificate=SelfSigned(), port=0, probe_port=0, drain_delay=0)
    await run(Service(config, ManifestsView(document for document in documents if document), DEFAULTS), tell)


async def measure() -> None:
    """Post reviews to a server of our own, and print a table."""
    server = await asyncio.create_subprocess_exec(
        sys.executable, __file__, "serve", stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL
    )
    try:
        told = json.loads(await told_by(server))
        context = ssl.create_default_context(cadata=told["ca"])
        print(f"{'pod':<12} {'bytes':>6} {'connections':>12} {'p50':>9} {'p99':>9} {'per second':>11}")
        for name, gpus in (("GPU", 2), ("without GPU", 0)):
            call = call_for(review_of(pod(gpus)))
            await check(told["port"], context, call, converted=bool(gpus))
            for connections in (1, 16):
                rounds = [await load(told["port"], context, call, connections) for _ in range(ROUNDS)]
                p50, p99, rate = (statistics.median(column) for column in zip(*rounds, strict=True))
                size = len(json.dumps(pod(gpus)))
                print(f"{name:<12} {size:>6} {connections:>12} {p50:>6.0f} us {p99:>6.0f} us {rate:>11.0f}")
    finally:
        if server.returncode is None:
            server.terminate()
        await server.wait()


async def told_by(server: Process) -> bytes:
    """The line in which the server tells where it is."""
    if server.stdout is None or not (line := await server.stdout.readline()):
        raise SystemExit("the server did not start; run this script with the argument serve to see why")
    return line


def pod(gpus: int) -> dict[str, Any]:
    """A pod as a job controller makes it, with a usual amount of everything."""
    resources = {"cpu": "8", "memory": "64Gi", **({"nvidia.com/gpu": str(gpus)} if gpus else {})}
    env = [{"name": f"SETTING_{number}", "value": "x" * 40} for number in range(30)]
    container = {
        "name": "train",
        "image": "registry.example.com/team-a/train:1.2.3",
        "args": ["--epochs", "90"],
        "env": env,
        "resources": {"limits": resources, "requests": dict(resources)},
        "volumeMounts": [{"name": "data", "mountPath": "/data"}],
    }
    document: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "generateName": "train-",
            "namespace": "team-a",
            "labels": {"app": "train"},
            "annotations": {"team-a.example.com/notes": ""},
        },
        "spec": {
            "containers": [container],
            "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}],
            "nodeSelector": {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"} if gpus else {},
        },
    }
    notes = document["metadata"]["annotations"]
    notes["team-a.example.com/notes"] = "n" * (POD_BYTES - len(json.dumps(document)))
    return document


def review_of(document: dict[str, Any]) -> dict[str, Any]:
    """The AdmissionReview of its creation."""
    return {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {
            "uid": "705ab4f5-6393-11e8-b7cc-42010a800002",
            "kind": {"group": "", "version": "v1", "kind": "Pod"},
            "namespace": "team-a",
            "operation": "CREATE",
            "userInfo": {"username": "system:serviceaccount:kube-system:job-controller"},
            "object": document,
        },
    }


def call_for(review: dict[str, Any]) -> bytes:
    """The bytes of the whole call, made once so that the client costs little."""
    body = json.dumps(review).encode()
    head = (
        "POST /convert-pods?timeout=10s HTTP/1.1\r\nHost: localhost\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


async def check(port: int, context: ssl.SSLContext, call: bytes, *, converted: bool) -> None:
    """Make sure that what is measured is what it should be."""
    reader, writer = await asyncio.open_connection("localhost", port, ssl=context)
    response = json.loads(await ask(reader, writer, call))["response"]
    patch = json.loads(base64.b64decode(response["patch"])) if "patch" in response else []
    if not response["allowed"] or bool(patch) != converted:
        raise SystemExit(f"the webhook answered something else than expected: {response}")
    writer.close()
    await writer.wait_closed()


async def load(port: int, context: ssl.SSLContext, call: bytes, connections: int) -> tuple[float, float, float]:
    """Keep connections busy; return the median, the 99th percentile (both in us) and calls per second."""
    opened = [await asyncio.open_connection("localhost", port, ssl=context) for _ in range(connections)]
    await asyncio.gather(*(repeat(*streams, call, WARM_UP // connections) for streams in opened))
    begin = time.perf_counter()
    times = await asyncio.gather(*(repeat(*streams, call, REQUESTS // connections) for streams in opened))
    seconds = time.perf_counter() - begin
    for _, writer in opened:
        writer.close()
        await writer.wait_closed()
    every = sorted(taken * 1e6 for one in times for taken in one)
    return every[len(every) // 2], every[len(every) * 99 // 100], len(every) / seconds


async def repeat(reader: StreamReader, writer: StreamWriter, call: bytes, times: int) -> list[float]:
    """Make the same call so many times, one after the other; gives the seconds each took."""
    taken = []
    for _ in range(times):
        begin = time.perf_counter()
        await ask(reader, writer, call)
        taken.append(time.perf_counter() - begin)
    return taken


async def ask(reader: StreamReader, writer: StreamWriter, call: bytes) -> bytes:
    """Make a call and read its answer's body."""
    writer.write(call)
    head = await reader.readuntil(b"\r\n\r\n")
    if not head.startswith(b"HTTP/1.1 200 "):
        raise SystemExit(f"the webhook answered {head.decode()}")
    length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
    return await reader.readexactly(length)


if __name__ == "__main__":
    main()
