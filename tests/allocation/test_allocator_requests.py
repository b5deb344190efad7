"""Requests: counts, all devices, alternatives, admin access, and refusals before the search."""

from __future__ import annotations

import pytest

from policies.devices.allocation.reading import AllocationError


def refused(cluster, *claims, **known):
    with pytest.raises(AllocationError) as failed:
        cluster.ask(*claims, **known)
    return str(failed.value)


def test_no_claims_get_no_allocations(cluster):
    assert cluster.ask() == []


def test_a_claim_without_requests_gets_an_empty_allocation(cluster):
    assert cluster.ask(cluster.claim()) == [{"devices": {}}]


def test_mode_and_count_are_defaulted_as_the_api_server_does(cluster):
    cluster.add("gpu-0", "gpu-1")

    assert cluster.picked(cluster.claim(cluster.request())) == ["gpu=gpu-0"]


def test_a_request_gets_as_many_devices_as_it_counts(cluster):
    cluster.add("gpu-0", "gpu-1", "gpu-2")

    assert cluster.picked(cluster.claim(cluster.request(count=2))) == ["gpu=gpu-0", "gpu=gpu-1"]
    assert cluster.picked(cluster.claim(cluster.request(count=4))) is None


def test_no_device_goes_to_two_requests_or_claims(cluster):
    cluster.add("gpu-0", "gpu-1", "gpu-2")
    both = cluster.claim(cluster.request("a"), cluster.request("b"))

    assert cluster.picked(both, cluster.claim(cluster.request("c"))) == ["a=gpu-0", "b=gpu-1", "c=gpu-2"]


def test_devices_of_other_claims_are_not_given_away(cluster):
    cluster.add("gpu-0", "gpu-1")

    allocated = ["gpu.example.com/node-a/gpu-0"]
    assert cluster.picked(cluster.claim(cluster.request()), allocated=allocated) == ["gpu=gpu-1"]


def test_an_earlier_request_gives_way_to_one_that_can_use_nothing_else(cluster):
    cluster.add(cluster.device("gpu-0", attributes={"big": {"bool": True}}), "gpu-1")
    big = cluster.request("big", 'device.attributes["gpu.example.com"].?big.orValue(false)')

    assert cluster.picked(cluster.claim(cluster.request("any"), big)) == ["any=gpu-1", "big=gpu-0"]


def test_all_takes_every_device_that_matches(cluster):
    cluster.add("gpu-0", "gpu-1", "nic-0")
    every = cluster.request("gpu", 'device.driver == "gpu.example.com"', allocationMode="All")

    assert cluster.picked(cluster.claim(every)) == ["gpu=gpu-0", "gpu=gpu-1", "gpu=nic-0"]


def test_all_of_nothing_does_not_fit(cluster):
    assert cluster.picked(cluster.claim(cluster.request(allocationMode="All"))) is None


def test_all_does_not_fit_while_one_of_them_is_in_use(cluster):
    cluster.add("gpu-0", "gpu-1")

    allocated = ["gpu.example.com/node-a/gpu-1"]
    assert cluster.picked(cluster.claim(cluster.request(allocationMode="All")), allocated=allocated) is None


def test_the_first_alternative_that_fits_is_taken(cluster):
    cluster.add("gpu-0", "gpu-1")
    either = {
        "name": "gpu",
        "firstAvailable": [{"name": "four", **cluster.wanted(count=4)}, {"name": "two", **cluster.wanted(count=2)}],
    }

    assert cluster.picked(cluster.claim(either)) == ["gpu/two=gpu-0", "gpu/two=gpu-1"]


def test_an_alternative_gives_way_to_a_later_request(cluster):
    cluster.add("gpu-0", "gpu-1")
    either = {
        "name": "gpu",
        "firstAvailable": [{"name": "two", **cluster.wanted(count=2)}, {"name": "one", **cluster.wanted()}],
    }

    assert cluster.picked(cluster.claim(either, cluster.request("other"))) == ["gpu/one=gpu-0", "other=gpu-1"]


def test_admin_access_takes_devices_in_use(cluster):
    cluster.add("gpu-0")
    claim = cluster.claim(cluster.request(adminAccess=True))

    (allocation,) = cluster.ask(claim, allocated=["gpu.example.com/node-a/gpu-0"])
    assert allocation["devices"]["results"][0]["adminAccess"] is True


def test_admin_access_takes_no_device_twice_for_one_claim(cluster):
    cluster.add("gpu-0")
    twice = cluster.claim(cluster.request("a", adminAccess=True), cluster.request("b", adminAccess=True))

    assert cluster.picked(twice) is None


def test_a_claim_gets_at_most_32_devices(cluster):
    cluster.add(*(f"gpu-{number}" for number in range(40)))

    assert len(cluster.picked(cluster.claim(cluster.request(count=32)))) == 32
    assert refused(cluster, cluster.claim(cluster.request(count=33))) == (
        "claim claim: number of requested devices 33 exceeds the claim limit of 32"
    )


def test_an_alternative_with_too_many_devices_is_passed_over(cluster):
    cluster.add(*(f"gpu-{number}" for number in range(40)))
    either = {
        "name": "more",
        "firstAvailable": [{"name": "many", **cluster.wanted(count=20)}, {"name": "one", **cluster.wanted()}],
    }

    picked = cluster.picked(cluster.claim(cluster.request(count=20), either))
    assert picked[20:] == ["more/one=gpu-20"]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"deviceClassName": ""}, "missing device class name (unsupported request type?)"),
        (
            {"deviceClassName": "none"},
            'could not retrieve device class none: deviceclass.resource.k8s.io "none" not found',
        ),
        ({"allocationMode": "Some"}, "unsupported count mode Some"),
        ({"count": 2**63}, "exact count 9223372036854775808 is too large"),
    ],
    ids=["no class", "unknown class", "unknown mode", "count"],
)
def test_a_request_that_makes_no_sense_is_refused(cluster, fields, message):
    assert refused(cluster, cluster.claim(cluster.request(**fields))) == f"claim claim, request gpu: {message}"


def test_a_selector_that_is_not_cel_is_refused(cluster):
    claim = cluster.claim(cluster.request(selectors=[{}]))
    claim["metadata"]["namespace"] = "team"

    assert refused(cluster, claim) == (
        "claim team/claim, request gpu, selector #0: CEL expression empty (unsupported selector type?)"
    )


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        (
            {"name": "gpu", "exactly": {"deviceClassName": "any", "adminAccess": False}},
            "request gpu: admin access is requested, but the feature is disabled",
        ),
        (
            {"name": "gpu", "firstAvailable": [{"name": "one", "deviceClassName": "any"}]},
            "request gpu: has subrequests, but the DRAPrioritizedList feature is disabled",
        ),
        (
            {"name": "gpu", "exactly": {"deviceClassName": "any", "capacity": {"requests": {"memory": "1"}}}},
            "request gpu: has capacity requests, but the DRAConsumableCapacity feature is disabled",
        ),
    ],
    ids=["admin access", "alternatives", "capacity"],
)
def test_what_the_cluster_does_not_know_is_refused(cluster, request_, message):
    features = ["DRADeviceBindingConditions+DRAResourceClaimDeviceStatus"]

    assert refused(cluster, cluster.claim(request_), features=features) == f"claim claim, {message}"
