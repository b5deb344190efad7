"""What conversions of one namespace wait for while another namespace sends expensive requests.

A server of its own, eight hostile clients in one process, and one client that has pods of `team-a` converted: the 99th
percentile of the time to a conversion's answer beside the hostile clients, and the median of the same server without
them: the 99th percentile of some hundred calls is another one in each run.

    python -m benchmarks.checks.neighbours [KIND...]     medians and rates too, and kinds without a limit
"""

from __future__ import annotations

import asyncio
import json
import ssl
import sys
import time
from typing import TYPE_CHECKING, Any

import yaml

from benchmarks.check import Ratio
from benchmarks.webhook_latency import CLUSTER, ask, call_for, pod, review_of, told_by
from policies.settings import DEFAULTS
from webhook.cluster.manifests import ManifestsView
from webhook.server.config import SelfSigned, ServerConfig
from webhook.server.lifecycle import run
from webhook.server.log_handler import configure
from webhook.server.service import Service

if TYPE_CHECKING:
    from collections.abc import Iterator

    from webhook.server.listeners import Ready

HOSTILE = "team-hostile"
CLIENTS = 8
WARM_UP = 200
IDLE_CALLS = 600
LOADED_SECONDS = 12.0
MOST_TIMES = 12
LIMITED = ("long selectors", "dear selectors", "pods with quota")
"""Kinds of hostile requests that have a limit. Large bodies do not: parsing holds the interpreter."""
_UNIQUE = "10000000"
"""Stands in a hostile request for a number that is another one each time, so that no cache knows it."""


def ratios() -> list[Ratio]:
    """The 99th percentile beside each kind of hostile CEL, and the median alone."""
    measured = {kind: asyncio.run(measure(kind)) for kind in LIMITED}
    return [
        Ratio(f"conversions beside {kind}, p99", beside[1], alone[0], MOST_TIMES, "ms")
        for kind, (alone, beside, _) in measured.items()
    ]


def main() -> None:
    """Serve or be hostile, if told so; otherwise measure."""
    if sys.argv[1:] == ["serve"]:
        asyncio.run(run_server())
    elif sys.argv[1:2] == ["hostile"]:
        asyncio.run(be_hostile(sys.argv[2], int(sys.argv[3])))
    else:
        chosen = sys.argv[1:] or list(KINDS)
        print(
            f"{'hostile requests':<18} {'alone: p50':>11} {'p99':>8} {'beside: p50':>12} {'p99':>8} {'ratio':>6} {'hostile':>8}"
        )
        for kind in chosen:
            alone, beside, answered = asyncio.run(measure(kind))
            numbers = (*alone, *beside, beside[1] / alone[0])
            print(
                "{:<18} {:>8.1f} ms {:>5.1f} ms {:>9.1f} ms {:>5.1f} ms {:>6.1f} {:>8}".format(kind, *numbers, answered)
            )


async def run_server() -> None:
    """Serve the examples' cluster and the hostile namespace's objects; print the port on stdout."""

    def tell(ready: Ready) -> None:
        print(json.dumps({"port": ready.port, "ca": (ready.ca_pem or b"").decode()}), flush=True)

    configure()
    config = ServerConfig(certificate=SelfSigned(), port=0, probe_port=0, drain_delay=0)
    await run(Service(config, ManifestsView(_cluster()), DEFAULTS), tell)


async def measure(kind: str) -> tuple[tuple[float, float], tuple[float, float], int]:
    """Median and 99th percentile (ms) alone and beside hostile clients, and the hostile clients' answers."""
    script = [sys.executable, "-m", "benchmarks.checks.neighbours"]
    pipe, null = asyncio.subprocess.PIPE, asyncio.subprocess.DEVNULL
    server = await asyncio.create_subprocess_exec(*script, "serve", stdout=pipe, stderr=null)
    hostile = None
    try:
        told = json.loads(await told_by(server))
        streams = await asyncio.open_connection(
            "localhost", told["port"], ssl=ssl.create_default_context(cadata=told["ca"])
        )
        call = call_for(review_of(pod(2)))
        for _ in range(WARM_UP):
            await ask(*streams, call)
        alone = [await _call_seconds(streams, call) for _ in range(IDLE_CALLS)]
        hostile = await asyncio.create_subprocess_exec(
            *script, "hostile", kind, str(told["port"]), stdin=pipe, stdout=pipe
        )
        await told_by(hostile)
        beside, end = [], time.perf_counter() + LOADED_SECONDS
        while time.perf_counter() < end:
            beside.append(await _call_seconds(streams, call))
            await asyncio.sleep(0.005)
        answered, _ = await hostile.communicate(b"stop\n")
        streams[1].close()
        return _percentiles(alone), _percentiles(beside), int(answered)
    finally:
        for process in (hostile, server):
            if process is not None and process.returncode is None:
                process.terminate()
                await process.wait()


