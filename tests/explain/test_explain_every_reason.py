"""All reasons for a node, the one that remains if nothing is in use first."""

from __future__ import annotations

import pytest

from policies.outcome import Feasibility

GPU = "nvidia.com/gpu"


@pytest.fixture
def plugin_node(k8s):
    """A node of 128 cpu and 8 GPUs of a device plugin."""
    return k8s.node(allocatable={GPU: "8", "memory": "1000Gi"})


@pytest.fixture
def holder(k8s):
    """A pod that holds 4 of the GPUs, and 8 cpu."""
    return k8s.pod({GPU: "4", "cpu": "8"}, name="holder", stored=True, nodeName="node-1")


def reasons(group):
    return [each.sentence for each in (group.reason, *group.other_reasons)]


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        (
            {GPU: "8", "cpu": "150"},
            [
                "150 cpu requested, and the node has 128 in all",
                "8 nvidia.com/gpu requested, 4 of 8 left beside the pods that run there",
            ],
        ),
        (
            {GPU: "8", "nvidia.com/mig-1g.10gb": "1"},
            [
                "1 nvidia.com/mig-1g.10gb requested, and the node has none",
                "8 nvidia.com/gpu requested, 4 of 8 left beside the pods that run there",
            ],
        ),
        (
            {GPU: "1", "cpu": "125", "memory": "4000Gi"},
            [
                "4,000 GiB memory requested, and the node has 1,000 GiB in all",
                "125 cpu requested, 120 of 128 left beside the pods that run there",
            ],
        ),
    ],
    ids=["cpu", "MIG device", "memory"],
)
def test_pod_that_never_fits_does_not_wait_for_others(ask, k8s, plugin_node, holder, limits, expected):
    answer = ask(k8s.pod(limits), plugin_node, holder)
    assert (answer.verdict, answer.fit_if_empty) == (Feasibility.IMPOSSIBLE, 0)
    assert reasons(answer.groups[0]) == expected


def test_pod_that_waits_for_two_resources_would_fit_if_nothing_were_in_use(ask, k8s, plugin_node, holder):
    answer = ask(k8s.pod({GPU: "8", "cpu": "125"}), plugin_node, holder)
    assert answer.verdict is Feasibility.FULL
    assert reasons(answer.groups[0]) == [
        "8 nvidia.com/gpu requested, 4 of 8 left beside the pods that run there",
        "125 cpu requested, 120 of 128 left beside the pods that run there",
    ]


def test_node_with_too_few_devices_and_too_little_cpu_lacks_the_devices_first(ask, k8s):
    busy = k8s.pod({"cpu": "100"}, name="busy", stored=True, nodeName="node-1")
    asked = k8s.pod({"cpu": "64"}, resourceClaims=k8s.claiming(resourceClaimTemplateName="gpus"))
    answer = ask(asked, k8s.template({"count": 4}), k8s.node(), k8s.resource_slice(k8s.gpus(2)), busy)
    assert answer.verdict is Feasibility.IMPOSSIBLE
    assert reasons(answer.groups[0]) == [
        "request gpu requests 4 devices of class gpu.nvidia.com; the node has 2",
        "64 cpu requested, 28 of 128 left beside the pods that run there",
    ]


def test_devices_in_use_are_named_after_too_little_memory(ask, k8s):
    asked = k8s.pod({"memory": "2Ti"}, resourceClaims=k8s.claiming(resourceClaimTemplateName="gpus"))
    answer = ask(asked, k8s.template(), k8s.node(), k8s.resource_slice(k8s.gpus(1)), k8s.holding("train-0", [0]))
    assert reasons(answer.groups[0]) == [
        "2,048 GiB memory requested, and the node has 1,024 GiB in all",
        "request gpu requests 1 device of class gpu.nvidia.com; none of 1 can serve it",
    ]


def test_every_taint_and_label_is_named(ask, k8s):
    taints = [{"key": key, "effect": "NoSchedule"} for key in ("team", "spot")]
    answer = ask(k8s.pod(nodeSelector={"zone": "b"}), k8s.node(taints=taints, unschedulable=True))
    assert reasons(answer.groups[0]) == [
        "the node is cordoned",
        "the pod does not tolerate the taint team:NoSchedule",
        "the pod does not tolerate the taint spot:NoSchedule",
        "the pod's nodeSelector requires zone=b; here zone is missing",
    ]


def test_reason_of_some_nodes_says_of_how_many(ask, k8s):
    nodes = [
        k8s.node(f"node-{number}", unschedulable=True, allocatable={"cpu": cpu}) for number, cpu in ((1, 4), (2, 64))
    ]
    (group,) = ask(k8s.pod({"cpu": "16"}), *nodes).groups
    assert reasons(group) == [
        "the node is cordoned",
        "16 cpu requested, and the node has 4 in all (on 1 of these 2 nodes)",
    ]


def test_tolerations_for_all_taints_of_a_node_are_suggested_together(ask, k8s):
    taints = [{"key": key, "effect": "NoSchedule"} for key in ("team", "spot")]
    (told,) = ask(k8s.pod(), k8s.node(taints=taints)).suggestions
    assert told.sentence == "add tolerations for the node taints team:NoSchedule and spot:NoSchedule to the pod"


def test_more_devices_than_any_node_has_is_the_first_reason_whatever_is_in_use(ask, k8s):
    asked = k8s.pod(resourceClaims=k8s.claiming(resourceClaimTemplateName="gpus"))
    names = [f"node-{number}" for number in range(1, 5)]
    held = [k8s.holding(f"train-{name}", range(number), name) for number, name in enumerate(names)]
    bare = [k8s.node(f"cpu-{number}") for number in range(9)]
    slices = [k8s.resource_slice(k8s.gpus(8), name) for name in names]
    answer = ask(asked, k8s.template({"count": 16}), *bare, *map(k8s.node, names), *slices, *held)
    first, last = answer.groups
    assert (first.count, first.reason.sentence) == (
        4,
        "request gpu requests 16 devices of class gpu.nvidia.com; the node has 8",
    )
    assert last.count == 9
