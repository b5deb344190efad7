"""What a pod of a manifest becomes."""

from __future__ import annotations

from policies.admission import review
from policies.analyses.migrate.objects import migrate_pod, opted_in_view
from policies.kubernetes.names import MANAGED, RECORD
from policies.rules.request import Request
from policies.rules.settings import DEFAULTS, AlignedNIC, Conversion, GPUAdmissionPolicy
from webhook.cluster.manifests import ManifestsView


def pod(limits=None, metadata=None, **spec):
    container = {"name": "train", "resources": {"limits": limits or {"nvidia.com/gpu": 1}}}
    document = {"apiVersion": "v1", "kind": "Pod", "spec": {"containers": [container], **spec}}
    return {**document, "metadata": {"name": "a", **(metadata or {})}}


def migrate(document, cluster=()):
    return migrate_pod(document, "team", ManifestsView(cluster), DEFAULTS)


def test_migrated_pod_refers_to_the_named_template():
    migrated = migrate(pod())
    assert migrated.with_template("a-gpu") == {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "a"},
        "spec": {
            "containers": [{"name": "train", "resources": {"claims": [{"name": "gpu", "request": "train"}]}}],
            "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "a-gpu"}],
            "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}],
        },
    }
    exactly = {"deviceClassName": "gpu.nvidia.com", "allocationMode": "ExactCount", "count": 1}
    assert migrated.claim_spec == {"devices": {"requests": [{"name": "train", "exactly": exactly}]}}


def test_migrated_pod_has_no_marks_and_no_wishes():
    document = pod(metadata={"annotations": {"gpu-admission.io/product": "H100*", "team": "x"}, "labels": {}})
    migrated = migrate(document).pod
    assert migrated["metadata"] == {"name": "a", "annotations": {"team": "x"}, "labels": {}}
    assert MANAGED not in str(migrated)
    assert RECORD not in str(migrated)


def test_migrated_pod_has_the_network_devices_that_it_wishes():
    classes = [
        {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": name}, "spec": {}}
        for name in ("gpu.nvidia.com", "rdma-nic")
    ]
    settings = GPUAdmissionPolicy(conversion=Conversion(nic=AlignedNIC("rdma-nic")))
    document = pod(metadata={"annotations": {"gpu-admission.io/nic": "aligned"}})
    migrated = migrate_pod(document, "team", ManifestsView(classes), settings)
    assert migrated.pod["spec"]["containers"][0]["resources"]["claims"] == [
        {"name": "gpu", "request": "train"},
        {"name": "gpu", "request": "train-nic"},
    ]
    devices = migrated.claim_spec["devices"]
    assert [each["exactly"]["deviceClassName"] for each in devices["requests"]] == ["gpu.nvidia.com", "rdma-nic"]
    assert devices["constraints"] == [
        {"requests": ["train", "train-nic"], "matchAttribute": "resource.kubernetes.io/pcieRoot"}
    ]


def test_other_limits_are_not_copied_to_requests():
    migrated = migrate(pod({"nvidia.com/gpu": 1, "memory": "1Gi"})).pod
    assert migrated["spec"]["containers"][0]["resources"] == {
        "limits": {"memory": "1Gi"},
        "claims": [{"name": "gpu", "request": "train"}],
    }


def test_pod_without_gpus_is_not_left():
    migrated = migrate(pod({"cpu": 1}))
    assert (migrated.pod, migrated.is_left) == (None, False)


def test_pod_that_cannot_be_converted_is_left_with_the_finding():
    migrated = migrate(pod(nodeSelector={"nvidia.com/gpu.count": "8"}))
    assert migrated.is_left
    assert [str(each.rule) for each in migrated.findings] == ["GA307"]


def test_pod_with_a_node_is_left():
    assert migrate(pod(nodeName="n")).reason == (
        "it does not pass the scheduler, which allocates claims; remove spec.nodeName, or keep the device plugin"
    )


def test_pod_of_an_exempt_namespace_is_left():
    migrated = migrate_pod(pod(), "gpu-operator", ManifestsView(), DEFAULTS)
    assert migrated.reason == (
        'pods of the namespace "gpu-operator" are never converted, because configuration.operatorNamespaces names it'
    )


def test_pod_whose_gpus_come_from_a_limit_range_is_left():
    spec = {"limits": [{"type": "Container", "default": {"nvidia.com/gpu": 1}}]}
    limit_range = {"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "l", "namespace": "team"}}
    document = pod()
    document["spec"]["containers"].append({"name": "helper"})
    migrated = migrate(document, [{**limit_range, "spec": spec}])
    assert migrated.reason == (
        "a LimitRange of its namespace adds GPUs to it; write the GPUs of every container into the manifest"
    )


def test_converted_pod_is_left():
    view = opted_in_view(ManifestsView(), "team")
    document = pod({"nvidia.com/gpu": "1"})
    document["spec"]["containers"][0]["resources"]["requests"] = {"nvidia.com/gpu": "1"}
    converted = review(Request(document, namespace="team"), view, DEFAULTS).object
    assert RECORD in converted["metadata"]["annotations"]
    assert migrate(converted).reason == (
        "the webhook converted it already; migrate the manifest that it was created from"
    )
