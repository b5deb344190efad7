"""Suggestions are the smallest changes that help, and each was tried out."""

from __future__ import annotations

import pytest

from policies.analyses.explain import Change

MEMORY = 'device.capacity["gpu.nvidia.com"].memory.compareTo(quantity("{}")) >= 0'
PRODUCT = 'device.attributes["gpu.nvidia.com"].productName == "NVIDIA L40S"'
ROOT = "resource.kubernetes.io/pcieRoot"


def texts_of(answer):
    return [(each.sentence, each.nodes) for each in answer.suggestions]


def test_lower_count_is_suggested(ask, k8s):
    nodes = [k8s.node("node-1"), k8s.node("node-2")]
    slices = [k8s.resource_slice(k8s.gpus(2), "node-1"), k8s.resource_slice(k8s.gpus(4), "node-2")]
    answer = ask(k8s.claim({"count": 8}), *nodes, *slices)
    assert texts_of(answer) == [("request 4 devices instead of 8 in request gpu", 1)]
    assert answer.suggestions[0].change is Change.COUNT


def test_bound_moves_to_the_best_there_is(ask, k8s):
    devices = [k8s.gpu(0, memory="24Gi"), k8s.gpu(1, memory="40Gi")]
    answer = ask(k8s.claim(k8s.selecting(MEMORY.format("81559Mi"))), k8s.node(), k8s.resource_slice(devices))
    assert texts_of(answer) == [("accept 40Gi of memory instead of 81559Mi in request gpu", 1)]


def test_bound_moves_as_far_as_so_many_devices_need(ask, k8s):
    devices = [k8s.gpu(0, memory="24Gi"), k8s.gpu(1, memory="40Gi")]
    asked = k8s.selecting(MEMORY.format("81559Mi"), count=2)
    answer = ask(k8s.claim(asked), k8s.node(), k8s.resource_slice(devices))
    assert texts_of(answer) == [("accept 24Gi of memory instead of 81559Mi in request gpu", 1)]


def test_version_moves_too(ask, k8s):
    selector = 'device.attributes["gpu.nvidia.com"].cudaComputeCapability.compareTo(semver("10.0.0")) >= 0'
    answer = ask(k8s.claim(k8s.selecting(selector)), k8s.node(), k8s.resource_slice(k8s.gpus(1)))
    assert texts_of(answer) == [("accept cudaComputeCapability 9.0.0 instead of 10.0.0 in request gpu", 1)]


def test_condition_is_left_out_of_the_selector(ask, k8s):
    selector = f'device.driver == "gpu.nvidia.com" && {PRODUCT}'
    answer = ask(k8s.claim(k8s.selecting(selector)), k8s.node(), k8s.resource_slice(k8s.gpus(1)))
    assert texts_of(answer) == [(f"leave out {PRODUCT} in request gpu", 1)]


def test_selector_of_one_condition_is_left_out(ask, k8s):
    answer = ask(k8s.claim(k8s.selecting(PRODUCT)), k8s.node(), k8s.resource_slice(k8s.gpus(1)))
    assert texts_of(answer) == [(f"leave out {PRODUCT} in request gpu", 1)]


def test_change_that_does_not_help_alone_is_not_suggested(ask, k8s):
    asked = k8s.selecting(MEMORY.format("81559Mi"), PRODUCT)
    answer = ask(k8s.claim(asked), k8s.node(), k8s.resource_slice(k8s.gpus(1, memory="40Gi")))
    assert texts_of(answer) == []


def test_device_toleration_is_suggested(ask, k8s):
    taint = {"key": "example.com/reserved", "value": "tests", "effect": "NoSchedule"}
    answer = ask(k8s.claim(), k8s.node(), k8s.resource_slice([k8s.gpu(0, taints=[taint])]))
    assert texts_of(answer) == [("tolerate the device taint example.com/reserved=tests:NoSchedule in request gpu", 1)]


@pytest.mark.parametrize("key", ["gpu.nvidia.com/xid", "gpu.nvidia.com/gpu-lost"])
def test_unhealthy_device_is_not_to_be_tolerated(ask, k8s, key):
    taint = {"key": key, "value": "79", "effect": "NoSchedule"}
    answer = ask(k8s.claim(), k8s.node(), k8s.resource_slice([k8s.gpu(0, taints=[taint])]))
    assert texts_of(answer) == []


def test_constraint_is_left_out(ask, k8s):
    devices = [k8s.gpu(number, root=f"pci0000:{number:02x}") for number in range(2)]
    asked = k8s.claim({"count": 2}, constraints=[{"matchAttribute": ROOT}])
    answer = ask(asked, k8s.node(), k8s.resource_slice(devices))
    assert texts_of(answer) == [(f"leave out the constraint on the same {ROOT}", 1)]


