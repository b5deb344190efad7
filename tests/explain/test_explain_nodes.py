"""Nodes that are excluded before their devices are considered."""

from __future__ import annotations

import pytest

TAINT = {"key": "team", "value": "b", "effect": "NoSchedule"}


@pytest.fixture
def on(ask, k8s):
    """The one group of a cluster of one node, asked for a pod."""

    def on(node, pod, *objects):
        answer = ask(pod, node, k8s.resource_slice(k8s.gpus(8)), *objects)
        (group,) = answer.groups
        return group

    return on


def sentence(group):
    return str(group.reason.kind), group.reason.sentence


def test_cordoned_node_is_out(on, k8s):
    assert sentence(on(k8s.node(unschedulable=True), k8s.pod())) == ("cordoned", "the node is cordoned")


def test_cordoned_node_is_fine_for_who_tolerates_that(on, k8s):
    tolerated = k8s.pod(tolerations=[{"key": "node.kubernetes.io/unschedulable", "operator": "Exists"}])
    assert on(k8s.node(unschedulable=True), tolerated).fits


def test_untolerated_taint_is_reported(on, k8s):
    group = on(k8s.node(taints=[TAINT]), k8s.pod())
    assert sentence(group) == ("taint", "the pod does not tolerate the taint team=b:NoSchedule")
    assert group.reason.facts == {"key": "team", "value": "b", "effect": "NoSchedule"}


def test_taint_of_a_condition_is_reported_as_such(on, k8s):
    taint = {"key": "node.kubernetes.io/not-ready", "effect": "NoExecute"}
    assert sentence(on(k8s.node(taints=[taint]), k8s.pod())) == (
        "taint",
        "the node is not ready (taint node.kubernetes.io/not-ready:NoExecute)",
    )


def test_taint_with_prefer_no_schedule_excludes_no_pod(on, k8s):
    assert on(k8s.node(taints=[{**TAINT, "effect": "PreferNoSchedule"}]), k8s.pod()).fits


@pytest.mark.parametrize(
    ("labels", "here"),
    [({"zone": "a"}, "a"), ({"zone": ""}, '""'), ({}, "missing")],
    ids=["another value", "empty", "missing"],
)
def test_node_selector_is_reported_with_what_the_node_has(on, k8s, labels, here):
    assert sentence(on(k8s.node(labels=labels), k8s.pod(nodeSelector={"zone": "b"}))) == (
        "node selector",
        f"the pod's nodeSelector requires zone=b; here zone is {here}",
    )


def test_affinity_is_reported(on, k8s):
    terms = [{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["b"]}]}]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    assert sentence(on(k8s.node(), k8s.pod(affinity={"nodeAffinity": required}))) == (
        "node selector",
        "the pod's required node affinity does not match",
    )


def bound(k8s, name, limits):
    return {
        **k8s.pod(limits, name=name, namespace="team-b", stored=True, nodeName="node-1"),
        "status": {"phase": "Running"},
    }


def test_extended_resource_is_counted_beside_running_pods(on, k8s):
    node = k8s.node(allocatable={"example.com/fpga": "8"})
    group = on(node, k8s.pod({"example.com/fpga": "4"}), bound(k8s, "a", {"example.com/fpga": "6"}))
    assert sentence(group) == (
        "resources",
        "4 example.com/fpga requested, 2 of 8 left beside the pods that run there",
    )
    assert group.reason.facts == {"resource": "example.com/fpga", "asked": "4", "left": "2", "allocatable": "8"}
    assert group.fits_if_empty


