"""Labels of nodes that name configurations: the GPUs and the running pods must allow them."""

import json

import pytest
from click.testing import CliRunner

from tests.configuration.node_labels.objects import (
    FILE,
    MIG,
    OWN,
    PLUGIN,
    STATE,
    WORKLOAD,
    config_map,
    mig,
    node,
    policy,
)
from webhook.cli import main

A100 = {
    "nvidia.com/gpu.product": "NVIDIA-A100-SXM4-40GB",
    "nvidia.com/gpu.memory": "40960",
    "nvidia.com/gpu.count": "2",
}


MORE = """\
  tenth: [{devices: [9], mig-enabled: true, mig-devices: {3g.20gb: 2}}]
  mixed-up: [{devices: all, mig-enabled: true, mig-devices: {3g.20gb: 2}}, {devices: [1], mig-enabled: false}]
  parts: [{devices: all, mig-enabled: true, mig-devices: {1c.3g.20gb: 6}}]
  off: [{devices: all, mig-enabled: false}]
  unknown: [{devices: all, mig-enabled: true, mig-devices: {3g.20gb: 1, 3g.40gb: 1}}]
  by-another-driver: [{devices: all, mig-enabled: true, mig-devices: {3g.21gb: 2}}]
  half-ready:
  - {devices: [0], mig-enabled: true, mig-devices: {3g.20gb: 2}}
  - {devices: [1], mig-enabled: true, mig-devices: {}}
"""
ALSO = (mig(migManager={"config": {"name": "cuts"}}), config_map("cuts", **{"config.yaml": FILE + MORE}))
SINGLE = (mig("single", migManager={"config": {"name": "cuts"}}), ALSO[1])


def pod(name, place, resource="nvidia.com/gpu"):
    container = {"name": "main", "resources": {"limits": {resource: "1"}}}
    spec = {"nodeName": place, "containers": [container]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "team"}, "spec": spec}


