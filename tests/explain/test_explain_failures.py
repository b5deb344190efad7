"""Errors that stop the scheduler on every node come first, with the device and the remedy."""

from __future__ import annotations

import pytest

from policies.outcome import Feasibility, ObstacleKind

NVLINK = 'device.attributes["gpu.nvidia.com"].nvlink'


def test_selector_that_fails_is_reported_with_its_device_and_the_guarded_form(ask, k8s):
    selector = f'device.driver == "gpu.nvidia.com" && {NVLINK} == true'
    answer = ask(k8s.claim(k8s.selecting(selector)), k8s.node(), k8s.resource_slice(k8s.gpus(8)))
    (obstacle,) = answer.obstacles
    assert answer.verdict is Feasibility.BLOCKED
    assert obstacle.kind is ObstacleKind.ALLOCATION_FAILS
    assert obstacle.sentence == (
        "a selector fails on device gpu-0 of node node-1: "
        "claim team-a/gpus: selector #0: CEL runtime error: no such key: nvlink"
    )
    assert obstacle.remedy == (
        'remove it, or write "nvlink" in device.attributes["gpu.nvidia.com"] && '
        f'device.driver == "gpu.nvidia.com" && {NVLINK} == true'
    )


def test_advice_of_kubernetes_1_37_leaves_the_remedy_as_it_is(ask, k8s):
    version = {"serverVersion": {"gitVersion": "v1.37.0"}}
    answer = ask(k8s.claim(k8s.selecting(NVLINK)), k8s.node(), k8s.resource_slice(k8s.gpus(1)), version)
    (obstacle,) = answer.obstacles
    assert "CEL runtime error: no such key: nvlink. consider using CEL optional chaining" in obstacle.sentence
    assert obstacle.remedy == f'remove it, or write "nvlink" in device.attributes["gpu.nvidia.com"] && {NVLINK}'


@pytest.mark.parametrize("capacity", [True, ["memory"], "80Gi", {"memory": "80Gi"}, None])
def test_selector_that_reads_a_malformed_capacity_is_reported(ask, k8s, capacity):
    selector = 'device.capacity["gpu.nvidia.com"].memory.compareTo(quantity("40Gi")) >= 0'
    broken = {**k8s.gpu(0), "capacity": capacity}
    answer = ask(k8s.claim(k8s.selecting(selector)), k8s.node(), k8s.resource_slice([broken]))
    assert answer.verdict is Feasibility.BLOCKED


def test_selector_that_fails_on_another_node_stops_all(ask, k8s):
    fine = k8s.gpu(0)
    fine["attributes"]["nvlink"] = {"bool": True}
    nodes = [k8s.node("node-1"), k8s.node("node-2")]
    slices = [k8s.resource_slice([fine], "node-1"), k8s.resource_slice(k8s.gpus(1), "node-2")]
    answer = ask(k8s.claim(k8s.selecting(NVLINK)), *nodes, *slices)
    assert answer.verdict is Feasibility.BLOCKED
    assert answer.headline == "it fits no node: a selector fails on a device"


def test_excluded_node_does_not_stop_the_others(ask, k8s):
    fine = k8s.gpu(0)
    fine["attributes"]["nvlink"] = {"bool": True}
    nodes = [k8s.node("node-1"), k8s.node("node-2", unschedulable=True)]
    slices = [k8s.resource_slice([fine], "node-1"), k8s.resource_slice(k8s.gpus(1), "node-2")]
    assert ask(k8s.claim(k8s.selecting(NVLINK)), *nodes, *slices).verdict is Feasibility.FITS


def test_device_in_use_is_not_asked(ask, k8s):
    answer = ask(
        k8s.claim(k8s.selecting(NVLINK)), k8s.node(), k8s.resource_slice(k8s.gpus(1)), k8s.holding("train-0", [0])
    )
    assert answer.groups[0].reason.details == ("gpu-0 is in use by team-b/train-0",)


@pytest.mark.parametrize(
    ("selector", "error"),
    [
        ("device.attributes", "claim team-a/gpus: selector #0: CEL compile error: must evaluate to bool"),
        ("device.driver ==", "claim team-a/gpus: selector #0: CEL compile error: compilation failed: ERROR"),
    ],
    ids=["no bool", "bad syntax"],
)
def test_stored_selector_that_does_not_compile_is_reported(ask, k8s, selector, error):
    asked = k8s.claim(k8s.selecting(selector), stored=True)
    answer = ask(asked, k8s.node(), k8s.resource_slice(k8s.gpus(1)))
    (obstacle,) = answer.obstacles
    start = f"Kubernetes' scheduler fails with this: {error}"
    assert obstacle.sentence.startswith(start)
    assert "\n" not in obstacle.sentence
    assert answer.headline == "it fits no node: a selector does not compile"


ADDRESSING = 'device.attributes["gpu.nvidia.com"].addressingMode'
DOMAIN = 'device.attributes["{}"].productName == "NVIDIA H100 80GB HBM3"'


@pytest.mark.parametrize(
    ("selector", "remedy"),
    [
        (DOMAIN.format("nvidia.com"), 'write device.attributes["gpu.nvidia.com"]'),
        (DOMAIN.format("gpu.nvidia.com/productName"), 'write device.attributes["gpu.nvidia.com"].productName'),
        (
            'device.attributes["gpu.nvidia.com"].productNam == "x"',
            'write device.attributes["gpu.nvidia.com"].productName',
        ),
        (
            f'{ADDRESSING} == "HMM"',
            f'write "addressingMode" in device.attributes["gpu.nvidia.com"] && {ADDRESSING} == "HMM"',
        ),
    ],
    ids=["class for domain", "name in domain", "misspelt", "optional"],
)
def test_read_of_what_is_missing_has_the_remedy_of_review(ask, k8s, selector, remedy):
    devices = k8s.gpus(2)
    devices[1]["attributes"]["addressingMode"] = {"string": "HMM"}
    answer = ask(k8s.claim(k8s.selecting(selector)), k8s.node(), k8s.resource_slice(devices))
    assert [obstacle.remedy for obstacle in answer.obstacles] == [remedy]


def test_failing_selector_of_a_class_has_the_remedy_of_review(ask, k8s):
    base = [k8s.device_class(selector='device.attributes["nvidia.com"].type == "gpu"'), k8s.namespace()]
    answer = ask(k8s.claim(), k8s.node(), k8s.resource_slice(k8s.gpus(1)), base=base)
    assert [obstacle.remedy for obstacle in answer.obstacles] == ['write device.attributes["gpu.nvidia.com"]']


def test_slices_that_cannot_be_read_are_reported(ask, k8s):
    broken = k8s.resource_slice(k8s.gpus(1))
    broken["spec"]["pool"]["generation"] = "one"
    answer = ask(k8s.claim(), k8s.node(), broken)
    assert answer.obstacles[0].sentence == (
        "the ResourceSlices or claims of the cluster cannot be read: "
        "ResourceSlice gpu.nvidia.com-node-1: generation must be a whole number, not 'one'"
    )
