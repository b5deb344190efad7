"""Nodes with eight GPUs each, as NVIDIA's DRA driver publishes them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

if TYPE_CHECKING:
    from collections.abc import Iterator


GPUS = 8
DOMAIN = 'device.attributes["gpu.nvidia.com"]'
_CLUSTER = Path(__file__).parents[1] / "examples" / "cluster"
_MODELS = (
    ("NVIDIA H100 80GB HBM3", "Hopper", "9.0.0", "81559Mi"),
    ("NVIDIA A100-SXM4-40GB", "Ampere", "8.0.0", "40Gi"),
    ("NVIDIA L40S", "Ada Lovelace", "8.9.0", "46068Mi"),
)
CLASS: dict[str, Any] = {
    "apiVersion": "resource.k8s.io/v1",
    "kind": "DeviceClass",
    "metadata": {"name": "gpu.nvidia.com"},
    "spec": {"selectors": [{"cel": {"expression": f'device.driver == "gpu.nvidia.com" && {DOMAIN}.type == "gpu"'}}]},
}


def example_cluster() -> Iterator[dict[str, Any]]:
    """The objects of examples/cluster."""
    for file in sorted(_CLUSTER.glob("*.yaml")):
        yield from (found for found in yaml.load_all(file.read_text(), yaml.CSafeLoader) if found)


def gpu(node_number: int, minor: int) -> dict[str, Any]:
    """One GPU with a UUID of its own; the model depends on the node."""
    product, architecture, capability, memory = _MODELS[node_number % len(_MODELS)]
    return {
        "name": f"gpu-{minor}",
        "attributes": {
            "type": {"string": "gpu"},
            "uuid": {"string": f"GPU-{node_number:08x}-{minor:023x}"},
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


def node(number: int) -> dict[str, Any]:
    """A node that only DRA knows as one with GPUs."""
    name = f"node-{number:04}"
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, "nvidia.com/gpu.present": "true"}},
        "spec": {"taints": [{"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}]},
        "status": {"allocatable": {"cpu": "128", "memory": "1Ti", "pods": "110"}},
    }


def resource_slice(number: int) -> dict[str, Any]:
    """The GPUs of a node."""
    name = f"node-{number:04}"
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": f"{name}-gpus"},
        "spec": {
            "driver": "gpu.nvidia.com",
            "nodeName": name,
            "pool": {"name": name, "generation": 1, "resourceSliceCount": 1},
            "devices": [gpu(number, minor) for minor in range(GPUS)],
        },
    }
