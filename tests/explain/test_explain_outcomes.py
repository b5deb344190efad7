"""What each request finds of each device: the state, why, and who holds it."""

from __future__ import annotations

import json

import pytest

from policies.analyses.explain import Explanation
from policies.kubernetes.objects import json_document
from policies.outcome.node_groups import MOST_DEVICES

MEMORY = 'device.capacity["gpu.nvidia.com"].memory.compareTo(quantity("60Gi")) >= 0'


def outcomes_of(answer, group=0):
    return [
        (outcome.request, str(outcome.state), outcome.devices, outcome.reason, outcome.sentence, outcome.holders)
        for outcome in answer.groups[group].outcomes
    ]


def test_devices_of_a_node_that_fits_are_chosen_usable_or_in_use(ask, k8s):
    objects = [k8s.node(), k8s.resource_slice(k8s.gpus(4)), k8s.holding("run", [0])]
    assert outcomes_of(ask(k8s.claim({"count": 2}), *objects)) == [
        ("gpu", "chosen", ("gpu-1", "gpu-2"), "", "", ()),
        ("gpu", "usable", ("gpu-3",), "", "", ()),
        ("gpu", "in use", ("gpu-0",), "in use", "is in use by team-b/run", ("team-b/run",)),
    ]


def test_devices_that_a_selector_excludes_say_why(ask, k8s):
    objects = [k8s.node(), k8s.resource_slice([k8s.gpu(0, memory="40Gi"), k8s.gpu(1)])]
    assert outcomes_of(ask(k8s.claim(k8s.selecting(MEMORY, count=2)), *objects)) == [
        ("gpu", "usable", ("gpu-1",), "", "", ()),
        ("gpu", "unsuitable", ("gpu-0",), "request selector", "has 40Gi of memory, 60Gi requested", ()),
    ]


def test_devices_outside_of_the_class_are_left_out_beside_others(ask, k8s):
    outside = k8s.gpu(9)
    outside["attributes"]["type"] = {"string": "mig"}
    objects = [k8s.node(), k8s.resource_slice([outside, k8s.gpu(0)])]
    assert [devices for _, _, devices, *_ in outcomes_of(ask(k8s.claim(), *objects))] == [("gpu-0",)]


def test_devices_outside_of_the_class_are_told_if_there_are_no_others(ask, k8s):
    outside = k8s.gpu(9)
    outside["attributes"]["type"] = {"string": "mig"}
    objects = [k8s.node(), k8s.resource_slice([outside])]
    assert outcomes_of(ask(k8s.claim(), *objects)) == [
        (
            "gpu",
            "unsuitable",
            ("gpu-9",),
            "class selector",
            "is not of class gpu.nvidia.com: has type mig, gpu requested",
            (),
        )
    ]


def test_shared_device_with_too_little_left_names_its_holders(ask, k8s):
    shared = k8s.gpu(0, memory="80Gi", allowMultipleAllocations=True)
    holding = k8s.holding("run", [0])
    (result,) = holding["status"]["allocation"]["devices"]["results"]
    result |= {"shareID": "one", "consumedCapacity": {"memory": "60Gi"}}
    asked = k8s.claim({"capacity": {"requests": {"memory": "40Gi"}}})
    assert outcomes_of(ask(asked, k8s.node(), k8s.resource_slice([shared]), holding)) == [
        ("gpu", "in use", ("gpu-0",), "capacity", "has 20Gi of memory left, 40Gi requested", ("team-b/run",))
    ]


def test_devices_of_a_node_that_is_cordoned_are_told_too(ask, k8s):
    objects = [k8s.node(unschedulable=True), k8s.resource_slice(k8s.gpus(2))]
    pod = k8s.pod(resourceClaims=k8s.claiming(resourceClaimTemplateName="gpus"))
    assert outcomes_of(ask(pod, *objects, k8s.template())) == [
        ("gpu", "usable", ("gpu-0", "gpu-1"), "", "", ()),
    ]


def test_each_request_has_its_outcomes(ask, k8s):
    asked = k8s.claim()
    exactly = {"deviceClassName": "gpu.nvidia.com"}
    asked["spec"]["devices"]["requests"] = [
        {"name": "one", "exactly": exactly},
        {"name": "two", "firstAvailable": [{"name": "any", **exactly}]},
    ]
    found = outcomes_of(ask(asked, k8s.node(), k8s.resource_slice(k8s.gpus(2))))
    assert [(request, state, devices) for request, state, devices, *_ in found] == [
        ("one", "chosen", ("gpu-0",)),
        ("one", "usable", ("gpu-1",)),
        ("two/any", "usable", ("gpu-0",)),
        ("two/any", "chosen", ("gpu-1",)),
    ]


def test_devices_of_one_name_are_told_apart_by_their_driver(ask, k8s):
    other = k8s.resource_slice([{"name": "gpu-0"}], driver="other.example.com")
    both = k8s.device_class("any", "true")
    answer = ask(k8s.claim({"deviceClassName": "any"}), k8s.node(), k8s.resource_slice(k8s.gpus(1)), other, both)
    named = {name for outcome in answer.groups[0].outcomes for name in outcome.devices}
    assert named == {"gpu.nvidia.com/gpu-0", "other.example.com/gpu-0"}


def test_devices_of_a_device_plugin_are_counted_by_holder(ask, k8s):
    objects = [k8s.node(allocatable={"nvidia.com/gpu": "8"})]
    objects += [k8s.pod({"nvidia.com/gpu": "2"}, name=f"run-{number}", nodeName="node-1") for number in range(2)]
    answer = ask(k8s.pod({"nvidia.com/gpu": "3"}), *objects)
    assert [
        (outcome.request, str(outcome.state), outcome.count, outcome.holders) for outcome in answer.groups[0].outcomes
    ] == [
        ("nvidia.com/gpu", "in use", 2, ("team-a/run-0",)),
        ("nvidia.com/gpu", "in use", 2, ("team-a/run-1",)),
        ("nvidia.com/gpu", "chosen", 3, ()),
        ("nvidia.com/gpu", "usable", 1, ()),
    ]


def test_many_holders_of_a_device_plugin_are_counted(ask, k8s):
    objects = [k8s.node(allocatable={"nvidia.com/gpu": "8"})]
    objects += [k8s.pod({"nvidia.com/gpu": "1"}, name=f"run-{number}", nodeName="node-1") for number in range(7)]
    answer = ask(k8s.pod({"nvidia.com/gpu": "3"}), *objects)
    assert [(outcome.count, outcome.holders) for outcome in answer.groups[0].outcomes][4:] == [
        (3, ("3 more holders",)),
        (1, ()),
    ]


@pytest.mark.parametrize("memory", ["40Gi", None], ids=["one reason", "a reason for each"])
def test_many_devices_are_counted(ask, k8s, memory):
    devices = [k8s.gpu(number, memory=memory or f"{number + 1}Gi") for number in range(100)]
    answer = ask(k8s.claim(k8s.selecting(MEMORY, count=30)), k8s.node(), k8s.resource_slice(devices))
    outcomes = answer.groups[0].outcomes
    assert sum(outcome.count for outcome in outcomes) == 100
    assert sum(len(outcome.devices) for outcome in outcomes) == MOST_DEVICES
    assert len(json.dumps(json_document(answer, Explanation))) < 20_000
