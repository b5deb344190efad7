"""Capacity that devices of the cluster have or lack."""

import pytest

PENDING = "so the pod would stay Pending"
OLD = {"serverVersion": {"gitVersion": "v1.35.0"}}


@pytest.fixture
def cluster(device_class, gpu, on_node):
    """One node with a large and a small GPU that can be shared."""
    return [device_class(), on_node("node-1", gpu("gpu-0"), gpu("gpu-1", memory="40Gi"))]


def wanting(**amounts):
    return {"requests": amounts}


@pytest.mark.parametrize("amount", ["10Gi", "81559Mi", "0"])
def test_capacity_that_a_device_has_is_fine(said, asking, cluster, amount):
    assert said("GA222", asking(capacity=wanting(memory=amount)), *cluster) == []


def test_capacity_that_no_device_has_is_reported(said, asking, cluster):
    assert said("GA222", asking(capacity=wanting(memry="10Gi")), *cluster) == [
        (
            "capacity.requests.memry: is an unknown capacity: none of the 2 devices that match has it, "
            f'{PENDING}; write "memory"'
        )
    ]


def test_capacity_like_none_is_reported_with_what_there_is(said, asking, cluster):
    assert said("GA222", asking(capacity=wanting(bandwidth="1")), *cluster) == [
        (
            "capacity.requests.bandwidth: is an unknown capacity: none of the 2 devices that match has it, "
            f"{PENDING}; remove it; there is only memory"
        )
    ]


def test_capacity_with_a_domain_that_devices_write_without_is_reported(said, asking, cluster):
    claim = asking(capacity={"requests": {"gpu.nvidia.com/memory": "10Gi"}})
    (text,) = said("GA222", claim, *cluster)
    assert text.endswith(f'has it, {PENDING}; write "memory"')


def test_device_without_any_capacity_is_reported(said, asking, device_class, gpu, on_node):
    claim = asking(capacity=wanting(memory="1Gi"))
    assert said("GA222", claim, device_class(), on_node("node-1", gpu(memory=None))) == [
        (
            "capacity.requests.memory: is an unknown capacity: the only device that matches does not have it, "
            f"{PENDING}; remove it; these devices have no capacity"
        )
    ]


def test_more_than_the_largest_device_has_is_reported(said, asking, cluster):
    assert said("GA222", asking(capacity=wanting(memory="200Gi")), *cluster) == [
        (
            f"capacity.requests.memory: requests 200Gi, and the largest of the devices that match has 81559Mi, {PENDING}; "
            "request at most 81559Mi, or wait for a node with more"
        )
    ]


def test_only_devices_with_enough_count(said, asking, cluster):
    assert said("GA222", asking(count=2, capacity=wanting(memory="60Gi")), *cluster) == [
        (
            "count: requests 2 devices, and no node has more than 1 of this kind (node-1); a claim is for one node; "
            "request at most 1, and use more pods for more nodes"
        )
    ]


def test_capacities_that_no_device_has_together_are_reported(said, asking, device_class, gpu, on_node):
    first, second = gpu("gpu-0"), gpu("gpu-1", memory="40Gi")
    second["capacity"]["shares"] = {"value": "4"}
    claim = asking(capacity=wanting(memory="81559Mi", shares="4"))
    assert said("GA222", claim, device_class(), on_node("node-1", first, second)) == [
        f"capacity.requests: is more than any one device has together, {PENDING}; request less of one capacity"
    ]


def test_one_alternative_with_enough_will_do(said, asking, cluster):
    claim = asking()
    alternatives = [
        {"name": str(number), "deviceClassName": "gpu.nvidia.com", "capacity": wanting(memory=amount)}
        for number, amount in enumerate(["200Gi", "40Gi"])
    ]
    claim["spec"]["devices"]["requests"] = [{"name": "gpu", "firstAvailable": alternatives}]
    assert said("GA222", claim, *cluster) == []


def test_version_that_drops_the_field_gives_whole_devices(said, asking, cluster):
    assert said("GA222", asking(capacity=wanting(memry="10Gi")), *cluster, OLD) == []


@pytest.mark.parametrize("capacity", [[], {"requests": []}, {"requests": {"memory": []}}, {"requests": {"a-b": "1"}}])
def test_capacity_that_other_rules_report_is_ignored(said, asking, cluster, capacity):
    assert said("GA222", asking(capacity=capacity), *cluster) == []
