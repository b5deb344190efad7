"""Nodes, slices, pods and claims, and the usage report on them."""

from __future__ import annotations

from policies.analyses.usage import usage_report
from policies.rules.settings import DEFAULTS
from webhook.cluster.manifests import ManifestsView

H100 = "NVIDIA H100 80GB HBM3"
PRODUCT = "NVIDIA-H100-80GB-HBM3"


def empty(kind, version="v1"):
    return {"apiVersion": version, "kind": f"{kind}List", "items": []}


NOTHING = (
    empty("Node"),
    empty("Pod"),
    empty("ResourceClaim", "resource.k8s.io/v1"),
    empty("ResourceSlice", "resource.k8s.io/v1"),
)


def report(*objects, namespace="", partial=(), without=(), settings=DEFAULTS.quota):
    """The report on some objects; kinds in `without` are unknown unless there is one of them."""
    known = [each for each in NOTHING if each["kind"].removesuffix("List") not in without]
    return usage_report(ManifestsView([*known, *objects]), namespace, partial=partial, settings=settings)


def node(name="node-1", *, gpus=0, labels=None, taints=(), capacity=None, resource="nvidia.com/gpu", **spec):
    """A node whose device plugin advertises so many GPUs."""
    offered = {resource: str(gpus)} if gpus else {}
    shown = {"nvidia.com/gpu.product": PRODUCT, **(labels or {})}
    allocatable = {"cpu": "64", "memory": "512Gi", "pods": "110", **offered}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": shown},
        "spec": {"taints": list(taints), **spec},
        "status": {"allocatable": allocatable, "capacity": {**allocatable, **(capacity or {})}},
    }


def pod(name="train", gpus=1, *, node_name="node-1", namespace="team-a", cpu="4", resource="nvidia.com/gpu", **more):
    resources = {"requests": {"cpu": cpu, "memory": "8Gi"}, "limits": {resource: str(gpus)} if gpus else {}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"nodeName": node_name, "containers": [{"name": "main", "resources": resources}]},
        **more,
    }


def device(name="gpu-0", kind="gpu", product=H100, memory="81559Mi", attributes=None, **rest):
    texts = {"type": kind, "productName": product, **(attributes or {})}
    shown = {key: {"string": text} for key, text in texts.items()}
    return {"name": name, "attributes": shown, "capacity": {"memory": {"value": memory}}, **rest}


def devices(count):
    return [device(f"gpu-{number}") for number in range(count)]


def resource_slice(found, node_name="node-1", *, count=1, suffix="", **spec):
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": f"{node_name}{suffix}"},
        "spec": {
            "driver": "gpu.nvidia.com",
            "nodeName": node_name,
            "pool": {"name": node_name, "generation": 1, "resourceSliceCount": count},
            **({"devices": found} if found else {}),
            **spec,
        },
    }


def claim(*names, pods=("train",), name="gpus", namespace="team-a", pool="node-1", resource="pods", **result):
    results = [{"request": "gpu", "driver": "gpu.nvidia.com", "pool": pool, "device": each, **result} for each in names]
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu.nvidia.com"}}]}},
        "status": {
            "allocation": {"devices": {"results": results}},
            "reservedFor": [{"resource": resource, "name": each} for each in pods],
        },
    }


def totals(found):
    """Total, held, free and unusable of each kind, as text."""
    amounts = ("total", "held", "free", "unusable")
    return {
        str(use.kind): tuple("?" if (got := getattr(use, each)) is None else str(got) for each in amounts)
        for use in found.products
    }


def reasons(found):
    """Kind, sentence and amount of what makes free devices unusable."""
    return [(str(each.kind), each.sentence, str(each.amount)) for use in found.products for each, _ in use.reasons]
