"""Counters that devices of a pool share, and the deviations of Kubernetes."""

from __future__ import annotations

import pytest

SETS = [{"name": "gpu-0", "counters": {"memory": {"value": "40Gi"}}}]


def part(cluster, name, memory, **fields):
    consumption = [{"counterSet": "gpu-0", "counters": {"memory": {"value": memory}}}]
    return cluster.device(name, consumesCounters=consumption, **fields)


def publish(cluster, *devices, sets=None, pool="node-a", **where):
    cluster.add(pool=pool, count=2, name=f"{pool}-counters", sharedCounters=sets or SETS, **where)
    cluster.add(*devices, pool=pool, count=2, name=f"{pool}-devices", **where)


def test_parts_are_given_as_long_as_the_counter_lasts(cluster):
    publish(cluster, part(cluster, "a", "20Gi"), part(cluster, "b", "30Gi"), part(cluster, "c", "20Gi"))

    assert cluster.picked(cluster.claim(cluster.request(count=2))) == ["gpu=a", "gpu=c"]
    assert cluster.picked(cluster.claim(cluster.request(count=3))) is None


def test_parts_of_other_claims_count(cluster):
    publish(cluster, part(cluster, "a", "30Gi"), part(cluster, "b", "20Gi"), part(cluster, "c", "10Gi"))

    allocated = ["gpu.example.com/node-a/a"]
    assert cluster.picked(cluster.claim(cluster.request()), allocated=allocated) == ["gpu=c"]


def test_parts_of_other_nodes_count(cluster):
    cluster.add(pool="rack", count=3, sharedCounters=SETS, allNodes=True)
    cluster.add(part(cluster, "here", "20Gi"), pool="rack", count=3)
    cluster.add(part(cluster, "there", "30Gi"), pool="rack", count=3, nodeName="node-b")

    assert cluster.picked(cluster.claim(cluster.request())) == ["gpu=here"]
    assert cluster.picked(cluster.claim(cluster.request()), allocated=["gpu.example.com/rack/there"]) is None


def test_an_overdrawn_counter_keeps_back_all_parts_of_the_pool(cluster):
    other = {"name": "gpu-1", "counters": {"memory": {"value": "40Gi"}}}
    consumption = [{"counterSet": "gpu-1", "counters": {"memory": {"value": "10Gi"}}}]
    publish(
        cluster,
        part(cluster, "a", "50Gi"),
        cluster.device("b", consumesCounters=consumption),
        "whole",
        sets=[*SETS, other],
    )

    assert cluster.picked(cluster.claim(cluster.request()), allocated=["gpu.example.com/node-a/a"]) == ["gpu=whole"]


def test_of_two_drivers_with_pools_of_one_name_the_first_asked_decides(cluster):
    consumption = [{"counterSet": "gpu-0", "counters": {"memory": {"value": "10Gi"}}}]
    less = [{"name": "gpu-0", "counters": {"memory": {"value": "10Gi"}}}]
    for driver, sets in (("a.example.com", less), ("b.example.com", SETS)):
        cluster.add(driver=driver, count=2, sharedCounters=sets)
        cluster.add(cluster.device("part", consumesCounters=consumption), driver=driver, count=2)

    assert cluster.picked(cluster.claim(cluster.request(count=2))) is None


def test_counters_are_off_where_the_cluster_does_not_know_them(cluster):
    cluster.add(part(cluster, "a", "10Gi"), "whole")

    assert cluster.picked(cluster.claim(cluster.request()), features=["DRAConsumableCapacity"]) == ["gpu=whole"]


def test_a_shared_device_takes_its_counters_once(cluster):
    devices = [part(cluster, "a", "40Gi", capacity={"slots": {"value": "2"}}, allowMultipleAllocations=True)]
    publish(cluster, *devices)
    one = {"capacity": {"requests": {"slots": "1"}}}

    claim = cluster.claim(cluster.request("x", **one), cluster.request("y", **one))
    assert cluster.picked(claim) == ["x=a", "y=a"]


@pytest.mark.parametrize(
    "obstacle",
    [
        {"taints": [{"key": "broken", "effect": "NoSchedule"}]},
        {"attributes": {"board": {"string": "other"}}},
    ],
    ids=["taint", "constraint"],
)
def test_counters_stay_taken_when_a_device_fails_later_checks(cluster, obstacle):
    """As in Kubernetes 1.36: `b` takes 20Gi, is turned down, and its 20Gi are missing for `c`."""
    board = {"board": {"string": "same"}}
    publish(
        cluster,
        part(cluster, "a", "20Gi", attributes=board),
        part(cluster, "b", "20Gi", **{"attributes": board, **obstacle}),
        part(cluster, "c", "20Gi", attributes=board),
    )
    same = [{"matchAttribute": "gpu.example.com/board"}]

    assert cluster.picked(cluster.claim(cluster.request(count=2), constraints=same)) is None
