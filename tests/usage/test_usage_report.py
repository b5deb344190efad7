"""The usage report: obstacles of nodes, GPUs that are offered twice, unknown numbers, one namespace, JSON."""

from __future__ import annotations

import pytest

from policies.analyses.usage import UsageJSON, usage_json
from policies.kubernetes.objects import json_document
from tests.usage.usage_objects import PRODUCT, claim, devices, node, pod, reasons, report, resource_slice, totals

DEDICATED = {"key": "dedicated", "value": "vision", "effect": "NoSchedule"}
NOT_READY = {"key": "node.kubernetes.io/not-ready", "effect": "NoExecute"}
GPU_NODE = {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}
PREFERRED = {"key": "slow", "effect": "PreferNoSchedule"}


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"unschedulable": True}, ("cordoned", "the node is cordoned", "7")),
        ({"taints": [DEDICATED]}, ("tainted", "the node has the taint dedicated=vision:NoSchedule", "7")),
        (
            {"taints": [NOT_READY]},
            ("tainted", "the node is not ready (taint node.kubernetes.io/not-ready:NoExecute)", "7"),
        ),
    ],
    ids=["cordoned", "dedicated", "not ready"],
)
def test_free_gpus_of_a_node_that_takes_no_pods_are_unusable(spec, expected):
    found = report(node(gpus=8, **spec), pod())
    assert totals(found) == {PRODUCT: ("8", "1", "0", "7")}
    assert reasons(found) == [expected]


@pytest.mark.parametrize("taint", [GPU_NODE, PREFERRED], ids=["of GPU nodes", "a preference"])
def test_taint_that_pods_with_gpus_pass_is_no_obstacle(taint):
    assert totals(report(node(gpus=8, taints=[taint]))) == {PRODUCT: ("8", "0", "8", "0")}


def test_node_without_cpu_for_any_pod_with_gpus_is_full():
    busy = pod("batch", 0, cpu="61")
    found = report(node(gpus=8), node("node-2"), busy, pod("elsewhere", node_name="node-2"))
    assert reasons(found) == [
        ("noRoom", "the node has 3 of 64 cpu left, and every pod with GPUs requests at least 4", "8")
    ]


def test_node_with_cpu_for_the_smallest_pod_is_not_full():
    found = report(node(gpus=8), pod("batch", 0, cpu="61"), pod("tiny", node_name="node-2", cpu="3"))
    assert reasons(found) == []


def test_node_that_runs_all_its_pods_is_full():
    full = node(gpus=8)
    full["status"]["allocatable"]["pods"] = "1"
    assert reasons(report(full, pod("batch", 0))) == [
        ("noRoom", "the node has no room for another pod: it runs 1 already", "8")
    ]


def test_unhealthy_devices_keep_their_reason_on_a_cordoned_node():
    found = report(node(gpus=6, capacity={"nvidia.com/gpu": "8"}, unschedulable=True))
    assert [(kind, amount) for kind, _, amount in reasons(found)] == [("unhealthy", "2"), ("cordoned", "6")]


def test_devices_of_a_node_that_does_not_exist_are_unusable():
    found = report(node("node-2", gpus=1), resource_slice(devices(2)))
    assert reasons(found) == [("nodeMissing", "the node does not exist, although its devices are still published", "2")]


def test_gpus_that_device_plugin_and_dra_offer_count_once_and_are_reported():
    found = report(node(gpus=8), resource_slice(devices(8)), pod("plain", 2), claim("gpu-0", "gpu-1", "gpu-2"))
    assert totals(found) == {PRODUCT: ("8", "5", "3", "0")}
    assert found.problems == (
        "the GPUs of node node-1 are offered by both the device plugin and DRA, so a pod and a claim can get the same GPU",
    )
    (devices_of_node,) = json_document(usage_json(found), UsageJSON)["nodes"][0]["devices"]
    assert devices_of_node["providers"] == ["DRA", "device plugin"]


PLUGIN = (node("plugin", gpus=8), pod(node_name="plugin"))
DRA = (node(), resource_slice(devices(8)), claim("gpu-0"))


