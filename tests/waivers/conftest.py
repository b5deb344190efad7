"""Pods with waivers."""

import pytest


@pytest.fixture
def waiving():
    """Make a pod with an unknown annotation, which GA406 warns about, and with waivers."""

    def make(waivers, namespace="team-legacy", gpus=1, **annotations):
        limits = {"nvidia.com/gpu": str(gpus)}
        container = {"name": "main", "image": "train:1", "resources": {"limits": limits, "requests": dict(limits)}}
        annotations = {"gpu-admission.io/owner": "me", **annotations, "gpu-admission.io/ignore": waivers}
        metadata = {"name": "train", "namespace": namespace, "annotations": annotations}
        return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": [container]}}

    return make
