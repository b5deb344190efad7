"""Requests for GPUs that a pod starts without excuse nothing."""

import pytest

from policies.rules.settings import Access, Conversion, GPUAdmissionPolicy

FAST = """
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: fast}
spec:
  extendedResourceName: acme.com/accelerator
  selectors: [{cel: {expression: device.driver == "gpu.nvidia.com"}}]
---
apiVersion: v1
kind: Node
metadata: {name: dra-node}
status: {allocatable: {cpu: "8"}}
---
apiVersion: v1
kind: Node
metadata: {name: plugin-node}
status: {allocatable: {cpu: "8", nvidia.com/gpu: "8"}}
"""
VISIBLE = {"env": [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]}
MOUNTED = {"volumeMounts": [{"name": "node", "mountPath": "/x"}]}
NODE, OTHER = {"nodeName": "dra-node"}, {"schedulerName": "other"}


def pod(resource="acme.com/accelerator", path="/dev/nvidia0", *, image="train", **spec):
    container = {"name": "main", "image": image, "resources": {"limits": {resource: "1"}}, **spec.pop("container", {})}
    return {"containers": [container], "volumes": [{"name": "node", "hostPath": {"path": path}}], **spec}


def severities(found):
    return [(each.rule.id, str(each.severity)) for each in found]


@pytest.mark.parametrize("way", [NODE, OTHER], ids=str)
@pytest.mark.parametrize("resource", ["acme.com/accelerator", "deviceclass.resource.kubernetes.io/fast"])
def test_variable_beside_a_lost_request_is_refused(found, resource, way):
    assert severities(found(pod(resource, container=VISIBLE, **way), cluster=FAST)) == [("GA601", "deny")]


def test_variable_beside_a_request_that_is_met_is_a_warning(found):
    assert severities(found(pod(container=VISIBLE), cluster=FAST)) == [("GA602", "warn")]


def test_text_says_which_field_loses_the_request(findings_of):
    assert findings_of(pod(container=VISIBLE, **NODE), cluster=FAST) == [
        (
            'GA601 deny spec.containers[0].env[0].value: NVIDIA_VISIBLE_DEVICES is "all" in container "main", which gets no '
            '"acme.com/accelerator" (spec.nodeName is set, so no scheduler makes a claim for it): NVIDIA\'s container runtime '
            "gives it every GPU of the node; remove spec.nodeName, or set NVIDIA_VISIBLE_DEVICES to void"
        )
    ]
    (text,) = findings_of(pod(container=MOUNTED, **OTHER), cluster=FAST)
    assert (
        'container "main" gets no "acme.com/accelerator" (the scheduler "other" is not in conversion.schedulers, so no '
        "claim for it is expected) and mounts /dev/nvidia0 of the node" in text
    )
    assert "remove spec.schedulerName, or remove the mount" in text


@pytest.mark.parametrize("way", [NODE, OTHER], ids=str)
@pytest.mark.parametrize("path", ["/dev/nvidia0", "/proc/driver/nvidia"])
def test_mount_beside_a_lost_request_is_refused(found, path, way):
    assert severities(found(pod(path=path, container=MOUNTED, **way), cluster=FAST)) == [("GA604", "deny")]


@pytest.mark.parametrize("way", [NODE, OTHER], ids=str)
def test_runtime_beside_a_lost_request_is_refused(found, findings_of, way):
    spec = pod(runtimeClassName="nvidia", **way)
    assert severities(found(spec, cluster=FAST)) == [("GA603", "deny")]
    (text,) = findings_of(spec, cluster=FAST)
    (field,) = way
    assert f"remove spec.{field} or runtimeClassName" in text


def test_old_image_beside_a_lost_request_is_reported(rules):
    old = {"env": [{"name": "CUDA_VERSION", "value": "8.0"}]}
    assert rules(pod(container=old), cluster=FAST) == []
    assert rules(pod(container=old, **NODE), cluster=FAST) == ["GA610"]
    assert rules(pod(image="nvcr.io/nvidia/cuda:12", **NODE), cluster=FAST) == ["GA608"]


@pytest.mark.parametrize(
    ("node", "expected"),
    [
        ("dra-node", [("GA603", "deny"), ("GA604", "deny")]),
        ("missing", [("GA604", "deny")]),
        ("plugin-node", [("GA604", "warn")]),
    ],
)
def test_node_that_the_pod_names_must_have_the_device_plugins_resource(found, node, expected):
    spec = pod("nvidia.com/gpu", container=MOUNTED, runtimeClassName="nvidia", nodeName=node)
    assert severities(found(spec, cluster=FAST)) == expected


def test_scheduler_of_the_settings_makes_claims(found):
    settings = GPUAdmissionPolicy(access=Access(mode="deny"), conversion=Conversion(schedulers=("other",)))
    spec = pod(container=VISIBLE, **OTHER)
    assert severities(found(spec, cluster=FAST, settings=settings)) == [("GA602", "warn")]