def test_facts_on_resources_are_not_rounded(on, k8s):
    node = k8s.node(allocatable={"cpu": "7810m"})
    pod = k8s.pod(stored=True)
    pod["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "7815m"}}
    group = on(node, pod)
    assert group.reason.sentence == "just over 7.8 cpu requested, and the node has 7.8 in all"
    assert group.reason.facts == {"resource": "cpu", "asked": "7815m", "left": "7810m", "allocatable": "7810m"}


def test_ended_pods_take_nothing(on, k8s):
    ended = {**bound(k8s, "a", {"example.com/fpga": "6"}), "status": {"phase": "Succeeded"}}
    assert on(k8s.node(allocatable={"example.com/fpga": "8"}), k8s.pod({"example.com/fpga": "4"}), ended).fits


@pytest.mark.parametrize(
    ("limits", "allocatable", "words"),
    [
        (
            {"example.com/fpga": "4"},
            {"example.com/fpga": "2"},
            "4 example.com/fpga requested, and the node has 2 in all",
        ),
        ({"example.com/fpga": "4"}, {}, "4 example.com/fpga requested, and the node has none"),
        ({"memory": "64Gi"}, {"memory": "32Gi"}, "64 GiB memory requested, and the node has 32 GiB in all"),
        ({}, {"pods": "0"}, "no room for another pod: 0 pods can run on the node"),
    ],
)
def test_what_an_empty_node_has_not_is_reported(on, k8s, limits, allocatable, words):
    group = on(k8s.node(allocatable=allocatable), k8s.pod(limits))
    assert sentence(group) == ("resources", words)
    assert not group.fits_if_empty


def test_nodes_with_unknown_cpu_have_enough(on, k8s):
    assert on({**k8s.node(), "status": {}}, k8s.pod({"cpu": "64"})).fits


def test_allocated_claim_leaves_its_nodes(ask, k8s):
    held = k8s.holding("other", [0], namespace="team-a")
    pod = k8s.pod(resourceClaims=k8s.claiming(resourceClaimName="other-gpu"))
    nodes = [k8s.node("node-1"), k8s.node("node-2")]
    answer = ask(pod, *nodes, k8s.resource_slice(k8s.gpus(8)), held)
    assert [(group.nodes, group.fits) for group in answer.groups] == [(("node-1",), True), (("node-2",), False)]
    assert sentence(answer.groups[1]) == (
        "claim elsewhere",
        "claim gpus has its devices already, which cannot be reached from here",
    )


def test_order_of_reasons_is_the_schedulers(on, k8s):
    node = k8s.node(taints=[TAINT], allocatable={"cpu": "1"})
    assert on(node, k8s.pod({"cpu": "64"}, nodeSelector={"zone": "b"})).reason.kind == "taint"


def test_extended_resource_is_served_by_a_class_where_the_kubelet_offers_none(ask, k8s):
    named = k8s.device_class(extendedResourceName="nvidia.com/gpu")
    nodes = [k8s.node("node-1"), k8s.node("node-2", allocatable={"nvidia.com/gpu": "2"})]
    slices = k8s.resource_slice(k8s.gpus(8))
    answer = ask(k8s.pod({"nvidia.com/gpu": "4"}), *nodes, slices, named)
    assert [(group.nodes, group.fits) for group in answer.groups] == [(("node-1",), True), (("node-2",), False)]
    assert answer.groups[0].devices == ("nvidia.com/gpu: gpu-0..gpu-3",)
    assert answer.headline == "fits 1 of 2 nodes now, 2 replicas in all"


@pytest.mark.parametrize(
    ("zones", "here"),
    [
        (["b", None], "b, or missing"),
        (["a", "b"], "a or b"),
        (["a", "b", "d"], "a, b or d"),
        (["a", "b", "d", "e", None], "a, b, d or 1 more, or missing"),
    ],
    ids=["some without", "two", "three", "many"],
)
def test_values_of_several_nodes_are_reported_in_one_sentence(ask, k8s, zones, here):
    nodes = [k8s.node(f"node-{number}", {"zone": zone} if zone else {}) for number, zone in enumerate(zones)]
    (group,) = ask(k8s.pod(nodeSelector={"zone": "c"}), *nodes).groups
    assert group.reason.sentence == f"the pod's nodeSelector requires zone=c; here zone is {here}"


NVIDIA = {"key": "nvidia.com/gpu", "effect": "NoSchedule"}
COUNTED = "this counts the toleration for nvidia.com/gpu that placement adds to the pod"


def claiming_pod(k8s, **rest):
    return k8s.pod(resourceClaims=k8s.claiming(resourceClaimTemplateName="gpus"), **rest)


def test_toleration_that_placement_adds_is_remarked(ask, k8s):
    node = k8s.node(taints=[NVIDIA])
    converting = {"gpu-admission.io/dra": "enabled"}
    namespace = {"kind": "Namespace", "apiVersion": "v1", "metadata": {"name": "team-a", "labels": converting}}
    answer = ask(claiming_pod(k8s), node, k8s.resource_slice(k8s.gpus(1)), k8s.template(), namespace)
    assert answer.groups[0].fits
    assert answer.remarks == (COUNTED,)


@pytest.mark.parametrize(
    ("taints", "rest"),
    [([], {}), ([NVIDIA], {"tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists"}]})],
    ids=["no such taint", "tolerated already"],
)
def test_toleration_that_decides_nothing_is_not_remarked(ask, k8s, taints, rest):
    pod = claiming_pod(k8s, **rest)
    assert ask(pod, k8s.node(taints=taints), k8s.resource_slice(k8s.gpus(1)), k8s.template()).remarks == ()


