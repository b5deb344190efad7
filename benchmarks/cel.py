"""Device selectors, in process: compile one, match 1,000 devices, and match 40,000 at once.

Run it with `.venv/bin/python benchmarks/cel.py`; the aims are below 5 ms for 1,000 devices that have been read, and for
40,000 devices of six kinds a twentieth of what asking about them one by one takes.
"""

from __future__ import annotations

import timeit
from itertools import count

from policies.dra.cel import CelDevice, compile_selector

FOUR_CLAUSES = (
    'device.driver == "gpu.nvidia.com" && device.attributes["gpu.nvidia.com"].type == "gpu"'
    ' && device.attributes["gpu.nvidia.com"].cudaComputeCapability.compareTo(semver("8.0.0")) >= 0'
    ' && device.capacity["gpu.nvidia.com"].memory.isGreaterThan(quantity("40Gi"))'
)
MODELS = (
    ("NVIDIA H100 80GB HBM3", "9.0.0", "81559Mi"),
    ("NVIDIA A100-SXM4-80GB", "8.0.0", "80Gi"),
    ("NVIDIA A100-SXM4-40GB", "8.0.0", "40Gi"),
    ("NVIDIA L40S", "8.9.0", "46068Mi"),
    ("Tesla T4", "7.5.0", "15360Mi"),
    ("NVIDIA H200", "9.0.0", "143771Mi"),
)


def device(number: int) -> dict[str, object]:
    """A GPU as the NVIDIA DRA driver publishes it; every one has its own UUID and place on the bus."""
    product, capability, memory = MODELS[number % len(MODELS)]
    return {
        "driver": "gpu.nvidia.com",
        "attributes": {
            "type": {"string": "gpu"},
            "uuid": {"string": f"GPU-{number:032x}"},
            "productName": {"string": product},
            "brand": {"string": "Nvidia"},
            "architecture": {"string": "Hopper"},
            "cudaComputeCapability": {"version": capability},
            "driverVersion": {"version": "580.65.6"},
            "cudaDriverVersion": {"version": "13.0.0"},
            "resource.kubernetes.io/pcieRoot": {"string": f"pci0000:{number % 256:02x}"},
        },
        "capacity": {"memory": {"value": memory}},
    }


def best(run: object, number: int = 1) -> float:
    """The least seconds that a run takes, of seven times."""
    return min(timeit.repeat(run, number=number, repeat=7)) / number  # type: ignore[arg-type]  # callables


def main() -> None:
    """Print milliseconds."""
    numbers = count()

    def compile_anew() -> None:
        """Compile a text that is not cached yet."""
        compile_selector(f"{FOUR_CLAUSES} // {next(numbers)}")

    print(f"compile four clauses     {best(compile_anew, 20) * 1e3:8.2f} ms")
    selector = compile_selector(FOUR_CLAUSES)
    sources = [device(number) for number in range(40_000)]
    print(f"read 1,000 devices       {best(lambda: list(map(CelDevice.read, sources[:1000]))) * 1e3:8.2f} ms")
    devices = list(map(CelDevice.read, sources))
    print(f"match 1,000, read before {best(lambda: list(map(selector.matches, devices[:1000]))) * 1e3:8.2f} ms")
    print(
        f"cost of 1,000, exactly   {best(lambda: list(map(selector.counted_program.evaluate, devices[:1000]))) * 1e3:8.2f} ms"
    )
    one_by_one = best(lambda: list(map(selector.matches, sources)))
    at_once = best(lambda: selector.matches_all(devices))
    print(f"40,000 one by one        {one_by_one * 1e3:8.2f} ms")
    print(f"40,000 at once           {at_once * 1e3:8.2f} ms, {one_by_one / at_once:.0f} times faster")


if __name__ == "__main__":
    main()
