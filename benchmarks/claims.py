"""What reviewing claims costs: in the cluster of the examples, and beside 5,000 nodes of 8 GPUs each.

Run it with `.venv/bin/python benchmarks/claims.py`. Typical claims differ in name and uid only, as those of one template;
of them, CPU and Python calls of one review are printed. Beside the large cluster the aim is below 20 ms for everything that
asks about kinds of GPUs, once the digest of the ResourceSlices is made.
"""

from __future__ import annotations

import sys
import time
from itertools import chain
from pathlib import Path
from typing import Any

import yaml

from policies.dra.published_devices import published_devices
from policies.request import Request
from policies.review import review
from policies.settings import DEFAULTS
from webhook.cluster.manifests import ManifestsView

ROOT = Path(__file__).parent.parent
NODES = 5_000
GPUS = 8
DOMAIN = 'device.attributes["gpu.nvidia.com"]'
PRODUCTS = (
    ("NVIDIA A100-SXM4-40GB", "Ampere", "8.0.0", "40Gi"),
    ("NVIDIA H100 80GB HBM3", "Hopper", "9.0.0", "81559Mi"),
    ("NVIDIA L40S", "Ada Lovelace", "8.9.0", "46068Mi"),
)
REQUESTS: dict[str, dict[str, Any]] = {
    "one GPU": {},
    "eight of a product": {"count": 8, "cel": f'{DOMAIN}.productName == "NVIDIA H100 80GB HBM3"'},
    "more than a node has": {"count": 9},
    "a memory that none has": {"cel": 'device.capacity["gpu.nvidia.com"].memory.compareTo(quantity("100Gi")) >= 0'},
    "an attribute that none has": {"cel": f"{DOMAIN}.index == 0"},
    "two beside each other": {"count": 2, "match": "resource.kubernetes.io/pcieRoot"},
    "four that never agree": {"count": 4, "match": "gpu.nvidia.com/uuid"},
    "one by its UUID": {"cel": f'{DOMAIN}.uuid == "GPU-4711-3"'},
}


HOSTILE: dict[str, list[list[str]]] = {
    "three dear selectors": [
        [f"lists.range(330).all(x,lists.range(330).all(y,x+y>=-{number}))"] for number in range(3)
    ],
    "six long selectors": [["||".join([f"[1].all(x,x>{number})"] * 480) for number in range(6)]],
    "32 long selectors": [["||".join([f"[1].all(x,x>{number})"] * 480) for number in range(32)]],
    "one long selector": [["||".join(["[1].all(x,x>1)"] * 600)]],
    "200 attributes that none has": [["||".join(f'{DOMAIN}.a{number}=="x"' for number in range(200))]],
    "32 selectors, 300 bytes each": [[f'{DOMAIN}.productName != "{number:0240d}"' for number in range(32)]],
}
"""The selectors of each request; the aim is below a second."""


SHARED = {
    "apiVersion": "resource.nvidia.com/v1beta1",
    "kind": "GpuConfig",
    "sharing": {"strategy": "TimeSlicing", "timeSlicingConfig": {"interval": "Long"}},
}
TYPICAL: dict[str, tuple[str, list[str], dict[str, Any] | None]] = {
    "one GPU": ("gpu.nvidia.com", [], None),
    "a shared GPU of a product": (
        "gpu.nvidia.com",
        [
            f'{DOMAIN}.brand == "Nvidia" && {DOMAIN}.cudaComputeCapability.isGreaterThan(semver("8.0.0"))',
            'device.capacity["gpu.nvidia.com"].memory.compareTo(quantity("40Gi")) >= 0',
        ],
        {"driver": "gpu.nvidia.com", "parameters": SHARED},
    ),
    "of another driver": (
        "tpu.example.com",
        ['device.attributes["tpu.example.com"].cores >= 8', 'device.driver == "tpu.example.com"'],
        {"driver": "tpu.example.com", "parameters": {"kind": "TpuConfig", "topology": {"x": 2, "y": 4}}},
    ),
}
"""The class, selectors and opaque config of a claim."""
REVIEWS = 300
ROUNDS = 10


def main() -> None:
    """Print CPU and calls of typical reviews, then milliseconds of CPU beside the large cluster."""
    files = sorted((ROOT / "examples" / "cluster").glob("*.yaml"))
    example = ManifestsView(chain.from_iterable(yaml.safe_load_all(file.read_text()) for file in files))
    for name, (device_class, texts, config) in TYPICAL.items():
        _measure_typical(name, [_typical(number, device_class, texts, config) for number in range(REVIEWS)], example)
    slices = [_slice(number) for number in range(NODES)]
    classes = list(yaml.safe_load_all((ROOT / "examples" / "cluster" / "deviceclasses.yaml").open()))
    view = ManifestsView([*classes, *slices])
    began = time.process_time()
    view.derive(published_devices)
    print(f"{'digest of the slices':28}{(time.process_time() - began) * 1e3:8.1f} ms")
    for name, asked in REQUESTS.items():
        _measure(name, _claim(asked), view)
    for name, requests in HOSTILE.items():
        _measure(name, _hostile(requests), view)


