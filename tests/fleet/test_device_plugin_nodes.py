"""Which nodes the GPU Operator runs its device plugin on."""

import pytest

from policies.fleet.device_plugin import active_cluster_policy, node_workload, runs_device_plugin
from policies.kubernetes.view import UNKNOWN
from webhook.cluster.manifests import ManifestsView

DEPLOY = "nvidia.com/gpu.deploy.device-plugin"
WORKLOAD = "nvidia.com/gpu.workload.config"
SANDBOXES = {"sandboxWorkloads": {"enabled": True}}


def node(**labels):
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "gpu-1", "labels": labels}}


def policy(name="cluster-policy", created=None, **spec):
    metadata = {"name": name, **({"creationTimestamp": created} if created else {})}
    return {"apiVersion": "nvidia.com/v1", "kind": "ClusterPolicy", "metadata": metadata, "spec": spec}


CLUSTER = {"apiVersion": "nvidia.com/v1alpha1", "kind": "GPUCluster", "metadata": {"name": "gpu-cluster"}}


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        ({}, True),
        ({DEPLOY: "true"}, True),
        ({DEPLOY: ""}, True),
        ({DEPLOY: "paused-for-driver-upgrade"}, True),
        ({DEPLOY: "paused-for-mig-change"}, True),
        ({DEPLOY: "false"}, False),
        ({DEPLOY: "no"}, False),
        ({"nvidia.com/gpu.deploy.operands": "false"}, False),
    ],
)
def test_label_of_the_node_decides_first(labels, expected):
    assert runs_device_plugin(node(**labels), ManifestsView([policy()], [])) is expected


@pytest.mark.parametrize(
    ("spec", "labels", "expected"),
    [
        ({"devicePlugin": {"enabled": False}}, {DEPLOY: "true"}, False),
        ({"devicePlugin": {"enabled": True}}, {}, True),
        (SANDBOXES, {WORKLOAD: "vm-passthrough"}, False),
        (SANDBOXES, {WORKLOAD: "vm-vgpu"}, False),
        (SANDBOXES, {WORKLOAD: "container"}, True),
        ({}, {WORKLOAD: "vm-passthrough"}, True),
        ({"sandboxWorkloads": {"enabled": True, "defaultWorkload": "vm-passthrough"}}, {}, False),
    ],
)
def test_cluster_policy_keeps_the_plugin_off_nodes(spec, labels, expected):
    assert runs_device_plugin(node(**labels), ManifestsView([policy(**spec)], [])) is expected


def test_policy_under_review_counts_rather_than_the_stored_one():
    view = ManifestsView([policy(devicePlugin={"enabled": False})], [])
    assert runs_device_plugin(node(), view, policy(devicePlugin={"enabled": True}))


def test_gpu_cluster_alone_runs_no_device_plugin():
    assert not runs_device_plugin(node(), ManifestsView([CLUSTER], []))
    assert runs_device_plugin(node(), ManifestsView([CLUSTER, policy()], []))


def test_unknown_policy_and_gpu_cluster_keep_no_plugin_off():
    assert runs_device_plugin(node(), ManifestsView([], []))


def test_operator_follows_the_oldest_policy():
    old, new = policy("b", "2026-01-01T00:00:00Z"), policy("a", "2026-02-01T00:00:00Z")
    assert active_cluster_policy(ManifestsView([new, old, policy("0")], [])) == old
    assert active_cluster_policy(ManifestsView([], [])) is UNKNOWN


@pytest.mark.parametrize(
    ("labels", "followed", "expected"),
    [
        ({WORKLOAD: "vm-vgpu"}, policy(**SANDBOXES), "vm-vgpu"),
        ({WORKLOAD: "passthrough"}, policy(**SANDBOXES), "container"),
        (
            {WORKLOAD: "passthrough"},
            policy(sandboxWorkloads={"enabled": True, "defaultWorkload": "vm-vgpu"}),
            "vm-vgpu",
        ),
        ({WORKLOAD: "vm-vgpu"}, policy(), "container"),
        ({WORKLOAD: "vm-vgpu"}, None, "vm-vgpu"),
        ({}, UNKNOWN, "container"),
    ],
)
def test_workload_of_a_node_is_what_the_operator_takes_it_for(labels, followed, expected):
    assert node_workload(labels, followed) == expected


def test_policy_under_review_is_active_where_none_can_be_listed():
    view = ManifestsView(reviewed=[policy()])
    assert active_cluster_policy(view) == policy()


def test_active_policy_is_unknown_where_several_are_under_review():
    assert active_cluster_policy(ManifestsView(reviewed=[policy("a"), policy("b")])) is UNKNOWN
