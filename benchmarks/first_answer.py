"""The first answer of a server, beside its later ones; aim: at most three times as long.

    python benchmarks/first_answer.py [REVIEW...]

Starts a server for each review of `benchmarks.calls.KINDS`, several times, and sends it such reviews over one connection:
first those of objects that each have a label or selector of their own, so that no answer is known, then equal ones. Prints
the time to the first answer, the medians of later new objects and of known ones, and the ratio of the first answer to that
of a later new object: the median of the starts, and the worst. The ratio says how warm a server is.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.calls import KINDS, calls_of, start_server, stop_server
from benchmarks.webhook_latency import ask

if TYPE_CHECKING:
    from benchmarks.calls import Server

STARTS = 7
CALLS = 41
_SERVER = str(Path(__file__).with_name("webhook_latency.py"))


def main() -> None:
    """Measure the reviews that the arguments name, or all."""
    asyncio.run(measure(sys.argv[1:] or list(KINDS)))


async def measure(kinds: list[str]) -> None:
    """Print a line for each kind of review."""
    await times_of_start(kinds[0])  # of the client's own first call
    print(f"{'review':<20} {'first':>9} {'new':>9} {'known':>9} {'ratio':>6} {'worst':>6}")
    for kind in kinds:
        starts = [await times_of_start(kind) for _ in range(STARTS)]
        first, new, known = (statistics.median(times) for times in zip(*starts, strict=True))
        ratios = sorted(of_first / of_new for of_first, of_new, _ in starts)
        ratio, worst = statistics.median(ratios), ratios[-1]
        print(f"{kind:<20} {first:>6.0f} us {new:>6.0f} us {known:>6.0f} us {ratio:>6.2f} {worst:>6.2f}", flush=True)


async def times_of_start(kind: str) -> tuple[float, float, float]:
    """Microseconds to the first answer of a server, and medians for later new and for known objects."""
    entry, document = KINDS[kind]
    new = [call for number in range(CALLS) for call in calls_of(entry, _new_object(document, number), 1)]
    server = await start_server(_SERVER, "serve")
    try:
        first, *later = [await _microseconds(server, call) for call in new]
        known = [await _microseconds(server, call) for call in calls_of(entry, document, CALLS)]
    finally:
        await stop_server(server)
    return first, statistics.median(later), statistics.median(known)


def _new_object(document: dict[str, Any], number: int) -> dict[str, Any]:
    """An object like no other: a label and, of a claim, the selector."""
    metadata = {**document["metadata"], "labels": {"app": f"train-{number}"}}
    text = json.dumps({**document, "metadata": metadata})
    changed: dict[str, Any] = json.loads(text.replace(r"== \"gpu\"", rf"!= \"{number}\""))
    return changed


async def _microseconds(server: Server, call: bytes) -> float:
    begin = time.perf_counter()
    await ask(*server.streams, call)
    return (time.perf_counter() - begin) * 1e6


if __name__ == "__main__":
    main()
