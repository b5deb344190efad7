"""GPUs of device plugins: counted from nodes, held by the pods that are bound to them."""

from __future__ import annotations

import pytest

from tests.usage.usage_objects import PRODUCT, node, pod, reasons, report, totals

SHARED = {
    "nvidia.com/gpu.product": "Tesla-T4-SHARED",
    "nvidia.com/gpu.replicas": "4",
    "nvidia.com/gpu.sharing-strategy": "time-slicing",
}
MIXED = {
    "nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB",
    "nvidia.com/mig-1g.10gb.product": "NVIDIA-A100-SXM4-80GB-MIG-1g.10gb",
}


def test_pods_hold_what_they_request():
    found = report(node(gpus=8), pod(gpus=2), pod("more", 3, namespace="team-b"))
    assert totals(found) == {PRODUCT: ("8", "5", "3", "0")}
    assert [(each.namespace, each.pods, each.gpus) for each in found.namespaces] == [("team-b", 1, 3), ("team-a", 1, 2)]


@pytest.mark.parametrize(
    "idle",
    [pod(node_name=""), pod(status={"phase": "Succeeded"}), pod(gpus=0)],
    ids=["pending", "ended", "without GPUs"],
)
def test_pods_without_a_gpu_hold_nothing(idle):
    assert totals(report(node(gpus=8), idle)) == {PRODUCT: ("8", "0", "8", "0")}


def test_replicas_of_a_shared_gpu_count_as_shares():
    found = report(node(gpus=4, labels=SHARED), pod())
    assert totals(found) == {"Tesla-T4 shares (4 per GPU)": ("4", "1", "3", "0")}
    assert [str(each.gpus) for each in found.holders] == ["1/4"]


def test_mig_devices_of_the_mixed_strategy_have_their_own_row():
    name = "nvidia.com/mig-1g.10gb"
    found = report(node(gpus=7, labels=MIXED, resource=name), pod(resource=name))
    assert totals(found) == {"NVIDIA-A100-SXM4-80GB MIG 1g.10gb": ("7", "1", "6", "0")}
    assert [str(each.gpus) for each in found.holders] == ["1/7"]


def test_unhealthy_devices_are_not_free():
    found = report(node(gpus=6, capacity={"nvidia.com/gpu": "8"}), pod(gpus=2))
    assert totals(found) == {PRODUCT: ("8", "2", "4", "2")}
    assert reasons(found) == [("unhealthy", "reported as unhealthy by the device plugin", "2")]


def test_negative_number_of_devices_counts_as_none():
    assert totals(report(node(gpus=-5), pod(gpus=2))) == {PRODUCT: ("0", "0", "0", "0")}


def test_plugin_that_is_gone_leaves_nothing_free():
    found = report(node(gpus=0, capacity={"nvidia.com/gpu": "8"}), pod(gpus=2))
    assert totals(found) == {PRODUCT: ("8", "2", "0", "6")}
    assert reasons(found) == [
        ("unhealthy", "all reported as unhealthy by the device plugin, or it is not running", "6")
    ]


def test_devices_that_a_claim_holds_for_the_pod_are_not_the_plugins():
    mapped = {"requestMappings": [{"containerName": "main", "requestName": "r", "resourceName": "nvidia.com/gpu"}]}
    status = {"extendedResourceClaimStatus": {"resourceClaimName": "made", **mapped}}
    assert totals(report(node(gpus=8), pod(status=status))) == {PRODUCT: ("8", "0", "8", "0")}


def test_gpus_that_the_node_no_longer_shows_are_reported():
    found = report(node(), pod(gpus=2))
    assert totals(found) == {PRODUCT: ("0", "0", "0", "0")}
    assert found.problems == (f"pods and claims hold 2 devices ({PRODUCT}) that node node-1 does not show",)


def test_more_held_than_exist_is_reported():
    found = report(node(gpus=1), pod(gpus=2))
    assert found.problems == (f"1 of 1 {PRODUCT} of node node-1 is given out twice",)


def test_gpus_that_nothing_offers_are_counted_by_their_label():
    found = report(node(labels={"nvidia.com/gpu.count": "8"}))
    assert totals(found) == {PRODUCT: ("8", "0", "0", "8")}
    assert reasons(found) == [
        ("notAdvertised", "neither advertised by a device plugin nor published by the DRA driver", "8")
    ]


def test_mig_devices_that_nothing_offers_are_no_whole_gpus():
    labels = {"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB-MIG-1g.10gb", "nvidia.com/gpu.count": "14"}
    found = report(node(labels=labels))
    assert totals(found) == {"NVIDIA-A100-SXM4-80GB MIG 1g.10gb": ("14", "0", "0", "14")}


@pytest.mark.parametrize("count", ["", "many", "0", "²", "9" * 5000])
def test_label_that_counts_no_gpus_is_ignored(count):
    assert report(node(labels={"nvidia.com/gpu.count": count})).gpus == ()
