"""The search is bounded, skips equal devices, and is as deep as claims require."""

from __future__ import annotations

from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.devices.allocation.reading import AllocationError, SearchBudgetExceeded
from tests.allocations import allocate

STABLE = ["DRAPartitionableDevices", "DRAPrioritizedList", "DRADeviceTaints", "DRAAdminAccess"]


def ranked(cluster, numbers):
    return [
        cluster.device(f"gpu-{position}", attributes={"rank": {"int": number}})
        for position, number in enumerate(numbers)
    ]


def test_a_search_without_end_is_given_up_and_says_so(cluster):
    cluster.add(*ranked(cluster, range(40)))
    anything = cluster.request("many", 'device.attributes["gpu.example.com"].rank >= 0', count=20)
    nothing = cluster.request("none", "false")

    with pytest.raises(SearchBudgetExceeded) as failed:
        cluster.allocator(cluster.claim(anything, nothing), budget=5000).allocate(cluster.node)
    assert failed.value.steps == 5000
    assert str(failed.value) == (
        "gave up after 5,000 search steps without knowing whether the claims fit node node-a: too many combinations "
        "of devices nearly satisfy them. Kubernetes tries them all until its scheduler times out after 10 seconds. "
        "Request fewer devices, narrow the selectors, or drop constraints that few devices satisfy "
        "together."
    )


def test_twins_are_tried_once(cluster):
    cluster.add(*ranked(cluster, range(40)))
    claim = cluster.claim(cluster.request("many", count=20), cluster.request("none", "false"))

    assert cluster.allocator(claim, budget=5000).allocate(cluster.node) is None


def test_the_same_devices_in_other_requests_are_not_tried_again(cluster):
    cluster.add(*ranked(cluster, range(9)))
    reads = 'device.attributes["gpu.example.com"].rank >= 0'
    requests = [cluster.request(f"request-{number}", reads) for number in range(9)]

    claim = cluster.claim(*requests, cluster.request("none", "false"))
    assert cluster.allocator(claim, budget=20_000).allocate(cluster.node) is None


def test_no_number_of_claims_is_too_many_for_the_stack(cluster):
    cluster.add(*(f"gpu-{number}" for number in range(1000)))
    claims = [cluster.claim(cluster.request(count=10), name=f"claim-{number}") for number in range(100)]

    assert len(cluster.picked(*claims)) == 1000


def test_the_stable_allocator_loses_counters_in_orders_that_the_others_do_not_try(cluster):
    """After `b` it tries `a`, which the constraint turns down and whose counters then are missing for `c`."""
    cluster.add(sharedCounters=[{"name": "set", "counters": {"memory": {"value": "3"}}}], count=2)
    memory = {"consumesCounters": [{"counterSet": "set", "counters": {"memory": {"value": "2"}}}]}
    boards = {"a": ("x", memory), "b": ("y", {}), "c": ("y", memory)}
    cluster.add(
        *(
            cluster.device(name, attributes={"board": {"string": board}}, **fields)
            for name, (board, fields) in boards.items()
        ),
        count=2,
    )
    claim = cluster.claim(cluster.request(count=2), constraints=[{"matchAttribute": "gpu.example.com/board"}])

    assert cluster.picked(claim) == ["gpu=b", "gpu=c"]
    assert cluster.picked(claim, features=STABLE) is None


def test_a_twin_can_turn_no_fit_into_an_error_of_a_request_for_all_devices(cluster):
    """With the first `x` or `y` taken, a device in use ends the attempt; with the second `x` taken, `y` is an error."""
    cluster.add(
        *(
            cluster.device(f"gpu-{number}", attributes={"board": {"string": board}})
            for number, board in enumerate(["x", "y", "x"])
        )
    )
    one = cluster.claim(cluster.request("one"), name="one")
    every = cluster.claim(
        cluster.request("every", allocationMode="All"),
        name="every",
        constraints=[{"matchAttribute": "gpu.example.com/board"}],
    )

    with pytest.raises(AllocationError) as failed:
        cluster.picked(one, every)
    assert str(failed.value) == (
        "claim every, request every: cannot add device gpu.example.com/node-a/gpu-1 because a claim constraint would "
        "not be satisfied"
    )


def attributes(values):
    return st.fixed_dictionaries({"board": st.sampled_from(values).map(lambda value: {"string": value})})


DEVICES = st.lists(
    st.fixed_dictionaries(
        {"attributes": attributes(["x", "y", "z"])},
        optional={
            "capacity": st.sampled_from([{"slots": {"value": "1"}}, {"slots": {"value": "3"}}]),
            "allowMultipleAllocations": st.booleans(),
            "taints": st.just([{"key": "t", "effect": "NoSchedule"}]),
            "consumesCounters": st.sampled_from(
                [[{"counterSet": "set", "counters": {"memory": {"value": amount}}}] for amount in "12"]
            ),
        },
    ),
    max_size=7,
)
WANTED = st.fixed_dictionaries(
    {"deviceClassName": st.just("any"), "count": st.integers(1, 3)},
    optional={
        "capacity": st.sampled_from([{"requests": {"slots": "1"}}, {"requests": {"slots": "2"}}]),
        "tolerations": st.just([{"operator": "Exists"}]),
        "selectors": st.just([{"cel": {"expression": 'device.attributes["gpu.example.com"].board != "z"'}}]),
        "allocationMode": st.just("All"),
    },
)
CLAIMS = st.lists(
    st.fixed_dictionaries(
        {"requests": st.lists(WANTED, min_size=1, max_size=3)},
        optional={
            "constraints": st.sampled_from(
                [[{kind: "gpu.example.com/board"}] for kind in ("matchAttribute", "distinctAttribute")]
            )
        },
    ),
    min_size=1,
    max_size=2,
)


def answer(devices, claims, features):
    named = [{"name": f"gpu-{number}", **device} for number, device in enumerate(devices)]
    pool = {"name": "pool", "generation": 1, "resourceSliceCount": 2}
    counters = [{"name": "set", "counters": {"memory": {"value": "4"}}}]
    documents = [
        {
            "metadata": {"name": f"claim-{number}"},
            "spec": {
                "devices": {
                    **claim,
                    "requests": [
                        {"name": f"request-{position}", "exactly": wanted}
                        for position, wanted in enumerate(claim["requests"])
                    ],
                }
            },
        }
        for number, claim in enumerate(claims)
    ]
    try:
        return allocate(
            claims=documents,
            node={"metadata": {"name": "node"}},
            slices=[
                {
                    "metadata": {"name": name},
                    "spec": {"driver": "gpu.example.com", "pool": pool, "nodeName": "node", **content},
                }
                for name, content in (("a", {"sharedCounters": counters}), ("b", {"devices": named}))
            ],
            classes=[{"metadata": {"name": "any"}, "spec": {}}],
            features=features,
        )
    except AllocationError as error:
        return str(error)


@given(
    devices=DEVICES,
    claims=CLAIMS,
    features=st.sampled_from([STABLE, [*STABLE, "DRAConsumableCapacity"], [*STABLE, "DRAListTypeAttributes"]]),
)
def test_leaving_out_twins_changes_no_answer(devices, claims, features):
    quick = answer(devices, claims, features)
    with patch("policies.devices.allocation.search.can_swap", return_value=False):
        thorough = answer(devices, claims, features)

    assert quick == thorough
