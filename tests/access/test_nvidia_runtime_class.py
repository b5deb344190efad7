"""RuntimeClasses of NVIDIA's container runtime in pods without a GPU request."""

import pytest

TAIL = (
    "NVIDIA's container runtime, and no container requests a GPU: an image that sets NVIDIA_VISIBLE_DEVICES, as CUDA "
    "images do, gets every GPU of the node; request nvidia.com/gpu: 1 in resources.limits, remove runtimeClassName, or "
    "set NVIDIA_VISIBLE_DEVICES to void in every container"
)
VOID = {"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"}


def pod(runtime, *containers):
    return {"runtimeClassName": runtime, "containers": list(containers) or [{"name": "a", "image": "ubuntu"}]}


def runtime_class(name, handler):
    return f"{{apiVersion: node.k8s.io/v1, kind: RuntimeClass, metadata: {{name: {name}}}, handler: {handler}}}"


@pytest.mark.parametrize("name", ["nvidia", "nvidia-cdi", "nvidia-legacy", "nvidia-experimental"])
def test_runtime_of_nvidia_without_a_request_is_reported(findings_of, name):
    assert findings_of(pod(name)) == [f'GA603 deny spec.runtimeClassName: is "{name}", {TAIL}']


@pytest.mark.parametrize("name", ["runc", "kata-nvidia-gpu", "gvisor", "", None, 1, "Nvidia"])
def test_another_runtime_is_nothing(rules, name):
    assert rules(pod(name)) == []


def test_runtime_is_known_by_the_handler_of_its_class(findings_of):
    assert findings_of(pod("fast"), cluster=runtime_class("fast", "nvidia")) == [
        f'GA603 deny spec.runtimeClassName: is "fast" with the handler "nvidia", {TAIL}'
    ]


def test_class_called_nvidia_with_another_handler_is_nothing(rules):
    assert rules(pod("nvidia"), cluster=runtime_class("nvidia", "runc")) == []


def test_class_that_does_not_exist_is_known_by_its_name(rules):
    assert rules(pod("nvidia"), cluster=runtime_class("other", "runc")) == ["GA603"]


def test_runtime_that_the_cluster_policy_names_is_reported(rules):
    policy = """
    apiVersion: nvidia.com/v1
    kind: ClusterPolicy
    metadata: {name: cluster-policy}
    spec: {operator: {runtimeClass: our-nvidia}}"""
    assert rules(pod("our-nvidia")) == []
    assert rules(pod("our-nvidia"), cluster=policy) == ["GA603"]


@pytest.mark.parametrize("field", ["containers", "initContainers"])
def test_container_beside_one_with_a_request_is_audited(findings_of, field):
    """Most are sidecars; but the image of any of them can set NVIDIA_VISIBLE_DEVICES."""
    spec = pod("nvidia", {"name": "a"}, {"name": "c", "env": [VOID]})
    spec.setdefault(field, []).append({"name": "b", "resources": {"limits": {"nvidia.com/gpu": 1}}})
    assert findings_of(spec) == [
        (
            'GA603 audit spec.runtimeClassName: is "nvidia", NVIDIA\'s container runtime, also for container "a", which '
            "requests no GPU: if its image sets NVIDIA_VISIBLE_DEVICES, as CUDA images do, it gets every GPU of the "
            'node; set NVIDIA_VISIBLE_DEVICES to void in container "a"'
        )
    ]


def test_runtime_is_nothing_where_every_container_wants_no_gpu(rules):
    assert rules(pod("nvidia", {"name": "a", "env": [VOID]}, {"name": "b", "env": [VOID]})) == []


@pytest.mark.parametrize(("value", "expected"), [("all, void", []), (" none", []), (" all", ["GA601", "GA603"])])
def test_runtime_reads_lists_as_the_container_runtime_does(rules, value, expected):
    env = [{"name": "NVIDIA_VISIBLE_DEVICES", "value": value}]
    assert rules(pod("nvidia", {"name": "a", "env": env})) == expected


def test_runtime_is_reported_where_a_container_has_a_value_that_is_not_known(rules):
    env = [{"name": "NVIDIA_VISIBLE_DEVICES", "valueFrom": {"configMapKeyRef": {"name": "c", "key": "k"}}}]
    assert rules(pod("nvidia", {"name": "a", "env": env})) == ["GA601", "GA603"]


def test_runtime_is_reported_where_one_container_leaves_it_to_its_image(rules):
    assert rules(pod("nvidia", {"name": "a", "env": [VOID]}, {"name": "b"})) == ["GA603"]


def test_container_whose_class_is_missing_is_audited(findings_of):
    """Its class may turn out to give no GPU, and then its image alone says what it gets."""
    channel = "deviceclass.resource.kubernetes.io/channel.example.com"
    resources = {"limits": {"nvidia.com/gpu": 1}}
    assert findings_of(
        pod("nvidia", {"name": "a", "resources": {"limits": {channel: 1}}}, {"name": "b", "resources": resources})
    ) == [
        (
            'GA603 audit spec.runtimeClassName: is "nvidia", NVIDIA\'s container runtime, also for container "a", whose '
            'request cannot be judged because DeviceClass "channel.example.com" is missing or cannot be seen: if its image '
            "sets NVIDIA_VISIBLE_DEVICES, as CUDA images do, it gets every GPU of the node; set NVIDIA_VISIBLE_DEVICES to "
            'void in container "a"'
        )
    ]