@pytest.mark.parametrize(
    ("labels", "cluster", "severity", "said", "remedy"),
    [
        (
            {**A100, MIG: "all-3g.40gb"},
            (mig(),),
            "deny",
            (
                '"all-3g.40gb" requests 3g.40gb, which is not a profile of A100 40GB (1g.5gb, 1g.10gb, 2g.10gb, 3g.20gb, 4g.20gb, '
                f"7g.40gb){STATE}"
            ),
            'write "all-3g.20gb"',
        ),
        (
            {**A100, "nvidia.com/gpu.memory": "", MIG: "all-7g.41gb"},
            (
                mig(),
                config_map(
                    "default-mig-parted-config",
                    **{
                        "config.yaml": FILE.replace("halves", "all-7g.41gb").replace(
                            "3g.20gb: 2}}]\n  ninth", "7g.41gb: 1}}]\n  ninth"
                        )
                    },
                ),
            ),
            "warn",
            (
                '"all-7g.41gb" requests 7g.41gb, which is called "7g.40gb" on A100 40GB; names '
                "differ by a little between drivers"
            ),
            'compare with what "nvidia-smi mig -lgip" lists on the node',
        ),
        (
            {**A100, MIG: "too-much"},
            OWN,
            "deny",
            f'"too-much" needs 9 of 8 memory slices of A100 40GB{STATE}',
            "write a configuration that suits the node",
        ),
        (
            {**A100, MIG: "tenth"},
            ALSO,
            "warn",
            '"tenth" is for GPU 9, and the last of this node is 1; no GPU would be cut',
            "write a configuration that suits the node",
        ),
        (
            {**A100, MIG: "mixed-up"},
            ALSO,
            "deny",
            (
                '"mixed-up" has entries for GPU 1 that differ in mig-enabled; mig-parted would report: unable to apply MIG config '
                f"with MIG mode disabled{STATE}"
            ),
            "write a configuration that suits the node",
        ),
        (
            {**A100, MIG: "unknown"},
            ALSO,
            "deny",
            (
                '"unknown" requests 3g.40gb, which is not a profile of A100 40GB (1g.5gb, 1g.10gb, 2g.10gb, 3g.20gb, 4g.20gb, '
                "7g.40gb); the GPUs would have MIG enabled and no MIG devices"
            ),
            "write a configuration that suits the node",
        ),
        (
            {"nvidia.com/gpu.product": "Tesla-T4", MIG: "all-1g.5gb"},
            (mig(),),
            "warn",
            '"all-1g.5gb" does nothing, because MIG cannot divide the GPUs of this node, Tesla-T4, and no MIG manager runs here',
            "remove the label",
        ),
        (
            {**A100, MIG: "all-1g.5gb"},
            (mig(migManager={"enabled": False}),),
            "warn",
            '"all-1g.5gb" does nothing, because the ClusterPolicy has migManager.enabled: false',
            "enable the MIG manager, or cut the GPUs yourself",
        ),
        (
            {**A100, MIG: "all-balanced"},
            (mig("single"),),
            "deny",
            (
                '"all-balanced" does not go with mig.strategy "single": it makes 1g.5gb, 2g.10gb, 3g.20gb; the device plugin would '
                "exit with: more than one MIG device type present on node"
            ),
            "write a configuration with one profile for all GPUs, or set mig.strategy: mixed in the ClusterPolicy",
        ),
        (
            {**A100, MIG: "all-enabled"},
            (mig("single"),),
            "warn",
            (
                '"all-enabled" does not go with mig.strategy "single": it enables MIG on GPU 0 and makes no devices there; the '
                "device plugin would exit with: device 0 has no MIG devices configured"
            ),
            "write a configuration with one profile for all GPUs, or set mig.strategy: mixed in the ClusterPolicy",
        ),
        (
            {**A100, MIG: "half-ready"},
            SINGLE,
            "deny",
            (
                '"half-ready" does not go with mig.strategy "single": it enables MIG on GPU 1 and makes no devices there; the '
                "device plugin would exit with: device 1 has no MIG devices configured"
            ),
            "write a configuration with one profile for all GPUs, or set mig.strategy: mixed in the ClusterPolicy",
        ),
        (
            {**A100, MIG: "by-another-driver"},
            ALSO,
            "deny",
            (
                '"by-another-driver" requests 3g.21gb, which is called "3g.20gb" on A100 40GB; the GPUs would have MIG enabled '
                "and no MIG devices"
            ),
            "write a configuration that suits the node",
        ),
        (
            {**A100, MIG: "parts"},
            ALSO,
            "deny",
            (
                '"parts" does not go with mig.strategy "mixed": it makes 1c.3g.20gb; the device plugin would exit with: MIG '
                "profile '1c.3g.20gb' does not match any resource patterns"
            ),
            "write profiles that fill their GPU instances, such as 3g.20gb, or set mig.strategy: single in the ClusterPolicy",
        ),
        (
            {**A100, MIG: "all-1g.5gb"},
            (policy(),),
            "warn",
            (
                '"all-1g.5gb" cuts GPUs, and mig.strategy of the ClusterPolicy is not set, so each is offered as one '
                "nvidia.com/gpu, and its MIG devices are not"
            ),
            "set mig.strategy to single or mixed first",
        ),
        (
            {**A100, MIG: "all-1g.5gb", WORKLOAD: "vm-passthrough"},
            (mig(sandboxWorkloads={"enabled": True}),),
            "warn",
            (
                '"vm-passthrough" does not go with nvidia.com/mig.config: all-1g.5gb; machines get the whole GPUs of a node with '
                "vm-passthrough"
            ),
            "label the node nvidia.com/mig.config: all-disabled, or nvidia.com/gpu.workload.config: container",
        ),
        (
            {**A100, MIG: "all-1g.5gb"},
            (mig(sandboxWorkloads={"enabled": True, "defaultWorkload": "vm-passthrough"}),),
            "warn",
            '"all-1g.5gb" is to cut GPUs; machines get the whole GPUs of a node with vm-passthrough',
            "label the node nvidia.com/mig.config: all-disabled, or nvidia.com/gpu.workload.config: container",
        ),
    ],
)
def test_configuration_that_the_node_cannot_use_is_reported(findings_of, labels, cluster, severity, said, remedy):
    assert findings_of("GA155", labels, *cluster) == [(severity, said, remedy)]


