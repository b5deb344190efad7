"""A large cluster with objects as big as real ones: a node 16 kB, a pod 6 kB, a slice 11 kB.

`SCALE_NODES` in the environment makes it smaller or larger than 5,000 nodes, with 20 pods for each of them.
"""

from __future__ import annotations

import os
from functools import cache
from typing import TYPE_CHECKING, Any

import orjson

if TYPE_CHECKING:
    from collections.abc import Callable


NODES = int(os.environ.get("SCALE_NODES", "5000"))
GPUS, PODS, GPU_PODS = 8, 20 * NODES, 4 * NODES
VERSION = "4000000000"


@cache
def managed_fields(size: int) -> orjson.Fragment:
    """Managers of fields, as many as real objects have."""
    fields = {f"f:field-{number:04}": {} for number in range(size // 22)}
    manager = {"manager": "kubelet", "operation": "Update", "apiVersion": "v1", "fieldsV1": {"f:metadata": fields}}
    return orjson.Fragment(orjson.dumps([manager]))


@cache
def numbered_items(name: str, count: int, **more: str) -> orjson.Fragment:
    """A list of so many things that are the same on every object."""
    return orjson.Fragment(orjson.dumps([{"name": f"{name}-{number}", **more} for number in range(count)]))


@cache
def images(count: int) -> orjson.Fragment:
    """The images on a node."""
    names = (f"registry.example.com/team/image-{number}@sha256:{number:064}" for number in range(count))
    return orjson.Fragment(orjson.dumps([{"names": [name], "sizeBytes": 4_000_000_000} for name in names]))


@cache
def volumes(count: int) -> orjson.Fragment:
    """The volumes of a pod."""
    named = ((f"volume-{number}", {"claimName": "a-claim"}) for number in range(count))
    return orjson.Fragment(orjson.dumps([{"name": name, "persistentVolumeClaim": claim} for name, claim in named]))


def node(number: int) -> dict[str, Any]:
    """A GPU node as the kubelet, NFD and GFD leave it: 80 labels, 50 images, conditions."""
    name = f"node-{number:05}"
    model = ("NVIDIA-H100-80GB-HBM3", "NVIDIA-A100-SXM4-80GB", "NVIDIA-L40S")[number % 3]
    features = {f"feature.node.kubernetes.io/cpu-cpuid.FEATURE{index:02}": "true" for index in range(50)}
    gfd = {f"nvidia.com/gpu.fact-{index:02}": f"{model}-{index}" for index in range(25)}
    labels = {"kubernetes.io/hostname": name, "nvidia.com/gpu.product": model, "nvidia.com/gpu.present": "true"}
    amounts = {"cpu": "192", "memory": "2113518948Ki", "ephemeral-storage": "3509825Mi", "pods": "110"}
    amounts["nvidia.com/gpu"] = "0" if number % 2 else str(GPUS)
    conditions = [
        {
            "type": f"Condition{index}",
            "status": "False",
            "lastHeartbeatTime": "2026-11-22T00:00:00Z",
            "message": "m" * 60,
        }
        for index in range(6)
    ]
    return {
        "metadata": {
            "name": name,
            "uid": f"{number:08x}-0000-4000-8000-{number:012x}",
            "resourceVersion": VERSION,
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "labels": {**features, **gfd, **labels},
            "annotations": {"node.alpha.kubernetes.io/ttl": "0", "csi.volume.kubernetes.io/nodeid": name * 10},
            "managedFields": managed_fields(3000),
        },
        "spec": {"providerID": f"x:///{name}", "taints": [{"key": "nvidia.com/gpu", "effect": "NoSchedule"}]},
        "status": {
            "allocatable": amounts,
            "capacity": amounts,
            "conditions": conditions,
            "images": images(50),
            "nodeInfo": {"kubeletVersion": "v1.36.2", "kernelVersion": "6.8.0", "machineID": f"{number:032x}"},
        },
    }


def resource_slice(number: int) -> dict[str, Any]:
    """The ResourceSlice of NVIDIA's DRA driver for a node of 8 GPUs."""
    name = f"node-{number:05}"
    product, memory = (("NVIDIA H100 80GB HBM3", "81559Mi"), ("NVIDIA A100-SXM4-80GB", "80Gi"))[number % 2]
    devices = [
        {
            "name": f"gpu-{gpu}",
            "attributes": {
                "type": {"string": "gpu"},
                "uuid": {"string": f"GPU-{number:08x}-{gpu:023x}"},
                "productName": {"string": product},
                "brand": {"string": "Nvidia"},
                "architecture": {"string": "Hopper"},
                "cudaComputeCapability": {"version": "9.0.0"},
                "driverVersion": {"version": "580.95.5"},
                "cudaDriverVersion": {"version": "13.0.0"},
                "addressingMode": {"string": "HMM"},
                "resource.kubernetes.io/pciBusID": {"string": f"0000:{gpu * 16:02x}:00.0"},
                "resource.kubernetes.io/pcieRoot": {"string": f"pci0000:{gpu // 4:02x}"},
            },
            "capacity": {"memory": {"value": memory}},
        }
        for gpu in range(GPUS)
    ]
    return {
        "metadata": {
            "name": f"{name}-gpu.nvidia.com",
            "uid": f"{number:08x}-0000-4000-8000-{number:012x}",
            "resourceVersion": VERSION,
            "managedFields": managed_fields(3000),
        },
        "spec": {
            "driver": "gpu.nvidia.com",
            "nodeName": name,
            "pool": {"name": name, "generation": 1, "resourceSliceCount": 1},
            "devices": devices,
        },
    }


def pod(number: int) -> dict[str, Any]:
    """A pod of a ReplicaSet of 20; the first fifth of them have a claim, or ask the device plugin."""
    owner = f"app-{number // 20:05}"
    resources: dict[str, Any] = {"requests": {"cpu": f"{number // 20 % 7 + 1}", "memory": "16Gi"}}
    spec: dict[str, Any] = {}
    if number < GPU_PODS and number % 2:
        resources["limits"] = {"nvidia.com/gpu": "2"}
    elif number < GPU_PODS:
        resources["claims"] = [{"name": "gpu", "request": "main"}]
        spec["resourceClaims"] = [{"name": "gpu", "resourceClaimTemplateName": f"gpu-{number // 400:016x}"}]
    environment, mounts = (
        numbered_items("VARIABLE", 30, value="a value of the environment"),
        numbered_items("volume", 8, mountPath="/mnt"),
    )
    container = {"image": f"registry.example.com/{owner}:v1", "resources": resources, "env": environment}
    return {
        "metadata": {
            "name": f"{owner}-{number:06x}",
            "namespace": f"team-{number // 1000:03}",
            "uid": f"{number:08x}-0000-4000-8000-{number:012x}",
            "resourceVersion": VERSION,
            "creationTimestamp": "2026-11-01T00:00:00Z",
            "labels": {"app": owner, "pod-template-hash": f"{number // 20:010x}"},
            "ownerReferences": [
                {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": owner, "uid": owner, "controller": True}
            ],
            "managedFields": managed_fields(2000),
        },
        "spec": {
            **spec,
            "nodeName": f"node-{number % NODES:05}",
            "containers": [{"name": "main", **container, "volumeMounts": mounts}],
            "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists"}],
            "volumes": volumes(8),
        },
        "status": {
            "phase": "Running",
            "podIP": "10.0.0.1",
            "conditions": [{"type": f"Condition{index}", "status": "True"} for index in range(5)],
            "containerStatuses": [{"name": "main", "containerID": f"containerd://{number:064x}", "ready": True}],
        },
    }


def claim(number: int) -> dict[str, Any]:
    """The claim of a GPU pod, with two GPUs of its node."""
    name, namespace = f"app-{number // 20:05}-{number:06x}", f"team-{number // 1000:03}"
    home = f"node-{number % NODES:05}"
    first = number // NODES * 2
    results = [
        {"request": "main", "driver": "gpu.nvidia.com", "pool": home, "device": f"gpu-{first + index}"}
        for index in range(2)
    ]
    only = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [home]}]}
    exactly = {"deviceClassName": "gpu.nvidia.com", "allocationMode": "ExactCount", "count": 2}
    return {
        "metadata": {
            "name": f"{name}-gpu",
            "namespace": namespace,
            "uid": f"{number:08x}-0000-4000-9000-{number:012x}",
            "resourceVersion": VERSION,
            "creationTimestamp": "2026-11-01T00:00:00Z",
            "annotations": {"resource.kubernetes.io/pod-claim-name": "gpu"},
            "ownerReferences": [
                {"apiVersion": "v1", "kind": "Pod", "name": name, "uid": f"{number:08x}", "controller": True}
            ],
            "managedFields": managed_fields(1500),
        },
        "spec": {"devices": {"requests": [{"name": "main", "exactly": exactly}]}},
        "status": {
            "allocation": {"devices": {"results": results}, "nodeSelector": {"nodeSelectorTerms": [only]}},
            "reservedFor": [{"resource": "pods", "name": name, "uid": f"{number:08x}-0000-4000-8000-{number:012x}"}],
        },
    }


def namespace(number: int) -> dict[str, Any]:
    """A namespace of a team; one of three has opted in."""
    labels = {"kubernetes.io/metadata.name": f"team-{number:03}"} | (
        {} if number % 3 else {"gpu-admission.io/dra": "enabled"}
    )
    return {"metadata": {"name": f"team-{number:03}", "resourceVersion": VERSION, "labels": labels}, "status": {}}


MADE: dict[str, tuple[Callable[[int], dict[str, Any]], int]] = {
    "Node": (node, NODES),
    "ResourceSlice": (resource_slice, NODES),
    "Pod": (pod, PODS),
    "ResourceClaim": (claim, GPU_PODS),
    "Namespace": (namespace, 100),
}
