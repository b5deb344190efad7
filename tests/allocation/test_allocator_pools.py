"""Which slices count for a node: generations, completeness, contradictions, order."""

from __future__ import annotations

import pytest

from policies.devices.allocation.allocator import Allocator
from policies.devices.allocation.pools import PoolState, SliceIndex
from policies.devices.allocation.reading import AllocationError, InvalidPoolsError
from tests.allocations import usage_of


def states(cluster):
    return [(pool.name, pool.state) for pool in cluster.pools()]


def test_pools_are_searched_by_driver_then_pool_then_slice_name(cluster):
    cluster.add("late", pool="pool-2", name="b")
    cluster.add("second", pool="pool-1", name="z", count=2)
    cluster.add("first", pool="pool-1", name="a", count=2)
    cluster.add("earliest", pool="pool-9", driver="a.example.com")

    assert cluster.picked(cluster.claim(cluster.request(count=4))) == [
        "gpu=earliest",
        "gpu=first",
        "gpu=second",
        "gpu=late",
    ]


def test_pools_with_binding_conditions_come_last(cluster):
    cluster.add(cluster.device("waits", bindingConditions=["Ready"]), pool="pool-1")
    cluster.add("ready", pool="pool-2")

    assert cluster.picked(cluster.claim(cluster.request())) == ["gpu=ready"]


def test_an_older_generation_is_ignored(cluster):
    cluster.add("old", generation=1)
    cluster.add("new", generation=2)

    assert cluster.picked(cluster.claim(cluster.request())) == ["gpu=new"]


def test_a_pool_is_obsolete_when_another_node_has_a_newer_generation(cluster):
    cluster.add("old", pool="rack", count=2)
    cluster.add("new", pool="rack", generation=2, nodeName="node-b")

    assert states(cluster) == [("gpu.example.com/rack", PoolState.OBSOLETE)]
    assert cluster.picked(cluster.claim(cluster.request())) is None
    assert cluster.picked(cluster.claim(cluster.request(allocationMode="All"))) is None


def test_a_pool_is_complete_with_slices_of_other_nodes(cluster):
    cluster.add("here", pool="rack", count=2)
    cluster.add("there", pool="rack", count=2, nodeName="node-b")

    assert cluster.picked(cluster.claim(cluster.request())) == ["gpu=here"]


def test_an_incomplete_pool_gives_nothing_and_says_how_much_is_there(cluster):
    cluster.add("gpu-0", count=3)
    cluster.add("gpu-1", count=3)

    (pool,) = cluster.pools()
    assert (pool.state, pool.slices_found, pool.slices_expected) == (PoolState.INCOMPLETE, 2, 3)
    assert cluster.picked(cluster.claim(cluster.request())) is None


def test_request_for_all_devices_of_an_incomplete_pool_fails(cluster):
    cluster.add("gpu-0", count=2)

    with pytest.raises(AllocationError) as failed:
        cluster.ask(cluster.claim(cluster.request(allocationMode="All")))
    assert str(failed.value) == (
        "claim claim, request gpu: asks for all devices, "
        "but resource pool gpu.example.com/node-a is currently being updated"
    )


def counters(*names):
    return [{"name": name, "counters": {"memory": {"value": "10Gi"}}} for name in names]


def consumes(counter_set, counter="memory"):
    return [{"counterSet": counter_set, "counters": {counter: {"value": "1Gi"}}}]


@pytest.mark.parametrize(
    ("slices", "reason"),
    [
        ([("gpu-0", "gpu-0")], "duplicate device name gpu-0"),
        ([{"sharedCounters": counters("a", "a")}], "duplicate counter set name a"),
        ([({"name": "gpu-0", "consumesCounters": consumes("b")},)], "counter set b not found"),
        (
            [{"sharedCounters": counters("a")}, ({"name": "gpu-0", "consumesCounters": consumes("a", "cores")},)],
            "counter cores not found in counter set a",
        ),
    ],
    ids=["device", "counter set twice", "unknown counter set", "unknown counter"],
)
def test_an_invalid_pool_says_why(cluster, slices, reason):
    for content in slices:
        devices, spec = (content, {}) if isinstance(content, tuple) else ((), content)
        cluster.add(*devices, count=len(slices), **spec)

    (pool,) = cluster.pools()
    assert (pool.state, pool.reason) == (PoolState.INVALID, reason)


