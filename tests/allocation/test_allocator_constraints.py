"""Constraints: equal or distinct values, and where Kubernetes compares less than documented."""

from __future__ import annotations

import pytest

from policies.devices.allocation.reading import AllocationError

LISTS = ["DRAConsumableCapacity", "DRAListTypeAttributes", "DRAPrioritizedList"]


def add(cluster, *values, kind="string", key="board", **where):
    devices = [
        cluster.device(f"gpu-{number}", attributes={} if value is None else {key: {kind: value}})
        for number, value in enumerate(values)
    ]
    cluster.add(*devices, **where)


def same(*requests):
    constraint = {"matchAttribute": "gpu.example.com/board"}
    return [{**constraint, "requests": list(requests)} if requests else constraint]


def distinct(*requests):
    constraint = {"distinctAttribute": "gpu.example.com/board"}
    return [{**constraint, "requests": list(requests)} if requests else constraint]


@pytest.mark.parametrize("kind", ["string", "version"])
def test_devices_with_the_same_value_go_together(cluster, kind):
    add(cluster, "1.0.0", "2.0.0", "3.0.0", "2.0.0", kind=kind)

    assert cluster.picked(cluster.claim(cluster.request(count=2), constraints=same())) == ["gpu=gpu-1", "gpu=gpu-3"]


def test_a_device_without_the_attribute_is_never_the_same(cluster):
    add(cluster, None, "a")

    assert cluster.picked(cluster.claim(cluster.request(), constraints=same())) == ["gpu=gpu-1"]


@pytest.mark.parametrize(
    ("first", "second"),
    [({"int": 1}, {"bool": True}), ({"string": "1.0.0"}, {"version": "1.0.0"})],
    ids=["number and bool", "text and version"],
)
def test_values_of_two_types_are_never_the_same(cluster, first, second):
    cluster.add(*(cluster.device(f"gpu-{n}", attributes={"board": value}) for n, value in enumerate((first, second))))

    assert cluster.picked(cluster.claim(cluster.request(count=2), constraints=same())) is None


def test_an_attribute_is_found_by_its_full_name_too(cluster):
    add(cluster, "a", "b", "a", key="gpu.example.com/board")

    assert cluster.picked(cluster.claim(cluster.request(count=2), constraints=same())) == ["gpu=gpu-0", "gpu=gpu-2"]


def test_an_attribute_of_another_domain_is_not_the_drivers(cluster):
    add(cluster, "a", "a")
    constraint = [{"matchAttribute": "other.example.com/board"}]

    assert cluster.picked(cluster.claim(cluster.request(), constraints=constraint)) is None


def test_a_constraint_is_about_the_requests_that_it_names(cluster):
    add(cluster, "a", "b", "b")
    claim = cluster.claim(cluster.request("x"), cluster.request("y"), cluster.request("z"), constraints=same("y", "z"))

    assert cluster.picked(claim) == ["x=gpu-0", "y=gpu-1", "z=gpu-2"]


@pytest.mark.parametrize(("named", "fits"), [("gpu", False), ("gpu/two", False), ("gpu/one", True)])
def test_a_request_stands_for_its_alternatives(cluster, named, fits):
    add(cluster, "a", "b")
    either = {"name": "gpu", "firstAvailable": [{"name": "two", **cluster.wanted(count=2)}]}
    claim = cluster.claim(either, constraints=same(named))

    assert (cluster.picked(claim) is not None) is fits


def test_different_requests_get_different_values(cluster):
    add(cluster, "a", "a", "b")
    claim = cluster.claim(cluster.request("x"), cluster.request("y"), constraints=distinct())

    assert cluster.picked(claim) == ["x=gpu-0", "y=gpu-2"]


def test_devices_of_one_request_are_compared_with_the_last_before_them_only(cluster):
    """As in Kubernetes 1.36, which keeps one value for each request."""
    add(cluster, "a", "b", "a")

    claim = cluster.claim(cluster.request(count=3), constraints=distinct())
    assert cluster.picked(claim) == ["gpu=gpu-0", "gpu=gpu-1", "gpu=gpu-2"]


def test_all_devices_against_a_constraint_is_an_error(cluster):
    add(cluster, "a", "b")

    with pytest.raises(AllocationError) as failed:
        cluster.ask(cluster.claim(cluster.request(allocationMode="All"), constraints=same()))
    assert str(failed.value) == (
        "claim claim, request gpu: cannot add device gpu.example.com/node-a/gpu-1 "
        "because a claim constraint would not be satisfied"
    )


@pytest.mark.parametrize(
    ("constraint", "features"),
    [({"requests": ["gpu"]}, LISTS), (distinct()[0], ["DRAPrioritizedList"])],
    ids=["of no kind", "distinctAttribute, unknown to the stable allocator"],
)
def test_a_constraint_of_an_unknown_kind_is_refused(cluster, constraint, features):
    with pytest.raises(AllocationError) as failed:
        cluster.ask(cluster.claim(cluster.request(), constraints=[constraint]), features=features)
    assert str(failed.value) == "claim claim, constraint #0: empty constraint (unsupported constraint type?)"


def test_lists_match_by_a_common_value(cluster):
    add(cluster, [1, 2], [3], [2, 3], kind="ints")
    claim = cluster.claim(cluster.request(count=2), constraints=same())

    assert cluster.picked(claim, features=LISTS) == ["gpu=gpu-0", "gpu=gpu-2"]


def test_lists_need_one_value_common_to_all(cluster):
    add(cluster, [1, 2], [2, 3], [3, 1], kind="ints")

    assert cluster.picked(cluster.claim(cluster.request(count=3), constraints=same()), features=LISTS) is None


def test_lists_are_distinct_without_a_common_value(cluster):
    add(cluster, ["a", "b"], ["b", "c"], ["c"], kind="strings")
    claim = cluster.claim(cluster.request("x"), cluster.request("y"), constraints=distinct())

    assert cluster.picked(claim, features=LISTS) == ["x=gpu-0", "y=gpu-2"]


def test_lists_are_no_values_while_the_feature_is_off(cluster):
    add(cluster, [1], [1], kind="ints")

    assert cluster.picked(cluster.claim(cluster.request(count=2), constraints=same())) is None
