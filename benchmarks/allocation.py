"""Predicting allocations: one claim on 5,000 nodes of 8 GPUs, and searches that find nothing.

Run it with `.venv/bin/python benchmarks/allocation.py`; the aim is a few seconds for all nodes.
"""

from __future__ import annotations

import time
from typing import Any

from policies.dra.allocation.allocator import Allocator
from policies.dra.allocation.errors import SearchBudgetExceeded
from policies.dra.allocation.index import SliceIndex

NODES = 5000
DRIVER = "gpu.nvidia.com"
CLASS = {"metadata": {"name": DRIVER}, "spec": {"selectors": [{"cel": {"expression": f'device.driver == "{DRIVER}"'}}]}}
MEMORY = f'device.capacity["{DRIVER}"].memory.compareTo(quantity("40Gi")) >= 0'
PRODUCT = f'device.attributes["{DRIVER}"].productName == "NVIDIA H100 80GB HBM3"'


def gpu(node: int, minor: int) -> dict[str, Any]:
    """A device as NVIDIA's driver publishes it."""
    return {
        "name": f"gpu-{minor}",
        "attributes": {
            "type": {"string": "gpu"},
            "uuid": {"string": f"GPU-{node:08x}-{minor:04x}"},
            "productName": {"string": "NVIDIA H100 80GB HBM3"},
            "brand": {"string": "Nvidia"},
            "architecture": {"string": "Hopper"},
            "cudaComputeCapability": {"version": "9.0.0"},
            "driverVersion": {"version": "580.65.6"},
            "cudaDriverVersion": {"version": "13.0.0"},
            "resource.kubernetes.io/pcieRoot": {"string": f"pci0000:{minor // 2:02x}"},
        },
        "capacity": {"memory": {"value": "81559Mi"}},
    }


def gpu_slice(node: int) -> dict[str, Any]:
    """One node's eight GPUs."""
    name = f"node-{node:04d}"
    pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
    devices = [gpu(node, minor) for minor in range(8)]
    return {
        "metadata": {"name": f"{name}-gpus"},
        "spec": {"driver": DRIVER, "nodeName": name, "pool": pool, "devices": devices},
    }


def claim(count: int, *selectors: str, **devices: Any) -> dict[str, Any]:
    """A claim for some GPUs."""
    exactly = {
        "deviceClassName": DRIVER,
        "count": count,
        "selectors": [{"cel": {"expression": selector}} for selector in selectors],
    }
    return {
        "metadata": {"name": "gpus"},
        "spec": {"devices": {"requests": [{"name": "gpu", "exactly": exactly}], **devices}},
    }


CLAIMS = {
    "1 GPU": claim(1),
    "8 GPUs by product and memory": claim(8, PRODUCT, MEMORY),
    "2 GPUs of one PCIe root": claim(2, PRODUCT, constraints=[{"matchAttribute": "resource.kubernetes.io/pcieRoot"}]),
    "9 GPUs, which no node has": claim(9),
    "4 GPUs of one PCIe root, which none has": claim(
        4, constraints=[{"matchAttribute": "resource.kubernetes.io/pcieRoot"}]
    ),
}


def main() -> None:
    """Print a line per claim."""
    nodes = [{"metadata": {"name": f"node-{number:04d}"}} for number in range(NODES)]
    slices = [gpu_slice(number) for number in range(NODES)]
    started = time.perf_counter()
    index = SliceIndex(slices)
    print(f"{'indexing the slices':44}{time.perf_counter() - started:7.2f} s")
    for name, asked in CLAIMS.items():
        started = time.perf_counter()
        allocator = Allocator(index, claims=[asked], classes=[CLASS])
        fitting = sum(allocator.allocate(node) is not None for node in nodes)
        print(f"{name:44}{time.perf_counter() - started:7.2f} s  fits {fitting} nodes")
    started = time.perf_counter()
    allocator = Allocator(index, claims=[claim(8, PRODUCT)], classes=[CLASS])
    shapes = {allocator.node_shape(node) for node in nodes}
    print(f"{'shapes of all nodes':44}{time.perf_counter() - started:7.2f} s  {len(shapes)} of them")
    hopeless()


def hopeless() -> None:
    """Print what giving up costs: 20 of 64 devices that the claim tells apart, and one that is missing."""
    shared = gpu_slice(0)
    shared["spec"]["devices"] = [{**gpu(0, number), "attributes": {"rank": {"int": number}}} for number in range(64)]
    asked = claim(20, f'device.attributes["{DRIVER}"].rank >= 0')
    missing = {
        "name": "missing",
        "exactly": {"deviceClassName": DRIVER, "selectors": [{"cel": {"expression": "false"}}]},
    }
    asked["spec"]["devices"]["requests"].append(missing)
    started = time.perf_counter()
    try:
        Allocator(SliceIndex([shared]), claims=[asked], classes=[CLASS]).allocate({"metadata": {"name": "node-0000"}})
    except SearchBudgetExceeded as error:
        print(
            f"{'20 of 64, and one that is not there':44}{time.perf_counter() - started:7.2f} s  {error.steps:,} steps"
        )


if __name__ == "__main__":
    main()
