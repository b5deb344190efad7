"""CEL selectors: compiling one, and matching 1,000 devices and more, beside reading them from JSON."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, Any

from benchmarks.devices import DOMAIN, GPUS, gpu
from benchmarks.figures import Figure, Theme, figure_of_rounds
from benchmarks.timing import READING, json_reader, time_in_turns
from policies.cel import CelDevice, compile_selector

if TYPE_CHECKING:
    from collections.abc import Callable

    from policies.cel import Selector

THEME = Theme(
    title="CEL for 1,000 devices",
    text="""A selector of four clauses (driver, type, compute capability, memory) and 1,000 devices of three models, each with a
UUID of its own; CPU time beside reading those devices from JSON with orjson. Matching all at once evaluates the selector once
for each kind of device, which pays with many: the last figure has 20,000. Evaluating with exact cost counts as Kubernetes does. Compiling has a text that is not cached.""",
)
SELECTOR = (
    f'device.driver == "gpu.nvidia.com" && {DOMAIN}.type == "gpu"'
    f' && {DOMAIN}.cudaComputeCapability.compareTo(semver("8.0.0")) >= 0'
    ' && device.capacity["gpu.nvidia.com"].memory.isGreaterThan(quantity("40Gi"))'
)
DEVICES = 1_000
MANY = 20_000


def measure() -> list[Figure]:
    """Figures of compiling, of reading and of three ways to match."""
    sources = _sources(DEVICES)
    devices = [CelDevice.read(source) for source in sources]
    selector = compile_selector(SELECTOR)
    numbers = count()
    functions: dict[str, tuple[Callable[[], object], float, float]] = {
        "compile the selector": (lambda: compile_selector(f"{SELECTOR} // {next(numbers)}"), 1.0, 2.0),
        "make devices of the JSON": (lambda: [CelDevice.read(source) for source in sources], 10.0, 16.0),
        "match one by one": (lambda: [selector.matches(device) for device in devices], 1.0, 2.0),
        "match all at once": (lambda: selector.matches_all(devices), 0.5, 1.0),
        "match with exact cost": (
            lambda: [selector.counted_program.evaluate(device) for device in devices],
            16.0,
            24.0,
        ),
    }
    control = json_reader(sources)
    return [
        *(
            figure_of_rounds(name, time_in_turns(function, control), unit="ms", beside=READING, aim=aim, limit=limit)
            for name, (function, aim, limit) in functions.items()
        ),
        _many_at_once(selector),
    ]


def _many_at_once(selector: Selector) -> Figure:
    sources = _sources(MANY)
    devices = [CelDevice.read(source) for source in sources]
    rounds = time_in_turns(
        lambda: selector.matches_all(devices), lambda: [selector.matches(source) for source in sources], rounds=3
    )
    name = f"match {MANY:,} at once"
    return figure_of_rounds(name, rounds, unit="ms", beside="JSON one by one", aim=0.05, limit=0.1)


def _sources(count: int) -> list[dict[str, Any]]:
    return [{"driver": "gpu.nvidia.com", **gpu(*divmod(number, GPUS))} for number in range(count)]
