"""The time that conversions of one namespace wait while another namespace sends expensive requests.

A server of its own, eight clients in one process, and one client that has pods of `team-a` converted.

    python -m benchmarks.themes.neighbours KIND...       prints the figures of kinds, also of those without a limit
"""

from __future__ import annotations

import asyncio
import ssl
import statistics
import sys
import time
from typing import TYPE_CHECKING, Any

from benchmarks.calls import KINDS as CALLS
from benchmarks.calls import call_for, post, review_of
from benchmarks.devices import example_cluster
from benchmarks.figures import Figure, Theme, figure_of_rounds
from benchmarks.pods import claim
from benchmarks.servers import address_line, serve_webhook, server_process

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

HOSTILE = "team-hostile"
_MODULE = "benchmarks.themes.neighbours"
CLIENTS = 8
WARM_UP = 200
LOADED_SECONDS = 8.0
LIMITED = ("long selectors", "nested loops", "pods with quota")
"""Kinds of hostile requests that have a limit. Large bodies do not: parsing holds the interpreter."""
ORDINARY = "conversions"
"""What the clients of the control send."""
_UNIQUE = "10000000"
"""Stands in a hostile request for a number that is another one each time, so that no cache knows it."""

THEME = Theme(
    title="Noisy neighbours",
    text="""How long conversions of one namespace wait while eight clients of another namespace send expensive requests: their
99th percentile, beside the 99th percentile while the eight clients send ordinary pods to convert. `long selectors` are claims with
32 selectors of 330 terms, `nested loops` claims whose selectors loop over 330 times 330 numbers, `pods with quota` pods with 32 claims
from templates in a namespace with a GPUQuota. *Hostile answers* is how many requests of the eight clients were answered
meanwhile.""",
)


def measure() -> list[Figure]:
    """One figure for each kind of hostile CEL."""
    return figures_of(LIMITED)


def figures_of(kinds: Sequence[str]) -> list[Figure]:
    """One figure for each kind of hostile requests."""
    _, control, _ = asyncio.run(times_beside(ORDINARY))
    figures = []
    for kind in kinds:
        median, p99, answered = asyncio.run(times_beside(kind))
        more = {"p50 in ms": (median, None), "hostile answers": (float(answered), None)}
        figures.append(
            figure_of_rounds(
                kind, [(p99, control)], unit="ms (p99)", beside="ordinary neighbours", aim=3.0, limit=8.0, more=more
            )
        )
    return figures


def main() -> None:
    """Serve or be hostile, if told so; otherwise measure."""
    if sys.argv[1:] == ["serve"]:
        asyncio.run(serve_webhook(_cluster()))
    elif sys.argv[1:2] == ["hostile"]:
        asyncio.run(be_hostile(sys.argv[2], int(sys.argv[3])))
    else:
        print(*figures_of(sys.argv[1:]), sep="\n")


async def times_beside(kind: str) -> tuple[float, float, int]:
    """Median and 99th percentile (ms) of conversions beside such clients, and the number of their answers."""
    async with server_process(_MODULE, "serve") as server:
        streams = await server.connect()
        entry, document = CALLS["converted pod"]
        call = call_for(entry, review_of(document))
        for _ in range(WARM_UP):
            await post(streams, call)
        hostile = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", _MODULE, "hostile", kind, str(server.port)),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
        )
        try:
            await address_line(hostile)
            times, end = [], time.perf_counter() + LOADED_SECONDS
            while time.perf_counter() < end:
                begin = time.perf_counter()
                await post(streams, call)
                times.append(1e3 * (time.perf_counter() - begin))
                await asyncio.sleep(0.005)
            answered, _ = await hostile.communicate(b"stop\n")
            streams[1].close()
        finally:
            if hostile.returncode is None:
                hostile.terminate()
                await hostile.wait()
        return statistics.median(times), sorted(times)[len(times) * 99 // 100], int(answered)


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
    call = call_for(entry, template)
    for unique in numbers:
        await post(streams, call.replace(_UNIQUE.encode(), str(unique).encode()))
        answered[number] += 1


def _cluster() -> Iterator[dict[str, Any]]:
    yield from example_cluster()
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


def _claim(selectors: list[str]) -> dict[str, Any]:
    return claim(*selectors, namespace=HOSTILE)


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
        review_of(_claim([f"[1].all(x,x>{_UNIQUE}{n})||" * 330 + "true" for n in range(32)])),
    ),
    "nested loops": (
        "claims",
        review_of(
            _claim([f"lists.range(330).all(x,lists.range(330).all(y,x+y>=-{_UNIQUE}{n}))" for n in range(6)]),
        ),
    ),
    "pods with quota": ("enforce-quota", review_of(_pod(resourceClaims=_CLAIMS))),
    ORDINARY: ("convert-pods", review_of(_pod())),
    "workloads of 1 MB": ("workloads", review_of(_deployment(9_000))),
    "bodies of 3 MB": (
        "place-pods",
        review_of(_pod(volumes=[{"name": f"v{n}", "emptyDir": {}} for n in range(90_000)])),
    ),
}
"""The entry that is called, and the request; each from the hostile namespace."""


if __name__ == "__main__":
    main()