def test_gpu_without_devices_is_only_warned_about_if_it_may_not_exist(findings_of):
    labels = {name: value for name, value in A100.items() if name != "nvidia.com/gpu.count"}
    assert [one[0] for one in findings_of("GA155", {**labels, MIG: "half-ready"}, *SINGLE)] == ["warn"]


def test_profile_that_the_gpus_lack_is_reported_once_under_the_strategy_single(findings_of):
    found = findings_of("GA155", {**A100, MIG: "unknown"}, *SINGLE)
    assert ["3g.40gb" in one[1] for one in found] == [True]


def test_strategy_is_read_from_the_node_where_the_policy_is_not_known(findings_of):
    found = findings_of("GA155", {**A100, MIG: "all-balanced", "nvidia.com/mig.strategy": "single"})
    assert [one[0] for one in found] == ["deny"]


@pytest.mark.parametrize(
    ("labels", "cluster"),
    [
        ({**A100, MIG: "half-ready"}, ALSO),
        ({**A100, MIG: "halves"}, OWN),
        (
            {**A100, MIG: "parts"},
            (
                mig("single", migManager={"config": {"name": "cuts"}}),
                config_map("cuts", **{"config.yaml": FILE + MORE}),
            ),
        ),
        (
            {**A100, MIG: "off"},
            (policy(migManager={"config": {"name": "cuts"}}), config_map("cuts", **{"config.yaml": FILE + MORE})),
        ),
        ({**A100, MIG: "of-h100"}, OWN),
        ({**A100, MIG: "all-balanced"}, (mig(),)),
        ({**A100, MIG: "all-1g.5gb"}, (mig("single"),)),
        ({**A100, MIG: "all-disabled", WORKLOAD: "vm-passthrough"}, (policy(sandboxWorkloads={"enabled": True}),)),
        ({**A100, MIG: "all-1g.5gb", WORKLOAD: "vm-passthrough"}, (mig(sandboxWorkloads={"enabled": False}),)),
        ({"nvidia.com/gpu.product": "NVIDIA-RTX-PRO-5000-Blackwell", MIG: "all-1g.24gb"}, (mig(),)),
        ({MIG: "all-3g.40gb"}, (mig(),)),
        ({**A100, MIG: "all-3g.20gb"}, ()),
        ({**A100, MIG: "ninth"}, OWN),
        ({**A100, MIG: "tenth", "nvidia.com/gpu.count": "10"}, ALSO),
        ({**A100, MIG: "tenth", "nvidia.com/gpu.product": "NVIDIA-A100-SXM4-40GB-MIG-3g.20gb"}, ALSO),
    ],
)
def test_configuration_that_the_node_can_use_is_left_alone(findings_of, labels, cluster):
    assert findings_of("GA155", labels, *cluster) == []


@pytest.mark.parametrize(
    ("labels", "effect"),
    [
        ({MIG: "all-1g.5gb"}, '"all-1g.5gb" cuts GPUs anew, which fails while they are in use'),
        (
            {WORKLOAD: "vm-passthrough"},
            '"vm-passthrough" takes driver and device plugin of the present workload from the node',
        ),
    ],
)
def test_change_under_running_pods_is_warned_about(findings_of, labels, effect):
    pods = pod("a", "gpu-1"), pod("b", "gpu-1", "nvidia.com/mig-1g.5gb"), pod("c", "gpu-2"), pod("d", "gpu-1", "cpu")
    said = f'{effect}; GPUs of this node are held by 2 pods ("team/a", "team/b")'
    assert findings_of("GA156", labels, *pods, before={}) == [("warn", said, "drain the node first")]


@pytest.mark.parametrize("before", [None, {MIG: "all-1g.5gb"}])
def test_new_node_and_unchanged_label_give_no_warning(findings_of, before):
    assert findings_of("GA156", {MIG: "all-1g.5gb"}, pod("a", "gpu-1"), before=before) == []


def test_change_of_an_empty_node_gives_no_warning(findings_of):
    assert findings_of("GA156", {MIG: "all-1g.5gb"}, pod("a", "gpu-2"), before={}) == []