PLACED = "this counts the conditions on nodes that placement adds to the pod; gpu-admission review shows them"


def test_condition_that_placement_makes_of_a_wish_is_remarked(ask, k8s):
    pod = k8s.pod(containers=[{"name": "main", "resources": {"limits": {"nvidia.com/gpu": 1}}}])
    pod["metadata"]["annotations"] = {"gpu-admission.io/product": "NVIDIA-L40S"}
    node = k8s.node("node-1", {"nvidia.com/gpu.product": "NVIDIA-L4"})
    answer = ask(pod, node)
    (group,) = answer.groups
    assert group.reason.sentence == (
        "the pod's nodeSelector requires nvidia.com/gpu.product=NVIDIA-L40S; here nvidia.com/gpu.product is NVIDIA-L4"
    )
    assert PLACED in answer.remarks


def test_conditions_of_the_pod_itself_are_not_remarked(ask, k8s):
    pod = k8s.pod(
        nodeSelector={"zone": "c"}, containers=[{"name": "main", "resources": {"limits": {"nvidia.com/gpu": 1}}}]
    )
    assert PLACED not in ask(pod, k8s.node()).remarks


def test_gpus_that_are_handed_out_twice_are_a_remark(ask, k8s):
    both = k8s.node(allocatable={"nvidia.com/gpu": "1"})
    reported = (
        "node-1 hands out the same GPUs by device plugin and by DRA, so a pod can get a GPU there that another pod has"
    )
    for asking in (k8s.claim(), k8s.pod({"nvidia.com/gpu": 1})):
        assert reported in ask(asking, both, k8s.resource_slice(k8s.gpus(1))).remarks
    assert reported not in ask(k8s.claim(), k8s.node(), k8s.resource_slice(k8s.gpus(1))).remarks


def test_kubelet_that_cannot_read_claims_is_a_remark(ask, k8s):
    old = k8s.node()
    old["status"]["nodeInfo"] = {"kubeletVersion": "v1.33.4"}
    server = {"serverVersion": {"gitVersion": "v1.34.0"}}
    reported = (
        "node-1 has a kubelet before 1.34 (v1.33.4), which cannot read claims of resource.k8s.io/v1, so the pod would not "
        "start there"
    )
    assert reported in ask(k8s.claim(), server, old, k8s.resource_slice(k8s.gpus(1))).remarks
    assert reported not in ask(k8s.pod({"cpu": 1}), server, old, k8s.resource_slice(k8s.gpus(1))).remarks