@pytest.mark.parametrize(
    ("kind", "objects", "expected"),
    [
        ("Pod", (PLUGIN[0], *DRA), ("16", "?", "?", "?")),
        ("ResourceClaim", (*PLUGIN, *DRA[:2]), ("16", "?", "?", "?")),
        ("ResourceSlice", (*PLUGIN, DRA[0]), ("8", "1", "7", "0")),
    ],
    ids=["pods", "claims", "slices"],
)
def test_what_cannot_be_seen_is_not_zero(kind, objects, expected):
    found = report(*objects, without=(kind,))
    assert totals(found) == {PRODUCT: expected}
    assert (found.unknown, found.is_complete) == ((kind,), False)


def test_gpus_are_counted_from_slices_while_nodes_are_unknown():
    found = report(*PLUGIN[1:], *DRA[1:], without=("Node",))
    assert totals(found) == {PRODUCT: ("8", "1", "7", "0"), "unknown product": ("?", "1", "?", "?")}


def test_held_devices_are_shown_while_slices_are_unknown():
    assert totals(report(DRA[0], DRA[2], without=("ResourceSlice",))) == {"unknown product": ("?", "1", "?", "?")}


def test_number_of_held_gpus_is_unknown_if_only_one_namespace_is_seen():
    found = report(*PLUGIN, *DRA, namespace="team-a", partial=("Pod", "ResourceClaim"))
    assert totals(found) == {PRODUCT: ("16", "?", "?", "?")}
    assert [str(each.held_by_namespace) for each in found.products] == ["2"]
    assert found.unknown == ("Pod", "ResourceClaim")


def test_one_namespace_is_shown_with_its_nodes_and_holders():
    other = node("node-2", gpus=4)
    found = report(
        node(gpus=8), other, pod(), pod("else", 2, node_name="node-2", namespace="team-b"), namespace="team-a"
    )
    assert totals(found) == {PRODUCT: ("12", "3", "9", "0")}
    assert [name for name, _ in found.nodes] == ["node-1"]
    assert [each.holder.pods for each in found.holders] == [("train",)]
    assert [each.namespace for each in found.namespaces] == ["team-a"]


def test_slices_that_cannot_be_read_are_reported():
    broken = resource_slice(devices(1), "node-2")
    broken["spec"]["pool"]["generation"] = "one"
    found = report(node(), resource_slice(devices(8)), broken)
    assert found.problems[0].startswith("the devices of the cluster cannot be read, so free GPUs may be unusable: ")


def test_json_has_every_table():
    found = json_document(usage_json(report(node(gpus=8, unschedulable=True), pod(gpus=2))), UsageJSON)
    kind = {"product": PRODUCT, "form": "whole", "profile": "", "replicas": 1}
    amounts = {
        "total": "8",
        "held": "2",
        "heldByNamespace": None,
        "unhealthy": "0",
        "free": "0",
        "unusable": "6",
        "over": "0",
    }
    reason = {"kind": "cordoned", "sentence": "the node is cordoned", "amount": "6"}
    assert found == {
        "namespace": "",
        "products": [{**kind, **amounts, "reasons": [{**reason, "nodes": ["node-1"]}]}],
        "nodes": [
            {
                "node": "node-1",
                "devices": [{**kind, "providers": ["device plugin"], **amounts, "reasons": [reason]}],
            }
        ],
        "namespaces": [{"namespace": "team-a", "gpus": "2", "pods": 1, "devices": [{**kind, "amount": "2"}]}],
        "holders": [
            {
                "namespace": "team-a",
                "pods": ["train"],
                "podGroups": [],
                "claim": "",
                "node": "node-1",
                "gpus": "2",
                "devices": [{**kind, "amount": "2", "names": []}],
                "problems": [],
            }
        ],
        "stuckPods": [],
        "waiting": None,
        "problems": [],
        "notes": [],
    }


@pytest.mark.parametrize(
    ("gpus", "spec", "expected"),
    [
        (1, {}, "1 GPU: 0 held, 1 free"),
        (2, {"unschedulable": True}, "2 GPUs: 0 held, 0 free, 2 free but unusable"),
    ],
)
def test_totals_are_one_sentence_for_each_form(gpus, spec, expected):
    assert [each.sentence for each in report(node(gpus=gpus, **spec)).totals] == [expected]
