"""Servers in processes of their own: ours, and the bare handler that it is compared with.

    python -m benchmarks.servers webhook     the webhook with the cluster of the examples, as `gpu-admission serve` runs it
    python -m benchmarks.servers bare        the same server library and TLS, orjson and a constant patch

A server prints its port and its CA as JSON, and serves until it is ended.
"""

from __future__ import annotations

import asyncio
import base64
import json
import ssl
import sys
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import orjson
from aiohttp import web

from benchmarks.devices import example_cluster
from certs import issue_serving, make_authority
from policies.rules.settings import DEFAULTS
from testbed.memory import resident_mebibytes
from webhook.cluster.manifests import ManifestsView
from webhook.server.config import SelfSigned, ServerConfig
from webhook.server.listeners import run
from webhook.server.logs import configure
from webhook.server.service import Service
from webhook.server.tls import server_context

if TYPE_CHECKING:
    from asyncio.subprocess import Process
    from collections.abc import AsyncIterator, Iterable

    from webhook.server.listeners import Ready


WEBHOOK = ("benchmarks.servers", "webhook")
BARE = ("benchmarks.servers", "bare")
Streams: TypeAlias = tuple[asyncio.StreamReader, asyncio.StreamWriter]
_PATCH = base64.b64encode(b'[{"op":"add","path":"/metadata/labels/a","value":"b"}]').decode()


@dataclass(frozen=True, slots=True)
class Server:
    """A server process that listens."""

    process: Process
    port: int
    ca: str

    @property
    def nanoseconds(self) -> int:
        """The CPU time of all its threads so far."""
        threads = Path(f"/proc/{self.process.pid}/task").glob("*/schedstat")
        return sum(int(thread.read_text().split()[0]) for thread in threads)

    @property
    def mebibytes(self) -> float:
        """Its resident memory."""
        return resident_mebibytes(self.process.pid)

    async def connect(self, source: str = "127.0.0.1") -> Streams:
        """A connection with TLS from an address of the loopback network."""
        context = ssl.create_default_context(cadata=self.ca)
        return await asyncio.open_connection(
            "127.0.0.1", self.port, ssl=context, server_hostname="localhost", local_addr=(source, 0)
        )


@asynccontextmanager
async def server_process(module: str, *arguments: str) -> AsyncIterator[Server]:
    """Start a module that serves, and end it afterwards."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", module, *arguments), stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL
    )
    try:
        address = json.loads(await address_line(process))
        yield Server(process, address["port"], address["ca"])
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()


async def address_line(process: Process) -> bytes:
    """The first line that a process prints.

    Raises:
        SystemExit: The process ended without one.
    """
    if process.stdout is None or not (line := await process.stdout.readline()):
        raise SystemExit("a server did not start; run its module with its arguments to see why")
    return line


async def serve_webhook(documents: Iterable[dict[str, Any]]) -> None:
    """Serve the webhook for a cluster of these objects."""

    def print_address(ready: Ready) -> None:
        print(json.dumps({"port": ready.port, "ca": (ready.ca_pem or b"").decode()}), flush=True)

    configure()
    config = ServerConfig(certificate=SelfSigned(), port=0, probe_port=0, explain_port=0, drain_delay=0)
    await run(Service(config, ManifestsView(documents), DEFAULTS), print_address)


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


if __name__ == "__main__":
    asyncio.run(serve_bare() if sys.argv[1:] == ["bare"] else serve_webhook(example_cluster()))
