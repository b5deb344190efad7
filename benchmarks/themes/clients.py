"""The webhook under 10 to 500 clients that call without a pause, in the form of Kyverno's load tests."""

from __future__ import annotations

import asyncio
import statistics
import time
from contextlib import AsyncExitStack
from itertools import cycle
from typing import TYPE_CHECKING, NamedTuple

from benchmarks.calls import KINDS, calls_of, check_answer, post
from benchmarks.figures import Figure, Theme, figure_of_rounds
from benchmarks.servers import BARE, WEBHOOK, server_process

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from benchmarks.servers import Server, Streams

THEME = Theme(
    title="10 to 500 clients",
    text="""One replica, TLS, and clients that send the next pod as soon as the last one is answered; requests/s, p50, p99
and memory, in the form that readers know from the load tests of Kyverno. Each client keeps its connection. The bare handler
gets the same calls from the same clients, in turns. The clients are one Python process, which takes a core of its own: with
few cores it is part of what is measured, of the control too.""",
    charts=("requests/s", "p50 in ms", "p99 in ms"),
)
COUNTS = (10, 50, 200, 500)
PODS = ("converted pod", "checked pod")
ROUNDS = 3
SECONDS = 1.5
"""Of one round, in which each client makes at least one call."""
CALLS = 500
"""Different calls, which take turns."""
AIM, LIMIT = 2.0, 3.0


class Load(NamedTuple):
    """The calls of one server in one round."""

    rate: float
    """Answers per second."""
    p50: float
    """Milliseconds."""
    p99: float

    @property
    def microseconds(self) -> float:
        """The time for one answer, all clients together."""
        return 1e6 / self.rate


class Target(NamedTuple):
    """A server with the connections of all clients, and the calls that it gets."""

    server: Server
    connections: Sequence[Streams]
    entry: str
    calls: Iterator[bytes]


def measure() -> list[Figure]:
    """A figure for each number of clients and kind of pod."""
    return [figure for count in COUNTS for figure in asyncio.run(_measure(count))]


async def _measure(count: int) -> list[Figure]:
    async with AsyncExitStack() as stack:
        targets = [await _target(stack, name, count) for name in ("bare handler", *PODS)]
        loads: list[list[Load]] = [[await _load(target) for target in targets] for _ in range(ROUNDS)]
        memory = [target.server.mebibytes for target in targets]
        for target in targets:
            for _, writer in target.connections:
                writer.close()
    return [_figure(count, name, loads, memory, place) for place, name in enumerate(PODS, 1)]


async def _target(stack: AsyncExitStack, name: str, count: int) -> Target:
    server = await stack.enter_async_context(server_process(*(WEBHOOK if name in PODS else BARE)))
    entry, document = KINDS[name if name in PODS else PODS[0]]
    calls = cycle(calls_of(entry, document, CALLS))
    connections = []
    for _ in range(count):
        connections.append(streams := await server.connect())
        # The server closes connections without a first request.
        await post(streams, next(calls))
    return Target(server, connections, entry, calls)


async def _load(target: Target) -> Load:
    """Keep all connections busy for the time of a round."""
    begin = time.perf_counter()
    end = begin + SECONDS
    times: list[float] = []
    await asyncio.gather(*(_client(target, streams, end, times) for streams in target.connections))
    seconds = time.perf_counter() - begin
    times.sort()
    return Load(len(times) / seconds, statistics.median(times) * 1e3, times[len(times) * 99 // 100] * 1e3)


async def _client(target: Target, streams: Streams, end: float, times: list[float]) -> None:
    while True:
        begin = time.perf_counter()
        answer = await post(streams, next(target.calls))
        now = time.perf_counter()
        times.append(now - begin)
        if now >= end:
            check_answer(target.entry, answer)
            return


def _figure(count: int, name: str, loads: list[list[Load]], memory: list[float], place: int) -> Figure:
    ours, bare = ([one[which] for one in loads] for which in (place, 0))
    return figure_of_rounds(
        name,
        [(one.microseconds, other.microseconds) for one, other in zip(ours, bare, strict=True)],
        group=f"{count} clients",
        unit="µs per request",
        beside="bare handler",
        aim=AIM,
        limit=LIMIT,
        more={
            "requests/s": _medians(ours, bare, "rate"),
            "p50 in ms": _medians(ours, bare, "p50"),
            "p99 in ms": _medians(ours, bare, "p99"),
            "memory in MiB": (memory[place], memory[0]),
        },
    )


def _medians(ours: list[Load], bare: list[Load], field: str) -> tuple[float, float]:
    one, other = (statistics.median(getattr(load, field) for load in loads) for loads in (ours, bare))
    return one, other
