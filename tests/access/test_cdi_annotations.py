"""Annotations that NVIDIA's NRI plugin follows."""

import pytest

SPEC = {"containers": [{"name": "train", "image": "ubuntu"}]}
ON, OFF = (
    f"{{apiVersion: nvidia.com/v1, kind: ClusterPolicy, metadata: {{name: c}}, spec: {{cdi: {{nriPluginEnabled: {on}}}}}}}"
    for on in ("true", "false")
)
NONE = "{apiVersion: nvidia.com/v1, kind: ClusterPolicyList, items: []}"
REMEDY = (
    "ask for nvidia.com/gpu: 1 in resources.limits, and remove the annotation; "
    "exempt monitoring agents in access.exemptServiceAccounts or access.exemptNamespaces"
)


@pytest.mark.parametrize(
    ("cluster", "severity"), [(ON, "deny"), ("", "warn"), (NONE, "warn")], ids=["on", "unknown", "no policy"]
)
def test_annotation_that_the_plugin_follows_is_told(told, cluster, severity):
    metadata = {"name": "p", "annotations": {"nvidia.cdi.k8s.io/container.train": "nvidia.com/gpu=all"}}
    assert told(SPEC, metadata=metadata, cluster=cluster) == [
        (
            f"GA611 {severity} metadata.annotations[nvidia.cdi.k8s.io/container.train]: names GPUs, "
            f'"nvidia.com/gpu=all", that NVIDIA\'s NRI plugin injects without asking the scheduler; {REMEDY}'
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
        ("cdi.k8s.io/pod", "nvidia.com/gpu=0", []),
        ("x.nvidia.cdi.k8s.io/pod", "nvidia.com/gpu=0", []),
        ("nvidia.com/gpu", "1", []),
    ],
)
def test_annotation_is_known_by_key_and_device(rules, key, value, expected):
    assert rules(SPEC, metadata={"name": "p", "annotations": {key: value}}, cluster=ON) == expected


def test_privileges_add_to_it(rules):
    metadata = {"name": "p", "annotations": {"nvidia.cdi.k8s.io/pod": "nvidia.com/gpu=0"}}
    assert rules({**SPEC, "hostPID": True}, metadata=metadata, cluster=ON) == ["GA611", "GA609"]
