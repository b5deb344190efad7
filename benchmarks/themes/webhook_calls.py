"""CPU of the webhook's process for one call, beside a bare handler that gets the same calls."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from benchmarks.calls import KINDS, calls_of, check_answer, post
from benchmarks.figures import Figure, Theme, figure_of_rounds
from benchmarks.servers import BARE, WEBHOOK, server_process

if TYPE_CHECKING:
    from benchmarks.figures import Pair
    from benchmarks.servers import Server, Streams

THEME = Theme(
    title="CPU of a call",
    text="""The CPU time that the webhook's process spends on one call over TLS, with a pod of 8 kB or a claim, beside a bare
handler: the same server library and TLS, the review read by orjson, and a constant patch as the answer. The objects are
those of one template: they differ in name and uid. The bare handler is what no webhook in Python can fall below.""",
)
ROUNDS = 9
REQUESTS = 300
THRESHOLDS = {
    "converted pod": (2.0, 3.0),
    "converted pod, MIG": (2.0, 3.0),
    "placed pod": (2.0, 3.0),
    "checked pod": (2.0, 3.0),
    "guarded pod without GPUs": (2.0, 3.0),
    "claim": (3.0, 5.0),
}
"""Aim and limit."""


def measure() -> list[Figure]:
    """One figure for each kind of review."""
    return asyncio.run(_measure())


async def _measure() -> list[Figure]:
    figures = []
    async with server_process(*WEBHOOK) as ours, server_process(*BARE) as bare:
        servers = [(server, await server.connect()) for server in (ours, bare)]
        for name, (entry, document) in KINDS.items():
            rounds: list[Pair] = []
            for number in range(ROUNDS + 1):
                calls = calls_of(entry, document, REQUESTS)
                of_ours, of_bare = [await _microseconds(*server, entry, calls) for server in servers]
                if number:
                    rounds.append((of_ours, of_bare))
            aim, limit = THRESHOLDS[name]
            figures.append(figure_of_rounds(name, rounds, unit="µs", beside="bare handler", aim=aim, limit=limit))
        for _, (_, writer) in servers:
            writer.close()
    return figures


async def _microseconds(server: Server, streams: Streams, entry: str, calls: list[bytes]) -> float:
    """CPU of one call, the mean of all."""
    begin = server.nanoseconds
    for call in calls:
        answer = await post(streams, call)
    spent = server.nanoseconds - begin
    check_answer(entry, answer)
    return spent / len(calls) / 1e3
