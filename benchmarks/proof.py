"""The cost of the plan of a cutover, and of the proof of a migration: seconds of the processor.

The cutover is that of 300 nodes with 8 GPUs each and 402 pods; it may take 30 s. The migration is that of 2,000 nodes. Two thirds
of the nodes have the device plugin and the others the DRA driver, of three products; the pods are those of Deployments, no two of
them alike.

Run it with `.venv/bin/python benchmarks/proof.py`; `--check` plans the cutover only, and fails if it takes longer.
"""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any

from benchmarks.devices import CLASS
from policies.analyses.cutover import cutover_documents, plan_cutover
from policies.analyses.migrate.proof import prove_migration
from policies.rules.settings import DEFAULTS
from testbed.manifests import cluster_policy
from webhook.cluster.manifests import ManifestsView

if TYPE_CHECKING:
    from collections.abc import Iterator

NODES, WORKLOADS, GPUS = 2_000, 500, 8
CUTOVER_NODES, CUTOVER_WORKLOADS, CUTOVER_SECONDS = 300, 91, 30
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


def workload(number: int, nodes: int) -> Iterator[dict[str, Any]]:
    """A Deployment, its ReplicaSet, and its pods on those of some nodes that have the device plugin."""
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
        place = (number * 7 + replica * 3) % nodes // 9 * 9 + (number + replica) % 6
        metadata = {
            "name": f"{name}-1-{replica}",
            "namespace": home,
            "labels": labels,
            **_ownership(("ReplicaSet", f"{name}-1")),
        }
        bound = {**spec, "nodeName": f"node-{min(place, nodes - 1):04}"}
        yield {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": bound, "status": {"phase": "Running"}}


def _ownership(owner: tuple[str, str] | None) -> dict[str, Any]:
    """The reference to the controller of an object."""
    if owner is None:
        return {}
    reference = {"apiVersion": "apps/v1", "kind": owner[0], "name": owner[1], "controller": True, "uid": owner[1]}
    return {"ownerReferences": [reference]}


def cluster(nodes: int, *objects: dict[str, Any]) -> ManifestsView:
    """Some nodes and objects, and no objects of other kinds."""
    empty = ("ResourceClaim", "ResourceClaimTemplate", "ResourceQuota", "LimitRange", "NodePool", "ConfigMap")
    lists = [{"apiVersion": "v1", "kind": f"{kind}List", "items": []} for kind in empty]
    return ManifestsView([CLASS, *(each for number in range(nodes) for each in node(number)), *objects, *lists])


def cutover_seconds() -> float:
    """Print and return the seconds of the plan of a cutover and of its files."""
    objects = [each for number in range(CUTOVER_WORKLOADS) for each in workload(number, CUTOVER_NODES)]
    pods = sum(each["kind"] == "Pod" for each in objects)
    server = {"serverVersion": {"gitVersion": "v1.36.2"}}
    view = cluster(CUTOVER_NODES, cluster_policy(), server, *objects)
    begun = time.process_time()
    plan = plan_cutover(view, DEFAULTS, "cutover")
    cutover_documents(view, DEFAULTS)
    seconds = time.process_time() - begun
    print(f"cutover: {len(plan.steps)} steps for {CUTOVER_NODES} nodes and {pods} pods in {seconds:.1f} s")
    return seconds


def main() -> int:
    """Print the seconds of a cutover, of the first proof, and of one whose cluster is digested."""
    if cutover_seconds() > CUTOVER_SECONDS:
        print(f"planning the cutover took more than {CUTOVER_SECONDS} s of the processor")
        return 1
    if sys.argv[1:] == ["--check"]:
        return 0
    view = cluster(NODES, *(each for number in range(WORKLOADS) for each in workload(number, NODES)))
    for name in ("first proof", "second proof, digests of the cluster known"):
        begun = time.process_time()
        proof = prove_migration(view, DEFAULTS)
        print(f"{name}: {len(proof.workloads)} workloads in {time.process_time() - begun:.1f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
