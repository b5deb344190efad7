"""GPUQuotas and namespaces in files, and the folders of the quota examples."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
WITH_QUOTA = EXAMPLES / "cluster-with-quota"
AWAY = {"HOME": "/nonexistent", "KUBECONFIG": "", "NO_COLOR": "1"}

TEAMS = """
apiVersion: gpu-admission.io/v1alpha1
kind: ClusterGPUQuota
metadata: {name: research}
spec:
  namespaceSelector: {matchLabels: {example.com/division: research}}
  groupBy: example.com/team
  limits: [{name: total, gpus: 8, min: 4}]
---
apiVersion: v1
kind: Namespace
metadata: {name: vision-dev, labels: {example.com/division: research, example.com/team: vision}}
---
apiVersion: v1
kind: Namespace
metadata: {name: vision-prod, labels: {example.com/division: research, example.com/team: vision}}
---
apiVersion: v1
kind: Namespace
metadata: {name: speech, labels: {example.com/division: research, example.com/team: speech}}
---
apiVersion: v1
kind: Pod
metadata: {name: train, namespace: vision-dev, uid: a}
spec: {nodeName: gpu-1, containers: [{name: main, image: cuda, resources: {limits: {nvidia.com/gpu: "3"}}}]}
---
apiVersion: v1
kind: Pod
metadata: {name: serve, namespace: vision-prod, uid: b}
spec: {nodeName: gpu-1, containers: [{name: main, image: cuda, resources: {limits: {nvidia.com/gpu: "3"}}}]}
"""
"""A ClusterGPUQuota with two groups, one of which uses what the other lends."""


def quota(namespace="team-a", hard=8, **spec):
    return {
        "apiVersion": "gpu-admission.io/v1alpha1",
        "kind": "GPUQuota",
        "metadata": {"name": "gpu", "namespace": namespace},
        "spec": {"limits": [{"name": "all", "gpus": hard}], **spec},
    }


def namespace(name="team-a", **labels):
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}