def test_an_invalid_pool_is_an_error_of_the_node_when_nothing_else_serves(cluster):
    cluster.add("gpu-0", "gpu-0")

    with pytest.raises(InvalidPoolsError, match=r"^invalid resource pools were encountered$"):
        cluster.ask(cluster.claim(cluster.request()))


def test_an_invalid_pool_does_no_harm_when_another_serves(cluster):
    cluster.add("gpu-0", "gpu-0", pool="a")
    cluster.add("gpu-1", pool="b")

    assert cluster.picked(cluster.claim(cluster.request())) == ["gpu=gpu-1"]


def test_an_invalid_pool_of_another_node_counts_where_it_has_counters(cluster):
    cluster.add(pool="node-b", nodeName="node-b", sharedCounters=counters("a", "a"))
    cluster.add("gpu-0")

    with pytest.raises(AllocationError, match=r"resource pool gpu.example.com/node-b is currently invalid$"):
        cluster.ask(cluster.claim(cluster.request(allocationMode="All")))


def test_counters_of_another_node_that_are_in_order_are_no_pool_of_this_one(cluster):
    cluster.add(pool="node-b", nodeName="node-b", sharedCounters=counters("a"), count=2)
    cluster.add("gpu-9", pool="node-b", nodeName="node-b", count=2)
    cluster.add("gpu-0")

    assert states(cluster) == [("gpu.example.com/node-a", PoolState.READY)]


def test_slices_of_partitionable_devices_are_unknown_while_the_feature_is_off(cluster):
    cluster.add("gpu-0", perDeviceNodeSelection=True)
    cluster.add("gpu-1", pool="other")

    assert cluster.picked(cluster.claim(cluster.request()), features=["DRAConsumableCapacity"]) == ["gpu=gpu-1"]


def combined(number, gpus=1, node="node-a"):
    """A slice of Kubernetes 1.34 with a GPU, its halves, and the counters that they share."""
    taken = [{"counterSet": f"set-{number}", "counters": {"slots": {"value": str(slots)}}} for slots in (2, 1, 1)]
    names = f"gpu-{number}", f"half-{number}-0", f"half-{number}-1"
    return {
        "metadata": {"name": f"{node}-{number}"},
        "spec": {
            "driver": "gpu.example.com",
            "nodeName": node,
            "pool": {"name": "rack", "generation": 1, "resourceSliceCount": gpus},
            "sharedCounters": [{"name": f"set-{number}", "counters": {"slots": {"value": "2"}}}],
            "devices": [{"name": name, "consumesCounters": [each]} for name, each in zip(names, taken, strict=True)],
        },
    }


def picked_from(slices, cluster, count, *, counters_with_devices, allocated=()):
    index = SliceIndex(slices, counters_with_devices=counters_with_devices)
    claim = cluster.claim(cluster.request(count=count))
    found = Allocator(index, claims=[claim], classes=cluster.classes, usage=usage_of(allocated)).allocate(cluster.node)
    return found and [each["device"] for each in found[0]["devices"]["results"]]


@pytest.mark.parametrize(
    ("count", "allocated", "devices"),
    [
        (1, (), ["gpu-0"]),
        (3, (), ["gpu-0", "half-1-0", "half-1-1"]),
        (2, ("half-0-0",), ["half-0-1", "gpu-1"]),
        (5, (), None),
    ],
)
def test_devices_beside_their_counters_are_allocated_in_kubernetes_1_34(cluster, count, allocated, devices):
    slices = [combined(0, 2), combined(1, 2)]
    held = [f"gpu.example.com/rack/{each}" for each in allocated]
    assert picked_from(slices, cluster, count, counters_with_devices=True, allocated=held) == devices


def test_devices_beside_their_counters_are_ignored_since_kubernetes_1_35(cluster):
    assert picked_from([combined(0)], cluster, 1, counters_with_devices=False) is None


def test_pool_of_devices_beside_counters_is_complete_with_slices_of_other_nodes(cluster):
    slices = [combined(0, 2), combined(1, 2, "node-b")]
    assert picked_from(slices, cluster, 1, counters_with_devices=True) == ["gpu-0"]
    assert picked_from(slices[:1], cluster, 1, counters_with_devices=True) is None