def test_node_toleration_is_suggested(ask, k8s):
    taint = {"key": "team", "value": "b", "effect": "NoSchedule"}
    nodes = [k8s.node(f"node-{number}", taints=[taint]) for number in range(3)]
    slices = [k8s.resource_slice(k8s.gpus(1), f"node-{number}") for number in range(2)]
    pod = k8s.pod(resourceClaims=k8s.claiming(resourceClaimTemplateName="gpus"))
    assert texts_of(ask(pod, *nodes, *slices, k8s.template())) == [
        ("add a toleration for the node taint team=b:NoSchedule to the pod", 2)
    ]


@pytest.mark.parametrize("key", ["node.kubernetes.io/not-ready", "node-role.kubernetes.io/control-plane"])
def test_toleration_of_what_is_wrong_with_a_node_is_not_suggested(ask, k8s, key):
    assert texts_of(ask(k8s.pod(), k8s.node(taints=[{"key": key, "effect": "NoSchedule"}]))) == []


def test_fewer_extended_resources_are_suggested(ask, k8s):
    answer = ask(k8s.pod({"example.com/fpga": "8"}), k8s.node(allocatable={"example.com/fpga": "4"}))
    assert texts_of(answer) == [("request 4 example.com/fpga instead of 8", 1)]


def test_what_fits_gets_no_suggestions(ask, k8s):
    nodes = [k8s.node("node-1"), k8s.node("node-2")]
    slices = [k8s.resource_slice(k8s.gpus(8), "node-1"), k8s.resource_slice(k8s.gpus(4), "node-2")]
    assert texts_of(ask(k8s.claim({"count": 8}), *nodes, *slices)) == []


def test_change_that_helps_only_once_nothing_is_in_use_says_so(ask, k8s):
    asked = k8s.claim(k8s.selecting(MEMORY.format("81559Mi")))
    answer = ask(asked, k8s.node(), k8s.resource_slice(k8s.gpus(1, memory="40Gi")), k8s.holding("train-0", [0]))
    (suggestion,) = answer.suggestions
    assert suggestion.sentence == "accept 40Gi of memory instead of 81559Mi in request gpu"
    assert suggestion.only_if_empty


@pytest.fixture
def converted(ask, k8s):
    """The explanation of a pod that is converted, on a node with 2 GPUs."""
    opted_in = k8s.namespace("team-a", **{"gpu-admission.io/dra": "enabled"})
    return lambda pod: ask(pod, opted_in, k8s.node(), k8s.resource_slice(k8s.gpus(2)))


def test_converted_pod_is_told_which_label_to_leave_out_of_its_node_selector(converted, k8s):
    answer = converted(k8s.pod({"nvidia.com/gpu": "1"}, nodeSelector={"nvidia.com/gpu.product": "NVIDIA-L40S"}))
    assert texts_of(answer) == [("leave out nvidia.com/gpu.product: NVIDIA-L40S in the nodeSelector", 1)]
    assert [(each.claim, each.request) for each in answer.suggestions] == [("", "")]


