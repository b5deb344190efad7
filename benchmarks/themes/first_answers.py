"""The first answer of a server, beside its later ones: how warm it is when it becomes ready."""

from __future__ import annotations

import asyncio
import json
import statistics
import time
from typing import TYPE_CHECKING, Any

from benchmarks.calls import KINDS, calls_of, post
from benchmarks.figures import Figure, Theme, figure_of_rounds
from benchmarks.servers import WEBHOOK, server_process

if TYPE_CHECKING:
    from benchmarks.servers import Streams

THEME = Theme(
    title="First answer after a start",
    text="""Time to the first answer of a new server, beside the median of 40 later answers. Each object has a label or a
selector of its own, so that no answer is known. The last column has the median for objects of one template, whose answer is
known. Median of three starts.""",
)
STARTS = 3
CALLS = 41
AIM, LIMIT = 3.0, 6.0


def measure() -> list[Figure]:
    """One figure for each kind of review."""
    return asyncio.run(_measure())


async def _measure() -> list[Figure]:
    figures = []
    await _times_of_start(next(iter(KINDS)))  # of the client's own first call
    for kind in KINDS:
        starts = [await _times_of_start(kind) for _ in range(STARTS)]
        known = statistics.median(known for _, _, known in starts)
        rounds = [(first, new) for first, new, _ in starts]
        more = {"known answer in µs": (known, None)}
        figures.append(
            figure_of_rounds(kind, rounds, unit="µs", beside="later answers", aim=AIM, limit=LIMIT, more=more)
        )
    return figures


async def _times_of_start(kind: str) -> tuple[float, float, float]:
    """Microseconds to the first answer of a server, and medians for later new and for known objects."""
    entry, document = KINDS[kind]
    new = [call for number in range(CALLS) for call in calls_of(entry, _new_object(document, number), 1)]
    async with server_process(*WEBHOOK) as server:
        streams = await server.connect()
        first, *later = [await _microseconds(streams, call) for call in new]
        known = [await _microseconds(streams, call) for call in calls_of(entry, document, CALLS)]
        streams[1].close()
    return first, statistics.median(later), statistics.median(known)


def _new_object(document: dict[str, Any], number: int) -> dict[str, Any]:
    """An object like no other: a label and, of a claim, the selector."""
    metadata = {**document["metadata"], "labels": {"app": f"train-{number}"}}
    text = json.dumps({**document, "metadata": metadata})
    changed: dict[str, Any] = json.loads(text.replace(r"== \"gpu\"", rf"!= \"{number}\""))
    return changed


async def _microseconds(streams: Streams, call: bytes) -> float:
    begin = time.perf_counter()
    await post(streams, call)
    return (time.perf_counter() - begin) * 1e6