async def _call_seconds(streams: tuple[asyncio.StreamReader, asyncio.StreamWriter], call: bytes) -> float:
    begin = time.perf_counter()
    await ask(*streams, call)
    return time.perf_counter() - begin


def _percentiles(seconds: list[float]) -> tuple[float, float]:
    ordered = sorted(seconds)
    return ordered[len(ordered) // 2] * 1e3, ordered[len(ordered) * 99 // 100] * 1e3


async def be_hostile(kind: str, port: int) -> None:
    """Post hostile requests over eight connections until told to stop; prints how many were answered."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    answered = [0] * CLIENTS
    clients = [asyncio.create_task(_post(kind, port, context, answered, number)) for number in range(CLIENTS)]
    while not all(answered):
        await asyncio.sleep(0.05)
        for client in clients:
            if client.done():
                client.result()
    print("hostile", flush=True)
    answered[:] = [0] * CLIENTS
    await asyncio.to_thread(sys.stdin.readline)
    print(sum(answered))
    for client in clients:
        client.cancel()


async def _post(kind: str, port: int, context: ssl.SSLContext, answered: list[int], number: int) -> None:
    entry, template = KINDS[kind]
    streams = await asyncio.open_connection("localhost", port, ssl=context)
    # Eight hexadecimal digits: the length stays.
    numbers = iter(range(10_000_000 + number * 1_000_000, 99_999_999))
    call = call_for(template).replace(b"/convert-pods?", f"/{entry}?".encode())
    for unique in numbers:
        await ask(*streams, call.replace(_UNIQUE.encode(), str(unique).encode()))
        answered[number] += 1


def _cluster() -> Iterator[dict[str, Any]]:
    for file in sorted(CLUSTER.glob("*.yaml")):
        yield from (document for document in yaml.safe_load_all(file.read_text()) if document)
    yield {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": HOSTILE, "labels": {"gpu-admission.io/dra": "enabled"}},
    }
    yield {
        "apiVersion": "gpu-admission.io/v1alpha1",
        "kind": "GPUQuota",
        "metadata": {"name": "gpu", "namespace": HOSTILE},
        "spec": {"limits": [{"name": "all", "gpus": 100}]},
    }
    for number in range(32):
        claim = _claim([f"[1].all(x,x>{number})||" * 450 + "true"])
        yield {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceClaimTemplate",
            "metadata": {"name": f"hostile-{number}", "namespace": HOSTILE},
            "spec": {"spec": claim["spec"]},
        }


def _claim(*requests: list[str]) -> dict[str, Any]:
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": "hostile", "namespace": HOSTILE},
        "spec": {
            "devices": {
                "requests": [
                    {
                        "name": f"r{number}",
                        "exactly": {
                            "deviceClassName": "gpu.nvidia.com",
                            "selectors": [{"cel": {"expression": text}} for text in texts],
                        },
                    }
                    for number, texts in enumerate(requests)
                ]
            }
        },
    }


def _review(document: dict[str, Any], group: str = "") -> dict[str, Any]:
    review = review_of(document)
    review["request"] |= {"namespace": HOSTILE, "kind": {"group": group, "version": "v1", "kind": document["kind"]}}
    return review


def _pod(**spec: Any) -> dict[str, Any]:
    containers = [{"name": "main", "image": "train:1", "resources": {"limits": {"nvidia.com/gpu": "1"}}}]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "hostile", "namespace": HOSTILE},
        "spec": {"containers": containers, **spec},
    }


def _deployment(env: int) -> dict[str, Any]:
    template = _pod()
    template["spec"]["containers"][0]["env"] = [{"name": f"N{number}", "value": "x" * 80} for number in range(env)]
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "hostile", "namespace": HOSTILE},
        "spec": {
            "replicas": 1,
            "selector": {},
            "template": {"metadata": {"labels": {"a": _UNIQUE}}, "spec": template["spec"]},
        },
    }


_CLAIMS = [{"name": f"c{number}", "resourceClaimTemplateName": f"hostile-{number}"} for number in range(32)]
KINDS = {
    "long selectors": (
        "claims",
        _review(_claim([f"[1].all(x,x>{_UNIQUE}{n})||" * 330 + "true" for n in range(32)]), "resource.k8s.io"),
    ),
    "dear selectors": (
        "claims",
        _review(
            _claim([f"lists.range(330).all(x,lists.range(330).all(y,x+y>=-{_UNIQUE}{n}))" for n in range(6)]),
            "resource.k8s.io",
        ),
    ),
    "pods with quota": ("enforce-quota", _review(_pod(resourceClaims=_CLAIMS))),
    "conversions": ("convert-pods", _review(_pod())),
    "workloads of 1 MB": ("workloads", _review(_deployment(9_000), "apps")),
    "bodies of 3 MB": ("place-pods", _review(_pod(volumes=[{"name": f"v{n}", "emptyDir": {}} for n in range(90_000)]))),
}
"""The entry that is called, and the request; each from the hostile namespace."""


if __name__ == "__main__":
    main()
