"""Predicting allocations: one claim on 1,000 nodes of 8 GPUs, and a search that gives up."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from benchmarks.devices import CLASS, DOMAIN, gpu, node, resource_slice
from benchmarks.figures import Figure, Theme, figure_of_rounds
from benchmarks.pods import claim
from benchmarks.timing import READING, json_reader, time_in_turns
from policies.devices.allocation.allocator import Allocator
from policies.devices.allocation.pools import SliceIndex
from policies.devices.allocation.reading import SearchBudgetExceeded

if TYPE_CHECKING:
    from collections.abc import Callable

THEME = Theme(
    title="Allocator",
    text="""Where a claim fits: the allocation that the scheduler would make, on each of 1,000 nodes with 8 GPUs. CPU time beside
reading the ResourceSlices from JSON with orjson. The last figure is a search that cannot succeed, on one node with 64 devices
that all differ: it ends at the budget of steps.""",
)
NODES = 1_000
ROOT = "resource.kubernetes.io/pcieRoot"
PRODUCT = f'{DOMAIN}.productName == "NVIDIA H100 80GB HBM3"'
MEMORY = 'device.capacity["gpu.nvidia.com"].memory.compareTo(quantity("40Gi")) >= 0'
CLAIMS: dict[str, tuple[dict[str, Any], float, float]] = {
    "1 GPU": (claim(), 1.0, 2.0),
    "8 GPUs by product and memory": (claim(PRODUCT, MEMORY, count=8), 2.0, 4.0),
    "2 GPUs of one PCIe root": (claim(PRODUCT, count=2, constraints=[{"matchAttribute": ROOT}]), 2.0, 4.0),
    "9 GPUs, more than a node has": (claim(count=9), 2.5, 5.0),
    "4 GPUs of one root with two": (claim(count=4, constraints=[{"matchAttribute": ROOT}]), 4.0, 8.0),
}
"""The claim, aim and limit."""


def measure() -> list[Figure]:
    """Figures of the index, of each claim, and of giving up."""
    nodes = [node(number) for number in range(NODES)]
    slices = [resource_slice(number) for number in range(NODES)]
    control = json_reader(slices)
    index = SliceIndex(slices)

    def figure(name: str, function: Callable[[], object], aim: float, limit: float) -> Figure:
        rounds = time_in_turns(function, control, rounds=3)
        return figure_of_rounds(name, rounds, unit="ms", beside=READING, aim=aim, limit=limit)

    def allocate(wanted: dict[str, Any]) -> None:
        allocator = Allocator(index, claims=[wanted], classes=[CLASS])
        for each in nodes:
            allocator.allocate(each)

    return [
        figure("index of the slices", lambda: SliceIndex(slices), 0.1, 0.5),
        *(figure(name, partial(allocate, wanted), aim, limit) for name, (wanted, aim, limit) in CLAIMS.items()),
        figure("search that gives up", _search_in_vain, 25.0, 50.0),
    ]


def _search_in_vain() -> None:
    """Search 20 of 64 devices that a claim tells apart, and one device that is missing."""
    shared = resource_slice(0)
    shared["spec"]["devices"] = [{**gpu(0, number), "attributes": {"rank": {"int": number}}} for number in range(64)]
    wanted = claim(f"{DOMAIN}.rank >= 0", count=20)
    missing = {"name": "missing", "exactly": {"deviceClassName": "gpu.nvidia.com", "selectors": [_FALSE]}}
    wanted["spec"]["devices"]["requests"].append(missing)
    any_class = {"metadata": {"name": "gpu.nvidia.com"}, "spec": {}}
    try:
        Allocator(SliceIndex([shared]), claims=[wanted], classes=[any_class]).allocate(node(0))
    except SearchBudgetExceeded:
        return
    raise SystemExit("the search ended before its budget, so that it is no measure")


_FALSE = {"cel": {"expression": "false"}}