def _measure(name: str, claim: dict[str, Any], view: ManifestsView) -> None:
    times = []
    for _ in range(5):
        began = time.process_time()
        review(Request(claim, group="resource.k8s.io", kind="ResourceClaim", entry="claims"), view, DEFAULTS)
        times.append((time.process_time() - began) * 1e3)
    print(f"{name:28}{times[0]:8.1f} ms first{min(times[1:]):8.1f} ms later")


def _measure_typical(name: str, claims: list[dict[str, Any]], view: ManifestsView) -> None:
    requests = [Request(claim, group="resource.k8s.io", kind="ResourceClaim", entry="claims") for claim in claims]
    times = []
    for _ in range(ROUNDS):
        began = time.thread_time()
        for request in requests:
            review(request, view, DEFAULTS)
        times.append((time.thread_time() - began) / REVIEWS * 1e6)
    calls = 0

    def count(_frame: object, event: str, _argument: object) -> None:
        nonlocal calls
        calls += event == "call"

    sys.setprofile(count)
    review(requests[0], view, DEFAULTS)
    sys.setprofile(None)
    print(f"{name:28}{min(times):8.0f} us{calls:8} calls")


def _typical(number: int, device_class: str, texts: list[str], opaque: dict[str, Any] | None) -> dict[str, Any]:
    claim = _claim({})
    claim["metadata"] |= {"name": f"gpu-{number}", "uid": f"{number:08}-6393-11e8-b7cc-42010a800002"}
    exactly = {
        "deviceClassName": device_class,
        "allocationMode": "ExactCount",
        "count": 1,
        "selectors": [{"cel": {"expression": text}} for text in texts],
    }
    claim["spec"]["devices"] = {
        "requests": [{"name": "gpu", "exactly": exactly}],
        "config": [{"requests": ["gpu"], "opaque": opaque}] if opaque else [],
    }
    return claim


def _slice(number: int) -> dict[str, Any]:
    product, architecture, capability, memory = PRODUCTS[number % len(PRODUCTS)]
    devices = [
        {
            "name": f"gpu-{minor}",
            "attributes": {
                "type": {"string": "gpu"},
                "uuid": {"string": f"GPU-{number}-{minor}"},
                "productName": {"string": product},
                "brand": {"string": "Nvidia"},
                "architecture": {"string": architecture},
                "cudaComputeCapability": {"version": capability},
                "driverVersion": {"version": "580.95.5"},
                "cudaDriverVersion": {"version": "13.0.0"},
                "resource.kubernetes.io/pciBusID": {"string": f"0000:{minor:02x}:00.0"},
                "resource.kubernetes.io/pcieRoot": {"string": f"pci0000:{minor // 2:02x}"},
            },
            "capacity": {"memory": {"value": memory}},
        }
        for minor in range(GPUS)
    ]
    node = f"gpu-{number}"
    pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": f"{node}-gpu.nvidia.com"},
        "spec": {"driver": "gpu.nvidia.com", "nodeName": node, "pool": pool, "devices": devices},
    }


def _claim(asked: dict[str, Any]) -> dict[str, Any]:
    exactly: dict[str, Any] = {"deviceClassName": "gpu.nvidia.com", "count": asked.get("count", 1)}
    if "cel" in asked:
        exactly["selectors"] = [{"cel": {"expression": asked["cel"]}}]
    devices: dict[str, Any] = {"requests": [{"name": "gpu", "exactly": exactly}]}
    if "match" in asked:
        devices["constraints"] = [{"matchAttribute": asked["match"]}]
    metadata = {"name": "gpu", "namespace": "team-a"}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": metadata,
        "spec": {"devices": devices},
    }


def _hostile(requests: list[list[str]]) -> dict[str, Any]:
    claim = _claim({})
    parameters = {"apiVersion": "resource.nvidia.com/v1beta1", "kind": "GpuConfig"}
    claim["spec"]["devices"] = {
        "requests": [
            {
                "name": f"r{index}",
                "exactly": {
                    "deviceClassName": "gpu.nvidia.com",
                    "selectors": [{"cel": {"expression": text}} for text in texts],
                },
            }
            for index, texts in enumerate(requests)
        ],
        "config": [{"opaque": {"driver": "gpu.nvidia.com", "parameters": parameters}}],
    }
    return claim


if __name__ == "__main__":
    main()