@pytest.mark.parametrize("resource", ["nvidia.com/GA107GL_A2", "nvidia.com/NVIDIA_A2-2Q", "nvidia.com/pgpu"])
def test_change_under_running_virtual_machines_is_warned_about(findings_of, resource):
    class_of_others = {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": "other"}}
    cluster = pod("vm", "gpu-1", resource), class_of_others
    found = findings_of("GA156", {WORKLOAD: "vm-vgpu"}, *cluster, before={WORKLOAD: "vm-passthrough"})
    assert ['"team/vm"' in one[1] for one in found] == [True]


def test_node_in_the_clusters_files_is_the_node_before_the_change(tmp_path):
    old = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "gpu-1", "labels": A100}}
    new = {**old, "metadata": {"name": "gpu-1", "labels": {MIG: "all-1g.5gb"}}}
    (tmp_path / "new.json").write_text(json.dumps(new))
    (tmp_path / "cluster.json").write_text(
        json.dumps({"apiVersion": "v1", "kind": "List", "items": [old, pod("a", "gpu-1")]})
    )
    arguments = ["review", "-o", "json", str(tmp_path / "new.json"), "--cluster", str(tmp_path / "cluster.json")]
    found = json.loads(CliRunner().invoke(main, arguments).stdout)
    assert "GA156" in {each["rule"] for each in found[0]["findings"]}


TWO_MODELS = """\
  two-models:
  - {devices: [0, 1], mig-enabled: true, mig-devices: {1g.6gb: 4}}
  - {devices: [2, 3], mig-enabled: true, mig-devices: {3g.20gb: 2}}
"""
OF_TWO = (mig(migManager={"config": {"name": "cuts"}}), config_map("cuts", **{"config.yaml": FILE + TWO_MODELS}))


def findings_on(examined, node, *cluster):
    """The severities of GA155 on a node of which the cluster has the other labels and the status."""
    found = examined("\n---\n".join(map(json.dumps, (node, *cluster))))
    return [str(one.severity) for one in found if one.rule.id == "GA155"]


@pytest.mark.parametrize(
    ("offered", "found"),
    [
        ({"nvidia.com/gpu": "2"}, ["deny"]),
        ({"nvidia.com/gpu": "4"}, []),
        ({"nvidia.com/mig-1g.6gb": "8", "nvidia.com/mig-3g.20gb": "4"}, []),
    ],
)
def test_gpus_of_a_second_model_are_not_judged_by_the_labels_of_the_first(examined, offered, found):
    stored = {**node(**A100), "status": {"allocatable": offered}}
    assert findings_on(examined, node(**{MIG: "two-models"}), stored, *OF_TWO) == found


@pytest.mark.parametrize(("state", "found"), [("success", []), ("failed", ["deny"])])
def test_layout_that_mig_parted_has_applied_is_not_refused(examined, state, found):
    existing = node(**A100, **{MIG: "too-much", "nvidia.com/mig.config.state": state})
    assert findings_on(examined, existing, existing, *OWN) == found


def test_state_of_the_former_layout_says_nothing_about_a_new_one(examined):
    stored = node(**A100, **{MIG: "halves", "nvidia.com/mig.config.state": "success"})
    assert findings_on(examined, node(**{MIG: "too-much"}), stored, *OWN) == ["deny"]


ONE_REPLICA = "version: v1\nsharing: {timeSlicing: {resources: [{name: nvidia.com/gpu, replicas: 1}]}}"
SHARES = (
    policy(devicePlugin={"config": {"name": "slices", "default": "any"}}),
    config_map("slices", any="version: v1", broken=ONE_REPLICA),
)


def test_label_that_selects_a_broken_key_is_refused_with_the_reason(findings_of):
    ((severity, message, remedy),) = findings_of("GA132", {PLUGIN: "broken"}, *SHARES)
    assert severity == "deny"
    assert message.startswith('the key "broken" of the ConfigMap "slices" is invalid at data.broken.sharing')
    assert remedy == "write 2 or more, or remove this entry to hand out whole GPUs"


def test_mistake_in_a_key_that_the_label_does_not_select_is_left_alone(findings_of):
    assert findings_of("GA132", {PLUGIN: "any"}, *SHARES) == []


def test_label_that_selected_a_broken_key_before_is_left_alone(findings_of):
    assert findings_of("GA132", {PLUGIN: "broken"}, *SHARES, before={PLUGIN: "broken"}) == []
