"""Feature gates of DRA are on by version, or where a stored object has a field that only the gate lets through."""

import pytest

from policies.devices.allocation.reading import offers, stores_counters_with_devices
from policies.kubernetes.view import UNKNOWN
from tests.explain import conftest as k8s
from webhook.cluster.manifests import ManifestsView

LISTS = {"resource.kubernetes.io/numaNode": {"ints": [0]}}


def view(*objects, version=""):
    return ManifestsView([*objects, *([{"serverVersion": {"gitVersion": version}}] if version else [])])


def with_field(**fields):
    return k8s.resource_slice([{"name": "gpu-0", **fields}])


@pytest.mark.parametrize(
    ("version", "on"), [("", UNKNOWN), ("v1.34.4", False), ("v1.35.0", False), ("v1.36.2", True), ("v1.37.0", True)]
)
def test_version_tells_what_is_on_by_default(version, on):
    assert offers(view(k8s.resource_slice(k8s.gpus(1)), version=version), "DRAPartitionableDevices") is on


@pytest.mark.parametrize(
    ("gate", "document"),
    [
        ("DRAExtendedResource", k8s.device_class(extendedResourceName="nvidia.com/gpu")),
        ("DRAPartitionableDevices", k8s.resource_slice([], node_name="", sharedCounters=[{"name": "gpu-0"}])),
        ("DRAPartitionableDevices", k8s.resource_slice([], node_name="", perDeviceNodeSelection=True)),
        ("DRAPartitionableDevices", with_field(consumesCounters=[{"counterSet": "gpu-0"}])),
        ("DRAPartitionableDevices", with_field(basic={"consumesCounters": [{"counterSet": "gpu-0"}]})),
        ("DRAConsumableCapacity", with_field(allowMultipleAllocations=True)),
        ("DRADeviceTaints", with_field(taints=[{"key": "broken", "effect": "NoSchedule"}])),
        ("DRADeviceBindingConditions", with_field(bindingConditions=["ready"])),
        ("DRAListTypeAttributes", with_field(attributes=LISTS)),
    ],
)
@pytest.mark.parametrize("version", ["", "v1.34.4"])
def test_stored_field_proves_its_gate(gate, document, version):
    assert offers(view(document, version=version), gate) is True


def test_plain_devices_prove_nothing():
    known = view(k8s.resource_slice(k8s.gpus(1)), k8s.device_class(), version="v1.34.4")
    gates = ("DRAPartitionableDevices", "DRAConsumableCapacity", "DRADeviceTaints", "DRAListTypeAttributes")
    assert [offers(known, gate) for gate in gates] == [False] * 4


def test_gate_that_no_version_has_on_is_unknown_without_a_version():
    assert offers(view(), "DRAListTypeAttributes") is UNKNOWN


@pytest.mark.parametrize(("version", "may"), [("", True), ("v1.34.4", True), ("v1.35.0", False), ("v1.36.2", False)])
def test_counters_lie_beside_devices_before_kubernetes_1_35(version, may):
    assert stores_counters_with_devices(view(version=version)) is may
