"""Updates of pods that exist: annotations for CDI, and images."""

import copy

import pytest

from tests.findings import plain_text

NODES = """
apiVersion: v1
kind: Node
metadata: {name: node-1}
status: {nodeInfo: {containerRuntimeVersion: "cri-o://1.34.1"}}
---
apiVersion: nvidia.com/v1
kind: ClusterPolicy
metadata: {name: cluster-policy}
spec: {cdi: {enabled: true, nriPluginEnabled: true}}
"""
GPU = {"resources": {"limits": {"nvidia.com/gpu": "1"}}}
ALL = {"cdi.k8s.io/any": "nvidia.com/gpu=all"}
CUDA = "nvcr.io/nvidia/cuda:12"
TAKING = {
    "env": [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}, {"name": "CUDA_VERSION", "value": "8"}],
    "volumeMounts": [{"name": "node", "mountPath": "/x"}],
    "securityContext": {"privileged": True},
}
VOLUMES = [{"name": "node", "hostPath": {"path": "/dev/nvidia0"}}]


def pod(annotations=None, *, image="train", init="setup", container=None, **spec):
    containers = [{"name": "main", "image": image, **(container or {})}]
    spec = {"containers": containers, "initContainers": [{"name": "init", "image": init}], **spec}
    return {"metadata": {"name": "p", "annotations": annotations or {}}, "spec": spec}


@pytest.fixture
def changed(found):
    """`changed(before, after)`: rules and severities of the findings on an update."""

    def update(before, after, **options):
        fields = {"operation": "UPDATE", "old_object": before, "metadata": after["metadata"], "cluster": NODES}
        return [(each.rule.id, str(each.severity)) for each in found(after["spec"], **fields, **options)]

    return update


@pytest.mark.parametrize(
    "key", ["nvidia.cdi.k8s.io", "nvidia.cdi.k8s.io/pod", "nvidia.cdi.k8s.io/container.main", *ALL]
)
@pytest.mark.parametrize("container", [{}, GPU], ids=["without-request", "with-request"])
def test_annotation_that_names_gpus_is_refused_when_it_is_added(changed, key, container):
    names = {key: "nvidia.com/gpu=all"}
    assert changed(pod(container=container), pod(names, container=container)) == [("GA611", "deny")]
    assert changed(pod({key: "x"}, container=container), pod(names, container=container)) == [("GA611", "deny")]


def test_annotation_that_the_pod_had_is_not_reported(changed):
    assert changed(pod(ALL), pod(ALL | {"other": "value"})) == []
    assert changed(pod(ALL), pod(ALL, image="train:2")) == []


def test_removed_annotation_is_not_reported(changed):
    assert changed(pod(ALL | {"cdi.k8s.io/b": "nvidia.com/gpu=0"}), pod(ALL)) == []


def test_image_that_sets_visible_devices_is_audited(changed):
    assert changed(pod(), pod(image=CUDA)) == [("GA608", "audit")]
    assert changed(pod(), pod(init=CUDA)) == [("GA608", "audit")]
    assert changed(pod(container=GPU), pod(container=GPU, image=CUDA)) == []


def test_image_of_another_container_is_not_reviewed_again(changed):
    assert changed(pod(image=CUDA), pod(image=CUDA, init="other")) == []


def test_image_under_nvidias_runtime_is_refused(changed):
    runtime = {"runtimeClassName": "nvidia"}
    assert changed(pod(**runtime), pod(image="other", **runtime)) == [("GA603", "deny")]
    assert changed(pod(container=GPU, **runtime), pod(container=GPU, init="other", **runtime)) == [("GA603", "audit")]
    assert changed(pod(container=GPU, **runtime), pod(container=GPU, image="other", **runtime)) == []


def test_mounts_variables_and_privileges_that_the_pod_had_are_not_reported(changed):
    spec = {"container": TAKING, "volumes": VOLUMES, "hostPID": True}
    assert changed(pod(**spec), pod(image="other", **spec)) == []
    assert changed(pod(**spec), pod(ALL, **spec)) == [("GA611", "deny")]


def test_other_updates_are_not_reported(changed):
    spec = {"container": TAKING, "volumes": VOLUMES}
    before, after = pod(ALL, image=CUDA, **spec), pod(ALL, image=CUDA, activeDeadlineSeconds=5, **spec)
    assert changed(before, after) == []
    assert changed(before, copy.deepcopy(before)) == []


@pytest.mark.parametrize("subresource", ["status", "resize", "binding"])
def test_subresources_are_not_reviewed(changed, subresource):
    assert changed(pod(), pod(ALL), subresource=subresource) == []


def test_remedies_name_what_the_author_of_an_existing_pod_can_do(found):
    runtime = {"runtimeClassName": "nvidia"}
    before, after = pod(**runtime), pod(ALL, image=CUDA, **runtime)
    fields = {"operation": "UPDATE", "old_object": before, "metadata": after["metadata"], "cluster": NODES}
    findings = found(after["spec"], **fields)
    assert {each.rule.id for each in findings} == {"GA603", "GA608", "GA611"}
    assert all("keep what the pod has, or create another pod" in plain_text(each) for each in findings)
