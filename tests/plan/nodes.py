"""Nodes, configurations and plans of tests."""

from __future__ import annotations

import yaml

from policies.analyses.plan import PlannedChange, changed_objects, key_of, plan_change
from tests.explain import conftest as k8s
from tests.outcome.clusters import BASE, GPU
from tests.outcome.clusters import situation as bare_situation

__all__ = ["BASE", "GPU", "bare_situation", "config_map", "gpu_node", "plan", "policy", "situation", "time_slicing"]


def gpu_node(name="node-1", gpus=8, product="NVIDIA-A100-SXM4-40GB", memory="40960", taints=(), labels=None, **offered):
    """A node with whole GPUs by the device plugin, labelled as GPU Feature Discovery does it."""
    found = {
        "nvidia.com/gpu.present": "true",
        "nvidia.com/gpu.product": product,
        "nvidia.com/gpu.count": str(gpus),
        "nvidia.com/gpu.replicas": "1",
        "nvidia.com/gpu.memory": memory,
        "nvidia.com/gpu.sharing-strategy": "none",
        "nvidia.com/mig.capable": "true",
        **(labels or {}),
    }
    return k8s.node(name, found, taints=taints, allocatable=offered or {GPU: str(gpus)})


def policy(strategy="mixed", default="whole", **spec):
    """A ClusterPolicy that names the ConfigMap of the device plugin."""
    return {
        "apiVersion": "nvidia.com/v1",
        "kind": "ClusterPolicy",
        "metadata": {"name": "cluster-policy"},
        "spec": {
            "mig": {"strategy": strategy},
            "devicePlugin": {"config": {"name": "plugin", "default": default}},
            **spec,
        },
    }


def config_map(name="plugin", **documents):
    data = {key: value if isinstance(value, str) else yaml.safe_dump(value) for key, value in documents.items()}
    metadata = {"name": name, "namespace": "gpu-operator"}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


def time_slicing(replicas=4, resource=GPU, kind="timeSlicing", **options):
    """A document of the device plugin."""
    return {"version": "v1", "sharing": {kind: {"resources": [{"name": resource, "replicas": replicas}], **options}}}


def situation(*objects, whole="version: v1\n", **spec):
    """A cluster with the operator's configuration."""
    return bare_situation(policy(**spec), config_map(whole=whole), *objects)


def plan(before, *manifests, deleted=()):
    """The plan of applied manifests."""
    keyed = {key_of(each, "", before): each for each in manifests}
    return plan_change(PlannedChange(before, changed_objects(keyed, deleted, before)))
