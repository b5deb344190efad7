"""Small clusters that are compared, and their objects."""

from __future__ import annotations

from policies.kubernetes.view import ChangedView
from policies.outcome import Situation
from policies.rules.settings import DEFAULTS
from tests.explain import conftest as k8s
from webhook.cluster.manifests import ManifestsView

GPU = "nvidia.com/gpu"
BASE = (
    k8s.device_class(),
    k8s.namespace(),
    k8s.empty_list("Pod"),
    k8s.empty_list("ResourceClaim", "resource.k8s.io/v1"),
    k8s.empty_list("ResourceSlice", "resource.k8s.io/v1"),
)


def gpu_node(name="node-1", gpus=2, **labels):
    return k8s.node(name, {"nvidia.com/gpu.present": "true", **labels}, allocatable={GPU: str(gpus)})


def bound(name, node="node-1", *, gpus=1, owner="", **rest):
    """A running pod that holds GPUs of a device plugin."""
    made = k8s.pod({GPU: str(gpus)}, name=name, stored=True, nodeName=node, **rest)
    if owner:
        kind, _, owned_by = owner.partition("/")
        version = {"ReplicaSet": "apps/v1", "DaemonSet": "apps/v1", "RayCluster": "ray.io/v1"}[kind]
        made["metadata"]["ownerReferences"] = [
            {"apiVersion": version, "kind": kind, "name": owned_by, "controller": True}
        ]
    return made | {"status": {"phase": "Running"}}


def situation(*objects):
    return Situation(ManifestsView([*BASE, *objects]), DEFAULTS)


def changed(before, *objects, deleted=()):
    """The situation after objects were stored or deleted."""
    keys = {(each["kind"], each["metadata"].get("namespace", ""), each["metadata"]["name"]): each for each in objects}
    return Situation(ChangedView(before.view, keys | dict.fromkeys(deleted)), before.settings)
