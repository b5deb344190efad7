"""Memory of a replica with 1,200 connections on which no request comes, beside what they may take."""

from __future__ import annotations

import asyncio
import resource
import ssl

from benchmarks.figures import ALLOWANCE, Figure, Theme, figure_of_rounds
from benchmarks.servers import WEBHOOK, server_process

CONNECTIONS = 1_200
MOST_MEBIBYTES = 60


THEME = Theme(
    title="Silent connections",
    text="""What 1,200 connections on which no request comes add to the memory of a replica: silent from the beginning, or after
their TLS handshake. The control is what they may take.""",
)


def measure() -> list[Figure]:
    """Memory of connections that are silent from the beginning, or after their TLS handshake."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return [
        figure_of_rounds(
            name,
            [(asyncio.run(added_mebibytes(with_tls=with_tls)), MOST_MEBIBYTES)],
            unit="MiB",
            beside=ALLOWANCE,
            aim=0.9,
            limit=1.0,
        )
        for name, with_tls in (("silent connections", False), ("silent connections with TLS", True))
    ]


async def added_mebibytes(*, with_tls: bool) -> float:
    """Mebibytes that a server takes more with the connections than without."""
    async with server_process(*WEBHOOK) as server:
        context = ssl.create_default_context(cadata=server.ca) if with_tls else None
        name = "localhost" if with_tls else None
        before = server.mebibytes
        writers = []
        try:
            for number in range(CONNECTIONS):
                # The limit of an address is below their number.
                source = f"127.0.0.{1 + number % 4}", 0
                _, writer = await asyncio.open_connection(
                    "127.0.0.1", server.port, ssl=context, server_hostname=name, local_addr=source
                )
                writers.append(writer)
            # Accepted after all of them, so an answer means that the server knows them all.
            _, writer = await server.connect()
            writers.append(writer)
            return server.mebibytes - before
        finally:
            for writer in writers:
                writer.transport.abort()
