"""Annotations that NVIDIA's NRI plugin and its container runtime follow."""

import pytest

SPEC = {"containers": [{"name": "train", "image": "ubuntu"}]}
ON, OFF = (
    f"{{apiVersion: nvidia.com/v1, kind: ClusterPolicy, metadata: {{name: c}}, spec: {{cdi: {{nriPluginEnabled: {on}}}}}}}"
    for on in ("true", "false")
)
NONE = "{apiVersion: nvidia.com/v1, kind: ClusterPolicyList, items: []}"
REMEDY = "request nvidia.com/gpu: 1 in resources.limits, and remove the annotation"


@pytest.mark.parametrize(
    ("cluster", "severity"), [(ON, "deny"), ("", "warn"), (NONE, "warn")], ids=["on", "unknown", "no policy"]
)
def test_annotation_that_the_plugin_follows_is_reported(findings_of, cluster, severity):
    metadata = {"name": "p", "annotations": {"nvidia.cdi.k8s.io/container.train": "nvidia.com/gpu=all"}}
    assert findings_of(SPEC, metadata=metadata, cluster=cluster) == [
        (
            f"GA611 {severity} metadata.annotations[nvidia.cdi.k8s.io/container.train]: names GPUs, "
            f'"nvidia.com/gpu=all", that NVIDIA\'s NRI plugin injects without a request to the scheduler; {REMEDY}'
        )
    ]


def test_annotation_is_nothing_where_the_plugin_is_off(rules):
    metadata = {"name": "p", "annotations": {"nvidia.cdi.k8s.io/pod": "nvidia.com/gpu=all"}}
    assert rules(SPEC, metadata=metadata, cluster=OFF) == []


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        ("nvidia.cdi.k8s.io", "nvidia.com/gpu=0", ["GA611"]),
        ("nvidia.cdi.k8s.io/pod", "nvidia.com/gpu=0", ["GA611"]),
        ("nvidia.cdi.k8s.io/pod", "k8s.device-plugin.nvidia.com/gpu=GPU-1", ["GA611"]),
        ("nvidia.cdi.k8s.io/pod", "example.com/nic=0", []),
        ("nvidia.cdi.k8s.io/pod", None, []),
        ("x.nvidia.cdi.k8s.io/pod", "nvidia.com/gpu=0", []),
        ("nvidia.com/gpu", "1", []),
    ],
)
def test_annotation_is_known_by_key_and_device(rules, key, value, expected):
    assert rules(SPEC, metadata={"name": "p", "annotations": {key: value}}, cluster=ON) == expected


def test_privileges_add_to_it(rules):
    metadata = {"name": "p", "annotations": {"nvidia.cdi.k8s.io/pod": "nvidia.com/gpu=0"}}
    assert rules({**SPEC, "hostPID": True}, metadata=metadata, cluster=ON) == ["GA611", "GA609"]


CRIO = (
    "{apiVersion: v1, kind: Node, metadata: {name: a}, status: {nodeInfo: {containerRuntimeVersion: cri-o://1.34.1}}}"
)
CONTAINERD = CRIO.replace("cri-o://1.34.1", "containerd://2.1.4")


@pytest.mark.parametrize(("cluster", "severity"), [(CRIO, "deny"), ("", "warn")], ids=["cri-o", "unknown"])
@pytest.mark.parametrize("value", ["nvidia.com/gpu=all", "example.com/nic=0,runtime.nvidia.com/gpu=0"])
def test_annotation_that_the_container_runtime_follows_is_reported(findings_of, cluster, severity, value):
    metadata = {"name": "p", "annotations": {"cdi.k8s.io/any": value}}
    assert findings_of(SPEC, metadata=metadata, cluster=cluster) == [
        (
            f'GA611 {severity} metadata.annotations[cdi.k8s.io/any]: names GPUs, "{value}", that NVIDIA\'s container '
            f"runtime, in mode cdi under CRI-O, injects without a request to the scheduler; {REMEDY}"
        )
    ]


@pytest.mark.parametrize("key", ["cdi.k8s.io/any", "cdi.k8s.io"])
def test_annotation_is_left_alone_if_no_node_runs_crio(rules, key):
    metadata = {"name": "p", "annotations": {key: "nvidia.com/gpu=all"}}
    assert rules(SPEC, metadata=metadata, cluster=CONTAINERD) == []


def test_annotation_that_names_other_devices_is_left_alone(rules):
    metadata = {"name": "p", "annotations": {"cdi.k8s.io/any": "example.com/nic=0"}}
    assert rules(SPEC, metadata=metadata, cluster=CRIO) == []
