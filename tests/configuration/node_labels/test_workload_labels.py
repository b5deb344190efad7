"""Labels of nodes for workloads, and labels that only the GPU Operator sets."""

import pytest

from tests.configuration.node_labels.objects import OWNER, PLUGIN, SHARING, WORKLOAD, config_map, policy


@pytest.mark.parametrize(
    ("value", "cluster", "applied", "remedy"),
    [
        ("passthrough", (), "the default", 'write "vm-passthrough"'),
        ("containers", (policy(sandboxWorkloads={"defaultWorkload": "vm-vgpu"}),), "vm-vgpu", 'write "container"'),
        ("kata", (), "the default", "write one of container, vm-passthrough, vm-vgpu"),
    ],
)
def test_unknown_workload_is_warned_about(findings_of, value, cluster, applied, remedy):
    said = f'"{value}" is not a workload that the operator knows; {applied} would apply, and only its log tells'
    assert findings_of("GA157", {WORKLOAD: value}, *cluster) == [("warn", said, remedy)]


@pytest.mark.parametrize("value", ["container", "vm-passthrough", "vm-vgpu", ""])
def test_known_workload_is_left_alone(findings_of, value):
    assert findings_of("GA157", {WORKLOAD: value}) == []


SANDBOX = {"sandboxWorkloads": {"enabled": True}, "vfioManager": {"enabled": True}}


def test_node_for_vgpus_without_their_manager_is_warned_of(findings_of):
    said = '"vm-vgpu" needs the vGPU Manager, which the ClusterPolicy does not enable; the node would get no driver'
    remedy = "enable vgpuManager in the ClusterPolicy with repository, image and version first"
    assert findings_of("GA157", {WORKLOAD: "vm-vgpu"}, policy(**SANDBOX)) == [("warn", said, remedy)]


@pytest.mark.parametrize(
    "spec", [{**SANDBOX, "vgpuManager": {"enabled": True}}, {**SANDBOX, "driver": {"useNvidiaDriverCRD": True}}, {}]
)
def test_node_for_vgpus_that_something_serves_is_left_alone(findings_of, spec):
    assert findings_of("GA157", {WORKLOAD: "vm-vgpu"}, policy(**spec)) == []


def test_reserved_label_is_left_to_the_operator(findings_of):
    said = (
        "says which NVIDIADriver a node belongs to and is the operator's to set; it would be overwritten, or believed"
    )
    assert findings_of("GA157", {OWNER: "mine"}, before={}, user="admin") == [("warn", said, "leave it as it is")]


def test_reserved_label_is_not_every_service_accounts_to_set(findings_of):
    assert (
        findings_of("GA157", {OWNER: "mine"}, before={}, user="system:serviceaccount:team-a:gpu-operator")[0][0]
        == "warn"
    )


@pytest.mark.parametrize("user", ["system:serviceaccount:gpu-operator:gpu-operator", "system:node:gpu-1"])
def test_reserved_label_is_the_operators_to_set(findings_of, user):
    assert findings_of("GA157", {OWNER: "mine"}, before={}, user=user) == []


def test_reserved_label_of_a_node_that_is_read_from_a_file_is_left_alone(findings_of):
    assert findings_of("GA157", {OWNER: "mine"}, user="admin") == []


def test_key_with_binary_data_is_a_configuration_of_the_device_plugin(findings_of):
    stored = {**config_map("slices"), "binaryData": {"packed": "dmVyc2lvbjogdjE="}}
    assert findings_of("GA154", {PLUGIN: "packed"}, SHARING[0], stored) == []
