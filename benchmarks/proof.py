"""The cost of the proof of a migration: seconds of the processor.

2,000 nodes with 8 GPUs each, two thirds of them by the device plugin and the others by the DRA driver, of three products; 500
Deployments, no two of them alike, whose pods hold about half of the GPUs.

Run it with `.venv/bin/python benchmarks/proof.py`.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from benchmarks.devices import CLASS
from policies.analyses.migrate.proof import prove_migration
from policies.rules.settings import DEFAULTS
from webhook.cluster.manifests import ManifestsView

if TYPE_CHECKING:
    from collections.abc import Iterator

NODES, WORKLOADS, GPUS = 2_000, 500, 8
PRODUCTS = (
    ("NVIDIA H100 80GB HBM3", "hopper", 81_559),
    ("NVIDIA A100-SXM4-40GB", "ampere", 40_960),
    ("NVIDIA L40S", "ada-lovelace", 46_068),
)


def node(number: int) -> Iterator[dict[str, Any]]:
    """A node, and its slice if the DRA driver serves it."""
    name, (product, family, memory) = f"node-{number:04}", PRODUCTS[number % len(PRODUCTS)]
    has_plugin = number % 9 < 6
    labels = {
        "kubernetes.io/hostname": name,
        "nvidia.com/gpu.present": "true",
        "nvidia.com/gpu.product": product.replace(" ", "-"),
        "nvidia.com/gpu.family": family,
        "nvidia.com/gpu.memory": str(memory),
        "nvidia.com/gpu.count": str(GPUS),
        "nvidia.com/gpu.replicas": "1",
        "nvidia.com/gpu.sharing-strategy": "none",
    }
    amounts = {"cpu": "192", "memory": "2Ti", "pods": "110", **({"nvidia.com/gpu": str(GPUS)} if has_plugin else {})}
    status = {"allocatable": amounts, "capacity": amounts}
    yield {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "spec": {},
        "status": status,
    }
    if not has_plugin:
        attributes = {"type": {"string": "gpu"}, "productName": {"string": product}}
        capacity = {"memory": {"value": f"{memory}Mi"}}
        devices = [
            {
                "name": f"gpu-{minor}",
                "attributes": {**attributes, "uuid": {"string": f"{name}-{minor}"}},
                "capacity": capacity,
            }
            for minor in range(GPUS)
        ]
        pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
        spec = {"driver": "gpu.nvidia.com", "nodeName": name, "pool": pool, "devices": devices}
        yield {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": name}, "spec": spec}


def workload(number: int) -> Iterator[dict[str, Any]]:
    """A Deployment, its ReplicaSet, and its pods on nodes of the device plugin."""
    name, home = f"app-{number:03}", f"team-{number % 20:02}"
    gpus, replicas = (1, 2, 4, 8)[number % 4], 1 + number % 8
    limits = {"nvidia.com/gpu": str(gpus), "cpu": str(1 + number % 40), "memory": f"{8 + number % 64}Gi"}
    spec: dict[str, Any] = {"containers": [{"name": "main", "image": "train", "resources": {"limits": limits}}]}
    if number % 3 == 0:
        spec["nodeSelector"] = {"nvidia.com/gpu.product": PRODUCTS[number % 2][0].replace(" ", "-")}
    labels = {"app": name}
    template = {"metadata": {"labels": labels}, "spec": spec}
    selector = {"matchLabels": labels}
    for kind, made, owner in (("Deployment", name, None), ("ReplicaSet", f"{name}-1", ("Deployment", name))):
        metadata = {"name": made, "namespace": home, "uid": f"{kind}-{number}", **_ownership(owner)}
        fields = {"replicas": replicas, "selector": selector, "template": template}
        yield {"apiVersion": "apps/v1", "kind": kind, "metadata": metadata, "spec": fields}
    for replica in range(replicas):
        place = (number * 7 + replica * 3) % NODES // 9 * 9 + (number + replica) % 6
        metadata = {
            "name": f"{name}-1-{replica}",
            "namespace": home,
            "labels": labels,
            **_ownership(("ReplicaSet", f"{name}-1")),
        }
        bound = {**spec, "nodeName": f"node-{min(place, NODES - 1):04}"}
        yield {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": bound, "status": {"phase": "Running"}}


def _ownership(owner: tuple[str, str] | None) -> dict[str, Any]:
    """The reference to the controller of an object."""
    if owner is None:
        return {}
    reference = {"apiVersion": "apps/v1", "kind": owner[0], "name": owner[1], "controller": True, "uid": owner[1]}
    return {"ownerReferences": [reference]}


def main() -> None:
    """Print the seconds of the first proof and of one whose cluster is digested."""
    objects = [CLASS, *(each for number in range(NODES) for each in node(number))]
    objects += [each for number in range(WORKLOADS) for each in workload(number)]
    empty = ("ResourceClaim", "ResourceClaimTemplate", "ResourceQuota", "LimitRange", "NodePool", "ConfigMap")
    lists = [{"apiVersion": "v1", "kind": f"{kind}List", "items": []} for kind in empty]
    view = ManifestsView([*objects, *lists])
    for name in ("first proof", "second proof, digests of the cluster known"):
        begun = time.process_time()
        proof = prove_migration(view, DEFAULTS)
        print(f"{name}: {len(proof.workloads)} workloads in {time.process_time() - begun:.1f} s")


if __name__ == "__main__":
    main()
