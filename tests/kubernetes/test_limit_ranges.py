"""Defaults of LimitRanges, as the plug-in LimitRanger gives them."""

import copy

import pytest

from policies.kubernetes.pod_templates import with_limit_ranges

GPU = "nvidia.com/gpu"


def limit_range(**limit):
    return {"spec": {"limits": [{"type": "Container", **limit}]}}


def pod(**resources):
    return {"spec": {"containers": [{"name": "main", **({"resources": resources} if resources else {})}]}}


def resources_of(filled):
    return filled["spec"]["containers"][0].get("resources", {})


@pytest.mark.parametrize(
    ("limit", "expected"),
    [
        ({"default": {GPU: 1}}, {"limits": {GPU: 1}, "requests": {GPU: 1}}),
        ({"max": {GPU: 4}}, {"limits": {GPU: 4}, "requests": {GPU: 4}}),
        ({"max": {GPU: 4}, "default": {GPU: 1}}, {"limits": {GPU: 1}, "requests": {GPU: 1}}),
        ({"defaultRequest": {"cpu": "1"}}, {"requests": {"cpu": "1"}}),
        ({"min": {"cpu": "1"}}, {"requests": {"cpu": "1"}}),
    ],
)
def test_container_without_resources_gets_the_defaults(limit, expected):
    filled, _ = with_limit_ranges(pod(), [limit_range(**limit)])
    assert resources_of(filled) == expected


def test_what_the_container_says_stays():
    given = {"limits": {GPU: 0}, "requests": {GPU: 0}}
    filled, notes = with_limit_ranges(pod(**given), [limit_range(default={GPU: 1})])
    assert (resources_of(filled), notes) == (given, ())


def test_init_containers_get_the_defaults():
    document = {"spec": {"containers": [], "initContainers": [{"name": "first"}]}}
    filled, notes = with_limit_ranges(document, [limit_range(default={GPU: 1})])
    assert filled["spec"]["initContainers"][0]["resources"]["limits"] == {GPU: 1}
    assert notes == (f"{GPU} request for init container first", f"{GPU} limit for init container first")


def test_first_of_several_limit_ranges_counts():
    filled, _ = with_limit_ranges(pod(), [limit_range(default={GPU: 1}), limit_range(default={GPU: 2})])
    assert resources_of(filled)["limits"] == {GPU: 1}


def test_limits_of_pods_and_volumes_give_nothing():
    document = pod()
    assert with_limit_ranges(document, [{"spec": {"limits": [{"type": "Pod", "max": {GPU: 1}}]}}]) == (document, ())


def test_given_pod_is_not_changed():
    document = pod(limits={"cpu": "1"})
    before = copy.deepcopy(document)
    with_limit_ranges(document, [limit_range(default={GPU: 1})])
    assert document == before


@pytest.mark.parametrize(
    "ranges", [[{}], [{"spec": {"limits": 1}}], [limit_range(default=1)], [{"spec": {"limits": [1]}}]]
)
def test_malformed_limit_range_gives_nothing(ranges):
    document = pod()
    assert with_limit_ranges(document, ranges) == (document, ())
