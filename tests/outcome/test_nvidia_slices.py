"""Claims for what NVIDIA's driver publishes fit, with each of its feature gates.

The ResourceSlices are those that the real driver wrote, if they lie beside the repository; see ../shared/reference/nvidia/README.md.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from policies.analyses.explain import explain
from policies.analyses.usage import usage_report
from policies.kubernetes.resourceslices import PCI_BUS_ID
from policies.outcome import Feasibility, questions, simulate
from policies.rules.settings import DEFAULTS
from tests.explain import conftest as k8s
from webhook.cluster.manifests import ManifestsView

RUNS = Path(__file__).parents[3] / "shared" / "reference" / "nvidia"
MIG = "device.driver == 'gpu.nvidia.com' && device.attributes['gpu.nvidia.com'].type == 'mig'"
PROFILE = "device.attributes['gpu.nvidia.com'].profile == '{}'"
CLASSES = (k8s.device_class(), k8s.device_class("mig.nvidia.com", MIG))
FACTS = (*CLASSES, k8s.namespace(), k8s.empty_list("Pod"), k8s.empty_list("ResourceClaim", "resource.k8s.io/v1"))
HARDWARE = [each for each in sorted(RUNS.glob("*.json")) if not each.stem.endswith("-runs")]


def runs(file):
    """Name and slices of each run of the driver on one kind of hardware, by layout and feature gates."""
    for name, run in json.loads(file.read_text()).items():
        if name.startswith("dra-") and run["dra"]["slices"]:
            yield name, run["dra"]["slices"]


def published(slices):
    """The published devices: `gpu` for whole GPUs, profiles for MIG devices."""
    devices = [device["attributes"] for each in slices for device in each["spec"].get("devices", ())]
    return {each.get("profile", each["type"])["string"] for each in devices}


@pytest.mark.parametrize("file", HARDWARE, ids=lambda file: file.stem)
def test_claim_for_everything_that_is_published_fits(file):
    misfits = []
    for name, slices in runs(file):
        version = {"gitVersion": "v1.34.4" if name.endswith("combined") else "v1.36.2"}
        node = k8s.node(slices[0]["spec"]["nodeName"])
        view = ManifestsView([*FACTS, node, *slices, {"serverVersion": version}])
        for kind in sorted(published(slices) - {"vfio"}):
            request = {} if kind == "gpu" else k8s.selecting(PROFILE.format(kind), deviceClassName="mig.nvidia.com")
            (question,) = questions(k8s.claim(request), "team-a", view, DEFAULTS)
            if simulate(question, view, DEFAULTS).verdict is not Feasibility.FITS:
                found = explain(question, view, DEFAULTS)
                misfits.append((name, kind, found.headline, [str(each.reason) for each in found.groups]))
    assert misfits == []


@pytest.mark.parametrize("file", HARDWARE, ids=lambda file: file.stem)
def test_every_gpu_counts_once_beside_its_device_for_virtual_machines(file):
    for name, slices in runs(file):
        if not name.endswith("passthrough"):
            continue
        buses = {"gpu": set(), "mig": set(), "vfio": set()}
        for device in slices[0]["spec"]["devices"]:
            attributes = device["attributes"]
            buses[attributes["type"]["string"]].add(attributes[PCI_BUS_ID]["string"])
        assert buses["vfio"] == buses["gpu"] | buses["mig"]
        gpus = usage_report(ManifestsView([*FACTS, *slices])).gpus
        assert sum(each.total for each in gpus if not each.kind.profile) == len(buses["gpu"])
