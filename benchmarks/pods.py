"""Pods and claims that are sent to the webhook, of the size that real ones have."""

from __future__ import annotations

import json
from typing import Any

NAMESPACE = "team-a"
"""A namespace of examples/cluster whose pods are converted."""
OTHER_NAMESPACE = "team-legacy"
"""A namespace of examples/cluster whose pods are not converted."""
GPU = {"nvidia.com/gpu": "1"}
_POD_BYTES = 8000


def pod(devices: dict[str, str], *, containers: int = 1, namespace: str = NAMESPACE, **spec: Any) -> dict[str, Any]:
    """A pod of 8 kB as a job controller makes it; each container requests the devices."""
    resources = {"cpu": "8", "memory": "64Gi", **devices}
    container = {
        "image": "registry.example.com/team-a/train:1.2.3",
        "args": ["--epochs", "90"],
        "env": [{"name": f"SETTING_{number}", "value": "x" * 40} for number in range(30)],
        "volumeMounts": [{"name": "data", "mountPath": "/data"}],
    }
    document: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "generateName": "train-",
            "namespace": namespace,
            "labels": {"app": "train"},
            "annotations": {"team-a.example.com/notes": ""},
        },
        "spec": {
            "containers": [
                {**container, "name": f"train-{number}", "resources": {"limits": resources, "requests": resources}}
                for number in range(containers)
            ],
            "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}],
            **spec,
        },
    }
    rest = max(0, _POD_BYTES - len(json.dumps(document)))
    document["metadata"]["annotations"]["team-a.example.com/notes"] = "n" * rest
    return json.loads(json.dumps(document))  # type: ignore[no-any-return] # no two containers share a part


def affinity(*terms: dict[str, list[str]]) -> dict[str, Any]:
    """Required node affinity with one `In` expression for each key of a term."""
    return {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [
                    {"matchExpressions": [{"key": key, "operator": "In", "values": term[key]} for key in term]}
                    for term in terms
                ]
            }
        }
    }


def claim(*selectors: str, count: int = 1, namespace: str = NAMESPACE, **devices: Any) -> dict[str, Any]:
    """A claim for GPUs of one request."""
    exactly = {
        "deviceClassName": "gpu.nvidia.com",
        "allocationMode": "ExactCount",
        "count": count,
        "selectors": [{"cel": {"expression": selector}} for selector in selectors],
    }
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": "gpu", "namespace": namespace},
        "spec": {"devices": {"requests": [{"name": "gpu", "exactly": exactly}], **devices}},
    }
