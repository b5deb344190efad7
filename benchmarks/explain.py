"""Explanations, in process: 5,000 nodes of 8 GPUs, half of them in use, and a pod that fits nowhere.

Run it with `.venv/bin/python benchmarks/explain.py`; the aim is a few seconds for each question, the cluster's digest, which
is made once, not counted.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from policies.explanation import explain
from policies.outcome import questions, read_cluster, used_amounts
from policies.settings import DEFAULTS
from webhook.cluster.manifests import ManifestsView

if TYPE_CHECKING:
    from collections.abc import Iterator

NODES, GPUS = 5_000, 8
MODELS = (
    ("NVIDIA H100 80GB HBM3", "9.0.0", "81559Mi"),
    ("NVIDIA A100-SXM4-40GB", "8.0.0", "40Gi"),
    ("NVIDIA L40S", "8.9.0", "46068Mi"),
)
MEMORY = 'device.capacity["gpu.nvidia.com"].memory.compareTo(quantity("{}")) >= 0'


def gpu(node: int, number: int) -> dict[str, Any]:
    """A GPU as NVIDIA's DRA driver publishes it; every one has its own UUID."""
    product, capability, memory = MODELS[node % len(MODELS)]
    return {
        "name": f"gpu-{number}",
        "attributes": {
            "type": {"string": "gpu"},
            "uuid": {"string": f"GPU-{node:08x}-{number:023x}"},
            "productName": {"string": product},
            "cudaComputeCapability": {"version": capability},
            "resource.kubernetes.io/pcieRoot": {"string": f"pci0000:{number // 4:02x}"},
        },
        "capacity": {"memory": {"value": memory}},
    }


def claim(node: int, holder: int, gpus: list[int]) -> dict[str, Any]:
    """A claim that holds GPUs of a node for one pod."""
    results = [
        {"request": "gpu", "driver": "gpu.nvidia.com", "pool": f"node-{node:04}", "device": f"gpu-{number}"}
        for number in gpus
    ]
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": f"train-{node}-{holder}-gpu", "namespace": "team-b"},
        "status": {
            "allocation": {"devices": {"results": results}},
            "reservedFor": [{"resource": "pods", "name": f"train-{node}-{holder}"}],
        },
    }


def objects() -> Iterator[dict[str, Any]]:
    """The cluster: which GPUs of a node are in use follows no pattern that nodes share."""
    selector = "device.driver == 'gpu.nvidia.com' && device.attributes['gpu.nvidia.com'].type == 'gpu'"
    yield {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceClass",
        "metadata": {"name": "gpu.nvidia.com"},
        "spec": {"selectors": [{"cel": {"expression": selector}}]},
    }
    yield {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team-a", "labels": {}}}
    for node in range(NODES):
        name = f"node-{node:04}"
        taint = {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}
        yield {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
            "spec": {"taints": [taint]},
            "status": {"allocatable": {"cpu": "128", "memory": "1Ti", "pods": "110"}},
        }
        pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
        devices = [gpu(node, number) for number in range(GPUS)]
        yield {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceSlice",
            "metadata": {"name": f"{name}-gpu.nvidia.com"},
            "spec": {"driver": "gpu.nvidia.com", "nodeName": name, "pool": pool, "devices": devices},
        }
        taken = [number for number in range(GPUS) if (node * 2_654_435_761 >> (8 + number)) & 1]
        for holder, gpus in enumerate((taken[:2], taken[2:])):
            if gpus:
                yield claim(node, holder, gpus)
                yield {
                    "apiVersion": "v1",
                    "kind": "Pod",
                    "metadata": {"name": f"train-{node}-{holder}", "namespace": "team-b"},
                    "spec": {
                        "nodeName": name,
                        "containers": [{"name": "train", "resources": {"requests": {"cpu": "8", "memory": "64Gi"}}}],
                    },
                    "status": {"phase": "Running"},
                }


def template(count: int, memory: str, **devices: Any) -> dict[str, Any]:
    """A template that requests GPUs with so much memory."""
    exactly = {
        "deviceClassName": "gpu.nvidia.com",
        "count": count,
        "selectors": [{"cel": {"expression": MEMORY.format(memory)}}],
    }
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": "gpus", "namespace": "team-a"},
        "spec": {"spec": {"devices": {"requests": [{"name": "gpu", "exactly": exactly}], **devices}}},
    }


QUESTIONS = {
    "1 GPU, fits": template(1, "40Gi"),
    "8 GPUs, few nodes are free": template(8, "79Gi"),
    "2 GPUs of 100Gi, none exists": template(2, "100Gi"),
    "4 GPUs under one root": template(4, "40Gi", constraints=[{"matchAttribute": "resource.kubernetes.io/pcieRoot"}]),
}


def main() -> None:
    """Print seconds."""
    view = ManifestsView(objects())
    start = time.perf_counter()
    view.derive(read_cluster)
    view.derive(used_amounts)
    print(f"{'digest of the cluster, once':34}{time.perf_counter() - start:8.2f} s")
    for name, document in QUESTIONS.items():
        start = time.perf_counter()
        answers = [explain(question, view, DEFAULTS) for question in questions(document, "team-a", view, DEFAULTS)]
        print(f"{name:34}{time.perf_counter() - start:8.2f} s  {answers[0].headline}")


if __name__ == "__main__":
    main()
