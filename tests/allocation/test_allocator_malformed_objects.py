"""Malformed objects: an error with its place, never a traceback."""

from __future__ import annotations

import pytest

from policies.devices.allocation.reading import AllocationError


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"driver": 1}, "ResourceSlice slice-0: driver must be a string, not 1"),
        ({"pool": []}, "ResourceSlice slice-0: pool must be an object, not []"),
        ({"allNodes": "yes"}, "ResourceSlice slice-0: allNodes must be true or false, not 'yes'"),
        ({"devices": {}}, "ResourceSlice slice-0: devices must be a list, not {}"),
        ({"devices": ["gpu-0"]}, "ResourceSlice slice-0: devices[0] must be an object, not 'gpu-0'"),
        (
            {"pool": {"name": "node-a", "generation": "1"}},
            "ResourceSlice slice-0: generation must be a whole number, not '1'",
        ),
    ],
    ids=["text", "object", "bool", "list", "object in a list", "number"],
)
def test_a_slice_of_the_wrong_types_is_reported_with_its_place(cluster, spec, message):
    cluster.add("gpu-0")
    cluster.slices[0]["spec"].update(spec)

    with pytest.raises(AllocationError) as failed:
        cluster.ask(cluster.claim(cluster.request()))
    assert str(failed.value) == message


def test_a_claim_of_the_wrong_types_is_reported_with_its_place(cluster):
    with pytest.raises(AllocationError) as failed:
        cluster.ask(cluster.claim(cluster.request(count="two")))
    assert (
        str(failed.value) == 'claim claim: spec.devices.requests[0].exactly.count: is "two"; it must be a whole number'
    )


def test_a_value_of_any_length_is_reported_in_few_words(cluster):
    with pytest.raises(AllocationError) as failed:
        cluster.ask(cluster.claim(cluster.request(count="x" * 1000)))
    path = "spec.devices.requests[0].exactly.count"
    assert str(failed.value) == f'claim claim: {path}: is "{"x" * 77}..."; it must be a whole number'


def test_objects_nested_without_end_do_no_harm(cluster):
    nested = {}
    for _ in range(5000):
        nested = {"value": nested}
    cluster.add(cluster.device("gpu-0", {"memory": {"value": "1", "requestPolicy": nested, "more": nested}}))
    cluster.slices[0]["spec"]["devices"][0]["taints"] = [nested]

    assert cluster.picked(cluster.claim(cluster.request())) == ["gpu=gpu-0"]