def test_converted_pod_is_told_what_its_node_affinity_requires(converted, k8s):
    product = {"key": "nvidia.com/gpu.product", "operator": "In", "values": ["NVIDIA-L40S"]}
    terms = {"nodeSelectorTerms": [{"matchExpressions": [product]}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
    answer = converted(k8s.pod({"nvidia.com/gpu": "1"}, affinity=affinity))
    assert texts_of(answer) == [("leave out what the node affinity requires of nvidia.com/gpu.product", 1)]


def test_converted_pod_is_told_how_many_gpus_to_request_in_a_container(converted, k8s):
    answer = converted(k8s.pod({"nvidia.com/gpu": "3"}))
    assert texts_of(answer) == [("request 2 nvidia.com/gpu instead of 3 in container main", 1)]


@pytest.mark.parametrize(
    ("amount", "expected"),
    [
        ("1", "request 2 nvidia.com/gpu instead of 5 in container main"),
        ("5", "request 2 nvidia.com/gpu instead of 5 in containers main and fetch"),
    ],
)
def test_init_container_that_uses_the_same_gpus_is_counted_with_its_container(converted, k8s, amount, expected):
    pod = k8s.pod({"nvidia.com/gpu": "5"})
    limits = {"limits": {"nvidia.com/gpu": amount}}
    pod["spec"]["initContainers"] = [{"name": "fetch", "image": "fetch", "resources": limits}]
    assert texts_of(converted(pod)) == [(expected, 1)]


def asking(**amounts):
    return {"capacity": {"requests": amounts}}


@pytest.fixture
def shared(k8s):
    """GPUs that several claims can hold at once."""
    return k8s.resource_slice(k8s.gpus(2, allowMultipleAllocations=True))


def test_less_capacity_is_suggested(ask, k8s, shared):
    answer = ask(k8s.claim(asking(memory="200Gi")), k8s.node(), shared)
    assert texts_of(answer) == [("request 81559Mi of memory instead of 200Gi in request gpu", 1)]
    assert answer.suggestions[0].change is Change.CAPACITY


def test_most_that_a_policy_hands_out_is_suggested(ask, k8s):
    device = k8s.gpu(0, allowMultipleAllocations=True)
    policy = {"default": "1Gi", "validRange": {"min": "1Gi", "max": "20Gi"}}
    device["capacity"]["memory"]["requestPolicy"] = policy
    answer = ask(k8s.claim(asking(memory="40Gi")), k8s.node(), k8s.resource_slice([device]))
    assert texts_of(answer) == [("request 20Gi of memory instead of 40Gi in request gpu", 1)]


@pytest.mark.parametrize("name", ["memry", "gpu.nvidia.com/memory"])
def test_near_name_of_a_capacity_is_suggested(ask, k8s, shared, name):
    answer = ask(k8s.claim(asking(**{name: "10Gi"})), k8s.node(), shared)
    assert texts_of(answer) == [(f"request capacity memory instead of {name} in request gpu", 1)]


def test_capacity_that_nothing_is_near_has_no_suggestion(ask, k8s, shared):
    assert texts_of(ask(k8s.claim(asking(bandwidth="1G")), k8s.node(), shared)) == []


NVIDIA_POLICY = {"default": "80Gi", "validRange": {"min": "1Mi", "max": "80Gi", "step": "1Mi"}}


def shared_gpu(k8s, **capacity):
    """A GPU of which claims take parts, each capacity with what a request without an amount takes."""
    device = k8s.gpu(0, allowMultipleAllocations=True)
    return {**device, "capacity": capacity}


def taking(k8s, **amounts):
    """A claim that holds a part of the first GPU."""
    held = k8s.holding("train-0", [0])
    (result,) = held["status"]["allocation"]["devices"]["results"]
    result |= {"shareID": "33333333-3333-3333-3333-333333333330", "consumedCapacity": amounts}
    return held


@pytest.mark.parametrize("request_fields", [{}, {"capacity": {}}, {"capacity": None}, {"capacity": {"requests": {}}}])
def test_request_without_an_amount_is_told_which_amount_fits(ask, k8s, request_fields):
    device = shared_gpu(k8s, memory={"value": "80Gi", "requestPolicy": NVIDIA_POLICY})
    cluster = k8s.node(), k8s.resource_slice([device]), taking(k8s, memory="16Gi")
    answer = ask(k8s.claim(request_fields), *cluster)
    assert texts_of(answer)[0] == ("write capacity: {requests: {memory: 64Gi}} in request gpu", 1)
    assert (
        "gpu-0 has 64Gi of memory left, and a request without an amount takes 80Gi" in answer.groups[0].reason.details
    )
    assert ask(k8s.claim(asking(memory="64Gi")), *cluster).fit_now == 1


def test_all_capacities_that_are_short_are_suggested_together(ask, k8s):
    device = shared_gpu(k8s, cores={"value": "100"}, memory={"value": "80Gi"}, slots={"value": "8"})
    cluster = k8s.node(), k8s.resource_slice([device]), taking(k8s, cores="50", memory="40Gi")
    answer = ask(k8s.claim(asking(slots="1")), *cluster)
    assert texts_of(answer)[0] == (
        "write capacity: {requests: {slots: 1, cores: 50, memory: 40Gi}} in request gpu",
        1,
    )
    assert ask(k8s.claim(asking(slots="1", cores="50", memory="40Gi")), *cluster).fit_now == 1


def test_suggested_amount_is_a_whole_number_of_the_steps_of_the_policy(ask, k8s):
    policy = {"default": "80Gi", "validRange": {"min": "10Gi", "max": "80Gi", "step": "10Gi"}}
    device = shared_gpu(k8s, memory={"value": "80Gi", "requestPolicy": policy})
    answer = ask(k8s.claim(), k8s.node(), k8s.resource_slice([device]), taking(k8s, memory="15Gi"))
    assert texts_of(answer)[0] == ("write capacity: {requests: {memory: 60Gi}} in request gpu", 1)


def test_amount_is_not_suggested_where_even_the_least_does_not_fit(ask, k8s):
    policy = {"default": "80Gi", "validRange": {"min": "40Gi", "max": "80Gi"}}
    device = shared_gpu(k8s, memory={"value": "80Gi", "requestPolicy": policy})
    answer = ask(k8s.claim(), k8s.node(), k8s.resource_slice([device]), taking(k8s, memory="60Gi"))
    assert Change.CAPACITY not in {each.change for each in answer.suggestions}


def test_written_amount_is_named_where_the_policy_rounds_it_up(ask, k8s):
    policy = {"default": "80Gi", "validValues": ["10Gi", "40Gi", "80Gi"]}
    device = shared_gpu(k8s, memory={"value": "80Gi", "requestPolicy": policy})
    answer = ask(k8s.claim(asking(memory="12Gi")), k8s.node(), k8s.resource_slice([device]), taking(k8s, memory="60Gi"))
    assert texts_of(answer)[0] == ("request 10Gi of memory instead of 12Gi in request gpu", 1)
