"""Existing configuration is reviewed as if it were created today."""

from __future__ import annotations

import copy

import pytest

from policies.admission import review
from policies.analyses.audit import checks
from policies.rules.decision import Severity

BROKEN = {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu.nvidia.com", "count": 0}}]}}
GOOD = {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu.nvidia.com", "count": 1}}]}}


def findings_of(report):
    return [(each.rule.id, each.kind, each.name, each.count) for each in report.findings]


def cluster_policy(k8s, name="cluster-policy", created="2026-01-01T00:00:00Z", **spec):
    driver = {"repository": "nvcr.io/nvidia", "image": "driver", "version": "580.95.05"}
    policy = k8s.thing("ClusterPolicy", name, version="nvidia.com/v1", spec={"driver": driver, **spec})
    policy["metadata"]["creationTimestamp"] = created
    return policy


def claim(k8s, name="gpus", spec=BROKEN, namespace="team-a", **fields):
    return k8s.thing("ResourceClaim", name, namespace, "resource.k8s.io/v1", spec=copy.deepcopy(spec), **fields)


def test_configuration_that_would_be_refused_is_reported(k8s, audited):
    report = audited(cluster_policy(k8s, dcgmExporter={"enabled": "yes"}))
    (finding,) = (each for each in report.findings if str(each.path) == "spec.dcgmExporter.enabled")
    assert (finding.severity, finding.kind, finding.namespace) == (Severity.DENY, "ClusterPolicy", "")
    assert finding.name == "cluster-policy"
    assert report.has_denials


def test_only_the_younger_of_two_cluster_policies_is_one_too_many(k8s, audited):
    younger = cluster_policy(k8s, "a-second", "2026-05-01T00:00:00Z")
    findings = [each for each in audited(younger, cluster_policy(k8s)).findings if each.rule.id == "GA105"]
    assert [(each.name, each.severity) for each in findings] == [("a-second", Severity.WARN)]
    assert findings[0].message.endswith('the operator follows the older "cluster-policy"')


def test_node_labels_are_reviewed_and_reported_once_for_many_nodes(k8s, audited):
    labels = {"nvidia.com/gpu.workload.config": "passthrough"}
    nodes = [k8s.thing("Node", f"node-{number}", labels=labels) for number in range(30)]
    assert findings_of(audited(*nodes)) == [("GA157", "Node", "node-0", 30)]


def test_claims_are_reviewed_without_the_status_that_kubernetes_wrote(k8s, audited):
    assert audited(k8s.namespace(), claim(k8s, spec=GOOD, status={"reservedFor": []})).findings == ()


def test_claims_of_one_template_are_reviewed_once_and_all_counted(k8s, audited, monkeypatch):
    claims = [claim(k8s, f"pod-{number}-gpu") for number in range(50)]
    reviewed = []
    monkeypatch.setattr(checks, "review", lambda request, *facts: reviewed.append(request) or review(request, *facts))
    findings = audited(k8s.namespace(), *claims).findings
    assert {(each.name, each.count) for each in findings} == {("pod-0-gpu", 50)}
    assert [request.name for request in reviewed if request.kind == "ResourceClaim"] == ["pod-0-gpu"]


def test_pods_that_hold_claims_are_named(k8s, audited):
    held = [{"resource": "pods", "name": "train-1", "uid": "1"}, {"resource": "pods", "name": "train-0", "uid": "0"}]
    claims = [claim(k8s, "a", status={"reservedFor": held}), claim(k8s, "b", status={"reservedFor": held[:1]})]
    assert {each.owners for each in audited(k8s.namespace(), *claims).findings} == {("Pod train-0", "Pod train-1")}


def test_templates_of_our_own_are_not_reviewed(k8s, audited, converted):
    _, template = converted(k8s.pod(node=""))
    assert audited(k8s.namespace(), template).findings == ()


def test_template_that_gpu_admission_did_not_make_is_reviewed(k8s, audited):
    template = k8s.thing("ResourceClaimTemplate", "t", "team-a", "resource.k8s.io/v1", spec={"spec": BROKEN})
    assert {each.kind for each in audited(k8s.namespace(), template).findings} == {"ResourceClaimTemplate"}


def test_what_is_being_deleted_is_not_reviewed(k8s, audited):
    going = claim(k8s)
    going["metadata"]["deletionTimestamp"] = "2026-11-01T00:00:00Z"
    assert audited(k8s.namespace(), going).findings == ()


def test_object_for_which_no_webhook_is_called_is_not_reviewed(k8s, audited):
    assert audited(k8s.namespace("kube-system", ""), claim(k8s, namespace="kube-system")).findings == ()


@pytest.mark.parametrize("namespace", ["team-a", "team-b"])
def test_one_namespace_is_audited_alone(k8s, audited, namespace):
    objects = [
        k8s.thing("Node", "node-1", labels={"nvidia.com/gpu.workload.config": "passthrough"}),
        *(k8s.namespace(name) for name in ("team-a", "team-b")),
        *(claim(k8s, namespace=name) for name in ("team-a", "team-b")),
        *(k8s.pod(namespace=name) for name in ("team-a", "team-b")),
        *(k8s.quota(namespace=name) for name in ("team-a", "team-b")),
    ]
    report = audited(*objects, namespace=namespace)
    assert {each.namespace for each in report.findings} == {namespace}
    assert {each.kind for each in report.findings} == {"Pod", "ResourceClaim", "ResourceQuota"}
    assert [row.namespace for row in report.readiness] == [namespace]


def test_mistake_of_a_named_config_map_is_reported_once_at_the_config_map(k8s, audited):
    wrong = {"any": "sharing: {timeSlicing: {resources: [{name: nvidia.com/gpu, replicas: 1}]}}"}
    plugin = {"config": {"name": "time-slicing", "default": "any"}}
    report = audited(
        k8s.thing("ConfigMap", "time-slicing", "gpu-operator", data=wrong), cluster_policy(k8s, devicePlugin=plugin)
    )
    assert [(each.kind, each.name) for each in report.findings if each.rule.id == "GA132"] == [
        ("ConfigMap", "time-slicing")
    ]
