"""GPUQuotas and namespaces in files, and the folders of the quota examples."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
WITH_QUOTA = EXAMPLES / "cluster-with-quota"
AWAY = {"HOME": "/nonexistent", "KUBECONFIG": "", "NO_COLOR": "1"}


def quota(namespace="team-a", hard=8, **spec):
    return {
        "apiVersion": "gpu-admission.io/v1alpha1",
        "kind": "GPUQuota",
        "metadata": {"name": "gpu", "namespace": namespace},
        "spec": {"limits": [{"name": "all", "gpus": hard}], **spec},
    }


def namespace(name="team-a", **labels):
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}
