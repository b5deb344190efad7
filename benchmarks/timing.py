"""Times a function and its control in turns, as CPU time of this process."""

from __future__ import annotations

import gc
import resource
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING

import orjson

if TYPE_CHECKING:
    from collections.abc import Callable

    from benchmarks.figures import Pair


ROOT = Path(__file__).parents[1]
ROUNDS = 9
READING = "reading it from JSON"
"""The control of most figures in process: orjson reads what the function works on."""
_SECONDS = 0.02
"""The least that a function runs in one round, so that the clock is fine enough."""


def time_in_turns(
    function: Callable[[], object], control: Callable[[], object], *, per: float = 1e-3, rounds: int = ROUNDS
) -> list[Pair]:
    """The times of both in each round, in units of `per` seconds.

    Each runs before, which fills its caches, and then as often in a round as takes 20 ms.
    """
    counts = [_count(each) for each in (function, control)]
    return [(seconds_of(function, counts[0]) / per, seconds_of(control, counts[1]) / per) for _ in range(rounds)]


def json_reader(document: object) -> Callable[[], object]:
    """A function that reads an object from its JSON."""
    text = orjson.dumps(document)
    return lambda: orjson.loads(text)


def seconds_of(function: Callable[[], object], count: int = 1) -> float:
    """CPU seconds of one call, the mean of some."""
    gc.collect()
    begin = time.process_time()
    for _ in range(count):
        function()
    return (time.process_time() - begin) / count


def milliseconds_of_process(command: list[str]) -> float:
    """CPU time of one run of a command in its own process."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, cwd=ROOT, capture_output=True, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) * 1e3


def _count(function: Callable[[], object]) -> int:
    """The number of times that a function runs in 20 ms, from its second run if the first one is short."""
    first = seconds_of(function)
    return 1 if first > _SECONDS else max(1, int(_SECONDS / max(seconds_of(function), 1e-7)))
