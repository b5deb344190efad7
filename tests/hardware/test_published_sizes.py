"""Quotas count the memory that the driver publishes, and the GPUs of the examples have published sizes."""

from __future__ import annotations

from pathlib import Path

import pytest

from policies.admission import review
from policies.rules.request import Request
from policies.rules.settings import DEFAULTS
from testbed import libyaml
from webhook.cluster.manifests import ManifestsView

EXAMPLES = Path(__file__).parents[2] / "examples"
PUBLISHED = {
    "Tesla-T4": {15360},
    "NVIDIA-A100-SXM4-40GB": {40960, 4864, 9984, 20096},
    "NVIDIA-A100-SXM4-80GB": {81920, 9728, 19968, 40192},
    "NVIDIA-H100-80GB-HBM3": {81559},
}
"""In MiB, of whole GPUs and of their MIG devices."""
POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "train", "namespace": "team-a"},
    "spec": {
        "containers": [
            {"name": "train", "resources": {"limits": {"nvidia.com/gpu": "1"}, "requests": {"nvidia.com/gpu": "1"}}}
        ]
    },
}


def quota(memory):
    return {
        "apiVersion": "gpu-admission.io/v1alpha1",
        "kind": "GPUQuota",
        "metadata": {"name": "gpu", "namespace": "team-a"},
        "spec": {"limits": [{"name": "memory", "memory": memory}]},
    }


def published_memory(hardware):
    return hardware.slices[0]["spec"]["devices"][0]["capacity"]["memory"]["value"]


@pytest.mark.parametrize("is_enough", [True, False])
def test_quota_counts_the_memory_that_is_published(h100, is_enough):
    mebibytes = int(published_memory(h100).removesuffix("Mi")) - (not is_enough)
    view = ManifestsView([*h100.objects, quota(f"{mebibytes}Mi")])
    decision = review(Request(POD, namespace="team-a", name="train"), view, DEFAULTS)
    assert decision.allowed is is_enough
    assert {each.rule.id for each in decision.denials} == (set() if is_enough else {"GA502"})


def sizes():
    """Products and sizes of the nodes and slices of the examples."""
    for file in sorted(EXAMPLES.rglob("*.yaml")):
        for document in libyaml.load_all(file.read_text()):
            for each in (document or {}).get("items", [document]):
                if each and each.get("kind") == "Node":
                    labels = each["metadata"].get("labels") or {}
                    for key in (key for key in labels if key.endswith(".memory") and key.startswith("nvidia.com/")):
                        yield file.name, labels["nvidia.com/gpu.product"].partition("-MIG-")[0], f"{labels[key]}Mi"
                if each and each.get("kind") == "ResourceSlice":
                    for device in each["spec"].get("devices", []):
                        if "memory" in device.get("capacity", {}):
                            name = device["attributes"]["productName"]["string"].replace(" ", "-")
                            yield file.name, name, device["capacity"]["memory"]["value"]


def test_examples_have_gpus_of_sizes_that_drivers_publish():
    found = {(product.removesuffix("-SHARED"), size.replace("80Gi", "81920Mi")) for _, product, size in sizes()}
    assert len(found) > 5
    assert found <= {(product, f"{size}Mi") for product, published in PUBLISHED.items() for size in published}
