"""Consumable capacity: request policies, rounding, shares of devices."""

from __future__ import annotations

import pytest

from policies.devices.allocation.reading import AllocationError
from policies.devices.allocation.usage import Amount


def shared(cluster, name="gpu-0", memory=None, **fields):
    capacity = {"memory": {"value": "80Gi"} if memory is None else memory}
    return cluster.device(name, capacity, allowMultipleAllocations=True, **fields)


def wants(cluster, amount, name="gpu", **fields):
    return cluster.request(name, capacity={"requests": {"memory": amount}}, **fields)


def consumed(cluster, *requests, **known):
    allocations = cluster.ask(cluster.claim(*requests), **known)
    if allocations is None:
        return None
    return [result.get("consumedCapacity") for result in allocations[0]["devices"]["results"]]


def test_requests_share_a_device_until_its_capacity_is_taken(cluster):
    cluster.add(shared(cluster), shared(cluster, "gpu-1"))
    claim = cluster.claim(wants(cluster, "50Gi", "a"), wants(cluster, "40Gi", "b"), wants(cluster, "30Gi", "c"))

    assert cluster.picked(claim) == ["a=gpu-0", "b=gpu-1", "c=gpu-0"]


def test_shares_of_other_claims_count(cluster):
    cluster.add(shared(cluster))
    device = "gpu.example.com/node-a/gpu-0"
    known = {"allocated_shared": [f"{device}/some-share"], "allocated_capacity": {device: {"memory": "60Gi"}}}

    assert cluster.picked(cluster.claim(wants(cluster, "20Gi")), **known) == ["gpu=gpu-0"]
    assert cluster.picked(cluster.claim(wants(cluster, "21Gi")), **known) is None


def test_one_request_for_two_never_gets_two_shares_of_one_device(cluster):
    cluster.add(shared(cluster), shared(cluster, "gpu-1"))

    assert cluster.picked(cluster.claim(wants(cluster, "1Gi", count=2))) == ["gpu=gpu-0", "gpu=gpu-1"]


def test_without_a_request_all_of_the_capacity_is_taken(cluster):
    cluster.add(shared(cluster))

    assert consumed(cluster, cluster.request()) == [{"memory": "80Gi"}]
    assert consumed(cluster, cluster.request("a"), cluster.request("b")) is None


def test_a_device_that_is_not_shared_only_has_to_be_large_enough(cluster):
    cluster.add(cluster.device("gpu-0", {"memory": {"value": "80Gi"}}))

    assert consumed(cluster, wants(cluster, "80Gi")) == [None]
    assert consumed(cluster, wants(cluster, "81Gi")) is None


def test_a_device_without_the_capacity_is_passed_over(cluster):
    cluster.add("gpu-0", shared(cluster, "gpu-1"))

    assert cluster.picked(cluster.claim(wants(cluster, "1Gi"))) == ["gpu=gpu-1"]


@pytest.mark.parametrize(
    ("policy", "asked", "taken"),
    [
        ({"default": "10Gi"}, None, "10Gi"),
        ({"validValues": ["10Gi", "20Gi"]}, "11Gi", "20Gi"),
        ({"validValues": ["10Gi", "20Gi"]}, "21Gi", None),
        ({"validRange": {"min": "10Gi"}}, "1Gi", "10Gi"),
        ({"validRange": {"min": "10Gi"}}, "11Gi", "11Gi"),
        ({"validRange": {"min": "10Gi", "step": "4Gi"}}, "11Gi", "14Gi"),
        ({"validRange": {"min": "10Gi", "step": "4Gi"}}, "14Gi", "14Gi"),
        ({"validRange": {"min": "10Gi", "max": "20Gi"}}, "21Gi", None),
        ({"validRange": {"min": "10Gi", "max": "20Gi"}}, None, None),
        ({"validRange": {"min": "10Gi", "max": "20Gi"}, "default": "12Gi"}, None, "12Gi"),
        ({"default": "0"}, None, "0"),
    ],
    ids=[
        "default",
        "next value",
        "above all values",
        "minimum",
        "within range",
        "next step",
        "on a step",
        "above maximum",
        "all is above maximum",
        "default in range",
        "nothing",
    ],
)
def test_a_request_policy_decides_what_is_taken(cluster, policy, asked, taken):
    cluster.add(shared(cluster, memory={"value": "80Gi", "requestPolicy": policy}))
    request = cluster.request() if asked is None else wants(cluster, asked)

    assert consumed(cluster, request) == (None if taken is None else [{"memory": taken}])


def test_all_leaves_out_devices_without_enough_capacity(cluster):
    cluster.add(shared(cluster, memory={"value": "8Gi"}), shared(cluster, "gpu-1"))

    assert cluster.picked(cluster.claim(wants(cluster, "10Gi", allocationMode="All"))) == ["gpu=gpu-1"]


def test_sharing_is_off_where_the_cluster_does_not_know_it(cluster):
    cluster.add(shared(cluster))
    both = cluster.claim(cluster.request("a"), cluster.request("b"))

    assert cluster.picked(both, features=["DRAPartitionableDevices"]) is None


@pytest.mark.parametrize(
    ("capacity", "message"),
    [
        ({"value": "many"}, "capacity memory: 'many' is not a quantity"),
        (
            {"value": "1", "requestPolicy": {"validRange": {"min": "1", "step": "0"}}},
            "capacity memory: the step of its validRange must be greater than 0, not 0",
        ),
    ],
    ids=["no quantity", "no step"],
)
def test_invalid_capacity_is_reported_with_its_place(cluster, capacity, message):
    cluster.add(shared(cluster, memory=capacity), name="broken")

    with pytest.raises(AllocationError) as failed:
        cluster.ask(cluster.claim(cluster.request()))
    assert str(failed.value) == f"ResourceSlice broken, device gpu-0, {message}"


@pytest.mark.parametrize(
    ("written", "printed"),
    [
        ("1Gi", "1Gi"),
        ("1024Mi", "1Gi"),
        ("1536Mi", "1536Mi"),
        ("1.5Gi", "1536Mi"),
        ("512", "512"),
        ("2048", "2048"),
        ("2000", "2k"),
        ("0.5", "500m"),
        ("1500m", "1500m"),
        ("0.1Ki", "102400m"),
        ("1e3", "1e3"),
        ("1E3", "1E3"),
        ("10e3", "10e3"),
        ("1e4", "10e3"),
        ("0", "0"),
        ("0Gi", "0"),
        ("-2Ki", "-2Ki"),
        ("1.500", "1.500"),
        (80, "80"),
    ],
)
def test_amounts_are_printed_as_kubernetes_prints_them(written, printed):
    assert str(Amount.read(written, "here")) == printed


@pytest.mark.parametrize(("text", "units"), [("1.2", 2), ("-1.2", -2), ("3", 3), ("1n", 1)])
def test_amounts_count_in_whole_units_away_from_zero(text, units):
    assert Amount.read(text, "here").units == units
