"""Memory of a replica with 1,200 connections on which nothing comes, beside what they may take."""

from __future__ import annotations

import asyncio
import json
import resource
import ssl
import sys

from benchmarks.check import Ratio
from benchmarks.webhook_latency import told_by
from testbed.memory import resident_mebibytes

CONNECTIONS = 1_200
MOST_MEBIBYTES = 60


def ratios() -> list[Ratio]:
    """Memory of connections that are silent from the beginning, or after their TLS handshake."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return [
        Ratio(f"memory of {CONNECTIONS:,} {name}", asyncio.run(measure(with_tls=with_tls)), MOST_MEBIBYTES, 1, "MiB")
        for name, with_tls in (("silent connections", False), ("silent connections with TLS", True))
    ]


async def measure(*, with_tls: bool) -> float:
    """Mebibytes that a server takes more with the connections than without."""
    server = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "benchmarks.webhook_latency",
        "serve",
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    writers = []
    try:
        told = json.loads(await told_by(server))
        context = ssl.create_default_context(cadata=told["ca"]) if with_tls else None
        port, before = told["port"], resident_mebibytes(server.pid)
        for _ in range(CONNECTIONS):
            # The limit of an address is below their number.
            source = f"127.0.0.{1 + len(writers) % 4}", 0
            name = "localhost" if with_tls else None
            _, writer = await asyncio.open_connection(
                "127.0.0.1", port, ssl=context, server_hostname=name, local_addr=source
            )
            writers.append(writer)
        # Accepted after all of them, so an answer means that the server knows them all.
        last = ssl.create_default_context(cadata=told["ca"])
        _, writer = await asyncio.open_connection("localhost", port, ssl=last)
        writers.append(writer)
        return resident_mebibytes(server.pid) - before
    finally:
        for writer in writers:
            writer.transport.abort()
        server.terminate()
        await server.wait()
