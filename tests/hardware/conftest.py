"""A real H100 and its node, as the DRA driver publishes it without and with its feature gate DynamicMIG.

`h100.json` was read from the hardware: by GPU Feature Discovery (strategy mixed), and by the driver's own enumeration.
An H200 differs from it by its name and its sizes, which were measured as well.
"""

from __future__ import annotations

import json
from copy import deepcopy
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from testbed import libyaml
from tests.allocations import allocate
from webhook.cluster.manifests import ManifestsView

if TYPE_CHECKING:
    from policies.kubernetes.view import ClusterView

HERE = Path(__file__).parent
EXAMPLE = HERE.parents[1] / "examples" / "cluster"
MEASURED = json.loads((HERE / "h100.json").read_text())


@dataclass(frozen=True)
class Hardware:
    """A node with one GPU, and a cluster that has only this node."""

    node: dict[str, Any]
    slices: list[dict[str, Any]]
    classes: list[dict[str, Any]]
    objects: list[dict[str, Any]]
    """All that the cluster has."""

    @cached_property
    def view(self) -> ClusterView:
        return ManifestsView(self.objects)

    @property
    def labels(self) -> dict[str, str]:
        return self.node["metadata"]["labels"]

    def gives_devices(self, claim_spec: dict[str, Any]) -> bool:
        """Whether the scheduler would give the node's devices to a claim."""
        claim = {
            "metadata": {"name": "gpu", "namespace": "team-a", "uid": "1"},
            "spec": claim_spec,
        }
        return bool(allocate(claims=[claim], node=self.node, slices=self.slices, classes=self.classes))


def documents(name: str) -> list[dict[str, Any]]:
    loaded = libyaml.load_all((EXAMPLE / name).read_text())
    return [item for document in loaded for item in document.get("items", [document])]


@cache
def hardware(product: str, *, dynamic_mig: bool) -> Hardware:
    """The node with an H100 or an H200, in one form."""
    labels = {"nvidia.com/gpu.present": "true", **MEASURED["nodeLabels"]}
    devices = deepcopy(MEASURED["devicesWithDynamicMIG" if dynamic_mig else "devices"])
    if product == "H200":
        labels |= {"nvidia.com/gpu.product": "NVIDIA-H200", "nvidia.com/gpu.memory": "143771"}
        for device in devices:
            device["attributes"]["productName"]["string"] = "NVIDIA H200"
        devices[0]["capacity"]["memory"]["value"] = "140Gi" if dynamic_mig else "143771Mi"
    node = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "gpu-01", "labels": {"kubernetes.io/hostname": "gpu-01", **labels}},
        "status": {"nodeInfo": {"kubeletVersion": "v1.36.2"}, "allocatable": {"cpu": "64"}, "capacity": {"cpu": "64"}},
    }
    contents = [{"devices": devices}]
    if dynamic_mig:
        contents.append({"sharedCounters": MEASURED["sharedCountersWithDynamicMIG"]})
    slices = [
        {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceSlice",
            "metadata": {"name": f"gpu-01-{number}"},
            "spec": {
                "driver": "gpu.nvidia.com",
                "nodeName": "gpu-01",
                "pool": {"name": "gpu-01", "generation": 1, "resourceSliceCount": len(contents)},
                **content,
            },
        }
        for number, content in enumerate(contents)
    ]
    classes = documents("deviceclasses.yaml")
    rest = [*documents("namespaces.yaml"), *documents("version.yaml")]
    return Hardware(node, slices, classes, [node, *slices, *classes, *rest])


@pytest.fixture(params=["published as it is", "published with DynamicMIG"])
def h100(request: pytest.FixtureRequest) -> Hardware:
    """The H100, in both forms."""
    return hardware("H100", dynamic_mig=request.param.endswith("DynamicMIG"))


@pytest.fixture(params=["published as it is", "published with DynamicMIG"])
def h200(request: pytest.FixtureRequest) -> Hardware:
    """The H200, in both forms."""
    return hardware("H200", dynamic_mig=request.param.endswith("DynamicMIG"))


@pytest.fixture
def h100_divisible() -> Hardware:
    """The H100 with DynamicMIG."""
    return hardware("H100", dynamic_mig=True)
