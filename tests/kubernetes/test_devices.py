"""ResourceSlices: their devices in every served version; broken parts are skipped."""

from fractions import Fraction

import pytest

from policies.kubernetes.resourceslices import PoolPart, devices_in, newest

DRIVER = "gpu.nvidia.com"


def resource_slice(name="s", *, pool="a", generation=1, driver=DRIVER, **spec):
    spec = {"driver": driver, "pool": {"name": pool, "generation": generation}, "nodeName": pool, **spec}
    return {"metadata": {"name": name}, "spec": spec}


def devices_of(slices):
    """The devices of the newest generation of every pool."""
    return [
        device
        for each in newest((PoolPart.of(each), each) for each in slices if PoolPart.of(each))
        for device in devices_in(each)
    ]


def names(*slices):
    return [device.name for device in devices_of(slices)]


def only(device, **spec):
    (read,) = devices_of([resource_slice(devices=[device], **spec)])
    return read


def test_device_is_read_with_qualified_names_and_exact_capacity():
    document = {
        "name": "gpu-0",
        "attributes": {
            "type": {"string": "gpu"},
            "cudaComputeCapability": {"version": "9.0.0"},
            "partition1": {"int": 0},
            "healthy": {"bool": False},
            "resource.kubernetes.io/pcieRoot": {"string": "pci0000:64"},
            "gpu.nvidia.com/productName": {"string": "NVIDIA L40S"},
        },
        "capacity": {"memory": {"value": "46068Mi"}, "example.com/half": {"value": "500m"}},
        "allowMultipleAllocations": True,
    }
    device = only(document)
    assert (device.driver, device.pool, device.name, device.node, device.is_shareable) == (
        DRIVER,
        "a",
        "gpu-0",
        "a",
        True,
    )
    assert device.attributes == {
        "gpu.nvidia.com/type": "gpu",
        "gpu.nvidia.com/cudaComputeCapability": "9.0.0",
        "gpu.nvidia.com/partition1": 0,
        "gpu.nvidia.com/healthy": False,
        "resource.kubernetes.io/pcieRoot": "pci0000:64",
        "gpu.nvidia.com/productName": "NVIDIA L40S",
    }
    assert device.capacity == {"gpu.nvidia.com/memory": 46068 * 1024**2, "example.com/half": Fraction(1, 2)}


def test_v1beta1_keeps_the_body_under_basic():
    device = only(
        {"name": "gpu-0", "basic": {"attributes": {"type": {"string": "gpu"}}, "capacity": {"memory": "1Gi"}}}
    )
    assert device.attributes == {"gpu.nvidia.com/type": "gpu"}
    assert device.capacity == {"gpu.nvidia.com/memory": 1024**3}


def test_newest_generation_of_a_pool_counts():
    old = resource_slice("old", generation=1, devices=[{"name": "gpu-0"}, {"name": "gpu-1"}])
    new = resource_slice("new", generation=2, devices=[{"name": "gpu-2"}])
    assert names(old, new) == names(new, old) == ["gpu-2"]


def test_slices_of_one_generation_are_one_pool_in_the_order_of_their_names():
    second = resource_slice("s-2", devices=[{"name": "gpu-1"}])
    first = resource_slice("s-1", devices=[{"name": "gpu-0"}])
    assert names(second, first) == ["gpu-0", "gpu-1"]


def test_pools_of_another_name_or_driver_have_generations_of_their_own():
    slices = [
        resource_slice(pool="b", generation=1, devices=[{"name": "b"}]),
        resource_slice(pool="a", generation=7, devices=[{"name": "a"}]),
        resource_slice(pool="a", generation=1, driver="compute-domain.nvidia.com", devices=[{"name": "channel-0"}]),
    ]
    assert names(*slices) == ["channel-0", "a", "b"]


def test_slice_without_generation_is_of_generation_0():
    slices = [
        resource_slice(generation=None, devices=[{"name": "old"}]),
        resource_slice(generation=1, devices=[{"name": "x"}]),
    ]
    assert names(*slices) == ["x"]
    assert names(slices[0]) == ["old"]


def test_slice_that_only_shares_counters_has_no_devices():
    assert names(resource_slice(sharedCounters=[{"name": "gpu-0-counter-set"}])) == []


def test_device_reachable_from_several_nodes_has_no_node():
    assert only({"name": "x"}, nodeName=None, allNodes=True).node == ""


@pytest.mark.parametrize("document", [{"name": "x", "nodeName": "b"}, {"name": "x", "basic": {"nodeName": "b"}}])
def test_device_may_name_its_own_node(document):
    assert only(document, nodeName=None, perDeviceNodeSelection=True).node == "b"


def test_version_is_printed_like_text():
    device = only({"name": "x", "attributes": {"a": {"version": "1.2.3"}, "b": {"string": "1.2.3"}}})
    assert device.attributes == {"gpu.nvidia.com/a": "1.2.3", "gpu.nvidia.com/b": "1.2.3"}


@pytest.mark.parametrize(
    "broken",
    [
        *({}, {"spec": None}, {"spec": []}, {"spec": {"driver": DRIVER}}, {"metadata": 1}),
        {"spec": {"driver": DRIVER, "pool": None, "devices": [{"name": "no"}]}},
        {"spec": {"driver": DRIVER, "pool": {"name": 1}, "devices": [{"name": "no"}]}},
        {"spec": {"driver": DRIVER, "pool": {"name": "p", "generation": "1"}, "devices": [{"name": "no"}]}},
        {"spec": {"pool": {"name": "p"}, "devices": [{"name": "no"}]}},
        resource_slice(pool="p", devices=None),
        resource_slice(pool="p", devices={"name": "no"}),
        resource_slice(pool="p", devices=[None, "x", [], {}, {"name": None}, {"name": 1}]),
    ],
)
def test_broken_slice_is_passed_over(broken):
    assert names(broken, resource_slice(devices=[{"name": "gpu-0"}])) == ["gpu-0"]


@pytest.mark.parametrize(
    "value",
    [
        *(None, "text", 1, [], {}, {"string": 1}, {"int": "1"}, {"int": True}, {"bool": 1}, {"version": None}),
        *({"strings": ["a", "b"]}, {"unheardOf": 1}),
    ],
)
def test_broken_attribute_is_passed_over(value):
    device = only({"name": "x", "attributes": {"broken": value, "type": {"string": "gpu"}}})
    assert device.attributes == {"gpu.nvidia.com/type": "gpu"}


@pytest.mark.parametrize("value", [None, [], {}, {"value": None}, {"value": "lots"}, {"value": {}}])
def test_broken_capacity_is_passed_over(value):
    device = only({"name": "x", "capacity": {"broken": value, "memory": {"value": "1Gi"}}})
    assert device.capacity == {"gpu.nvidia.com/memory": 1024**3}


@pytest.mark.parametrize("body", [{"attributes": None, "capacity": None}, {"attributes": [], "capacity": "x"}, {}])
def test_device_without_attributes_and_capacity_is_a_device(body):
    device = only({"name": "x", **body})
    assert (device.attributes, device.capacity, device.is_shareable) == ({}, {}, False)


@pytest.mark.parametrize("value", [None, False, "true", 1])
def test_only_true_allows_multiple_allocations(value):
    assert not only({"name": "x", "allowMultipleAllocations": value}).is_shareable
