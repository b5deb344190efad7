"""The CPU of calls, beside a bare aiohttp handler: TLS, orjson and a constant patch.

    python benchmarks/calls.py [REVIEW...]

Each review of `KINDS` is sent in turns to a server of ours and to the bare handler; names and uids differ from request to
request. Prints the CPU of a request in each process, and their ratio, the median of the rounds.
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
import ssl
import statistics
import sys
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson
from aiohttp import web

from benchmarks.webhook_latency import ask, call_for, pod, review_of, told_by
from certs import issue_serving, make_authority
from webhook.server.tls import server_context

if TYPE_CHECKING:
    from collections.abc import Iterator

ROUNDS = 9
REQUESTS = 300
_PATCH = base64.b64encode(b'[{"op":"add","path":"/metadata/labels/a","value":"b"}]').decode()


def main() -> None:
    """Serve the bare handler if the argument is `bare`; otherwise measure."""
    if sys.argv[1:] == ["bare"]:
        asyncio.run(serve_bare())
    else:
        asyncio.run(measure(sys.argv[1:] or list(KINDS)))


async def serve_bare() -> None:
    """Serve a handler that reads a review and answers with a constant patch."""
    now = datetime.now(UTC)
    authority = make_authority("bare", now=now)
    pair = issue_serving(authority, ["localhost"], now=now)

    async def handle(request: web.Request) -> web.Response:
        review = orjson.loads(await request.read())
        response = {"uid": review["request"]["uid"], "allowed": True, "patchType": "JSONPatch", "patch": _PATCH}
        answer = {"apiVersion": review["apiVersion"], "kind": review["kind"], "response": response}
        return web.Response(body=orjson.dumps(answer), content_type="application/json")

    app = web.Application()
    app.router.add_post("/{entry}", handle)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, "localhost", 0, ssl_context=server_context(pair))
    await site.start()
    port = runner.addresses[0][1]
    print(json.dumps({"port": port, "ca": authority.certificate_pem.decode()}), flush=True)
    await asyncio.Event().wait()


async def measure(kinds: list[str]) -> None:
    """Send each kind of review to both servers in turns, and print a table."""
    ours = await start_server(str(Path(__file__).with_name("webhook_latency.py")), "serve")
    bare = await start_server(__file__, "bare")
    try:
        print(f"{'review':<34} {'bare':>8} {'ours':>8} {'ratio':>6}")
        for kind in kinds:
            entry, document = KINDS[kind]
            rounds = []
            for number in range(ROUNDS + 1):
                costs = [await cost(server, entry, document) for server in (bare, ours)]
                if number:
                    rounds.append(costs)
            ratio = statistics.median(of_ours / of_bare for of_bare, of_ours in rounds)
            of_bare, of_ours = (statistics.median(costs) for costs in zip(*rounds, strict=True))
            print(f"{kind:<34} {of_bare:>5.0f} us {of_ours:>5.0f} us {ratio:>6.2f}", flush=True)
    finally:
        for server in (ours, bare):
            await stop_server(server)


@dataclass(frozen=True)
class Server:
    """A server process, and a connection to it."""

    process: asyncio.subprocess.Process
    streams: tuple[asyncio.StreamReader, asyncio.StreamWriter]

    @property
    def nanoseconds(self) -> int:
        """The CPU time of all threads of the process."""
        threads = Path(f"/proc/{self.process.pid}/task").glob("*/schedstat")
        return sum(int(thread.read_text().split()[0]) for thread in threads)


async def start_server(*command: str) -> Server:
    """Run a script that serves and tells where, and connect to it."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, *command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL
    )
    told = json.loads(await told_by(process))
    context = ssl.create_default_context(cadata=told["ca"])
    return Server(process, await asyncio.open_connection("localhost", told["port"], ssl=context))


async def stop_server(server: Server) -> None:
    """End a server."""
    server.process.terminate()
    await server.process.wait()


async def cost(server: Server, entry: str, document: dict[str, Any]) -> float:
    """Microseconds of CPU for one request."""
    calls = list(calls_of(entry, document, REQUESTS))
    begin = server.nanoseconds
    for call in calls:
        await ask(*server.streams, call)
    return (server.nanoseconds - begin) / len(calls) / 1e3


def calls_of(entry: str, document: dict[str, Any], number: int) -> Iterator[bytes]:
    """Calls of an entry for an object whose name and uid differ from call to call."""
    for _ in range(number):
        name = os.urandom(5).hex()
        metadata = {**document["metadata"], "name": f"train-{name}", "uid": name}
        review = review_of({**document, "metadata": metadata})
        group, _, version = document["apiVersion"].rpartition("/")
        review["request"] |= {
            "uid": name,
            "name": metadata["name"],
            "namespace": metadata["namespace"],
            "kind": {"group": group, "version": version, "kind": document["kind"]},
        }
        yield call_for(review).replace(b"/convert-pods?", f"/{entry}?".encode())


def _mig() -> dict[str, Any]:
    document = pod(0)
    for amounts in document["spec"]["containers"][0]["resources"].values():
        amounts["nvidia.com/mig-1g.10gb"] = "1"
    return document


def _pod_elsewhere(document: dict[str, Any]) -> dict[str, Any]:
    return {**document, "metadata": {**document["metadata"], "namespace": "team-legacy"}}


_CLAIM = {
    "apiVersion": "resource.k8s.io/v1",
    "kind": "ResourceClaim",
    "metadata": {"name": "gpu", "namespace": "team-a"},
    "spec": {
        "devices": {
            "requests": [
                {
                    "name": "gpu",
                    "exactly": {
                        "deviceClassName": "gpu.nvidia.com",
                        "selectors": [{"cel": {"expression": 'device.attributes["gpu.nvidia.com"].type == "gpu"'}}],
                    },
                }
            ]
        }
    },
}
KINDS = {
    "convert-pods, GPU": ("convert-pods", pod(2)),
    "convert-pods, MIG": ("convert-pods", _mig()),
    "place-pods, GPU": ("place-pods", _pod_elsewhere(pod(2))),
    "check-pods, GPU": ("check-pods", _pod_elsewhere(pod(2))),
    "guard-pods, no GPU": ("guard-pods", _pod_elsewhere(pod(0))),
    "claims": ("claims", _CLAIM),
}
"""The entry that is called, and the object."""


if __name__ == "__main__":
    main()
