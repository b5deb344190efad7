"""Existing pods: escaped from conversion, using GPUs without a request, waiting for a missing template."""

from __future__ import annotations

import copy

import pytest

from policies.rules.decision import Severity
from policies.rules.settings import parse_settings

ESCAPED = (
    "requests GPUs from the device plugin in a namespace that converts: the pod is older than the opt-in, was created "
    "while the webhook was down, or was created by an exempt user"
)
AGAIN = "create it again (kubectl rollout restart, if a workload creates it)"


def findings_of(report):
    return [(each.rule.id, str(each.severity), each.kind, each.name, each.count) for each in report.findings]


def settings(**spec):
    policy = {"apiVersion": "gpu-admission.io/v1alpha1", "kind": "GPUAdmissionPolicy", "metadata": {"name": "default"}}
    return parse_settings({**policy, "spec": spec})


def test_pod_that_escaped_is_reported_in_full(k8s, audited):
    (finding,) = audited(k8s.namespace(), k8s.pod()).findings
    assert (finding.rule.id, finding.severity, finding.kind) == ("GA321", Severity.DENY, "Pod")
    assert (finding.namespace, finding.name, str(finding.path)) == ("team-a", "train", "spec.containers")
    assert (finding.message, finding.remedy) == (ESCAPED, AGAIN)


def test_pods_of_one_replica_set_are_one_finding(k8s, audited):
    owners = k8s.owner("ReplicaSet", "train-5d8f")
    pods = [k8s.pod(f"train-5d8f-{number:03}", owners=owners, node=f"node-{number}") for number in range(40)]
    (finding,) = audited(k8s.namespace(), *pods).findings
    assert (finding.name, finding.count, finding.owners) == ("train-5d8f-000", 40, ("ReplicaSet train-5d8f",))


def test_equal_findings_on_pods_of_several_owners_are_one(k8s, audited):
    pods = [
        k8s.pod(f"p-{name}", owners=k8s.owner("ReplicaSet", name), gpus=gpus) for name, gpus in (("b", 1), ("a", 2))
    ]
    (finding,) = audited(k8s.namespace(), *pods).findings
    assert (finding.name, finding.count, finding.owners) == ("p-a", 2, ("ReplicaSet a", "ReplicaSet b"))


@pytest.mark.parametrize("mode", ["", "preview", "disabled"])
def test_pod_escapes_nothing_where_the_namespace_does_not_convert(k8s, audited, mode):
    assert audited(k8s.namespace(mode=mode), k8s.pod()).findings == ()


def test_severity_of_an_escaped_pod_is_that_of_its_rule(k8s, audited):
    chosen = settings(rules=[{"rule": "GA321", "severity": "audit"}])
    assert findings_of(audited(k8s.namespace(), k8s.pod(), settings=chosen)) == [("GA321", "audit", "Pod", "train", 1)]


def test_pod_that_would_be_refused_is_reported_with_the_reason(k8s, audited):
    report = audited(k8s.namespace(), k8s.pod(nodeSelector={"nvidia.com/gpu.count": "8"}))
    assert findings_of(report) == [("GA307", "deny", "Pod", "train", 1)]
    assert str(report.findings[0].path) == "spec.nodeSelector[nvidia.com/gpu.count]"


def test_unconverted_pod_is_reported_with_the_webhooks_reason(k8s, audited):
    report = audited(k8s.namespace(), k8s.pod(labels={"gpu-admission.io/dra": "disabled"}))
    assert findings_of(report) == [("GA317", "warn", "Pod", "train", 1)]
    assert report.findings[0].message == 'is "disabled", so the pod is not converted'


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_pod_that_ended_is_nothing_to_audit(k8s, audited, phase):
    pod = k8s.pod() | {"status": {"phase": phase}}
    assert audited(k8s.namespace(), pod).findings == ()


def test_conversion_of_a_pod_that_is_being_deleted_is_nothing_to_audit(k8s, audited):
    pod = k8s.pod()
    pod["metadata"]["deletionTimestamp"] = "2026-11-01T00:00:00Z"
    assert audited(k8s.namespace(), pod).findings == ()


def test_pods_that_use_gpus_without_a_request_are_reported_until_they_end(k8s, audited):
    pods = [k8s.pod(f"train-{number}", gpus=0) for number in range(3)]
    for number, pod in enumerate(pods):
        pod["spec"]["containers"][0]["env"] = [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]
        pod["metadata"] |= {"deletionTimestamp": f"2027-11-01T00:00:0{number}Z", "finalizers": ["example.com/keep"]}
    waiting = k8s.pod("waits", gpus=0, node="")
    waiting["spec"]["containers"] = pods[0]["spec"]["containers"]
    waiting["metadata"]["deletionTimestamp"] = "2027-11-01T00:00:00Z"
    ended = {**pods[0], "metadata": {**pods[0]["metadata"], "name": "ended"}, "status": {"phase": "Failed"}}
    report = audited(k8s.namespace(mode=""), *pods, waiting, ended)
    assert findings_of(report) == [("GA601", "warn", "Pod", "train-0", 3)]


def test_pod_without_gpus_is_nothing_to_audit(k8s, audited):
    assert audited(k8s.namespace(), k8s.pod(gpus=0)).findings == ()


def test_pods_of_kube_system_are_never_converted(k8s, audited):
    findings = audited(k8s.namespace("kube-system"), k8s.pod(namespace="kube-system")).findings
    assert [(each.rule.id, each.kind) for each in findings] == [("GA704", "Namespace")]


def test_converted_pod_with_its_template_is_as_it_should_be(k8s, audited, converted):
    pod, template = converted(k8s.pod(node=""))
    assert audited(k8s.namespace(), pod, template).findings == ()


def test_converted_pod_that_still_asks_is_reported(k8s, audited, converted):
    pod, template = converted(k8s.pod(node=""))
    pod = copy.deepcopy(pod)
    pod["spec"]["containers"][0]["resources"]["limits"] = {"nvidia.com/gpu": "1"}
    assert findings_of(audited(k8s.namespace(), pod, template)) == [("GA320", "deny", "Pod", "train", 1)]


def test_converted_pod_that_waits_for_a_lost_template_is_reported(k8s, audited, converted):
    pod, template = converted(k8s.pod(node=""))
    (finding,) = audited(k8s.namespace(), pod).findings
    assert (finding.rule.id, finding.severity, finding.name) == ("template-missing", Severity.DENY, "train")
    name = template["metadata"]["name"]
    assert finding.message == f'refer to ResourceClaimTemplate "{name}", which does not exist'
    assert (
        finding.remedy
        == "wait for the leader, which creates it again every few minutes; if it does not, its log says why"
    )


def test_template_that_cannot_be_made_again_needs_another_remedy(k8s, audited, converted):
    pod, _ = converted(k8s.pod(node=""))
    del pod["metadata"]["annotations"]
    (finding,) = audited(k8s.namespace(), pod).findings
    text = "create the pod again: its request cannot be recovered, or its namespace no longer converts"
    assert (finding.rule.id, finding.remedy) == ("template-missing", text)


def test_only_pods_that_wait_are_counted_for_a_lost_template(k8s, audited, converted):
    pod, _ = converted(k8s.pod(node=""))
    pods = []
    for number in range(5):
        replica = copy.deepcopy(pod)
        replica["metadata"]["name"] = f"train-{number}"
        if number < 2:
            replica["spec"]["nodeName"] = "node-1"
        pods.append(replica)
    assert findings_of(audited(k8s.namespace(), *pods)) == [("template-missing", "deny", "Pod", "train-2", 3)]


def test_pod_that_runs_has_its_claim_and_needs_no_template(k8s, audited, converted):
    pod, _ = converted(k8s.pod(node=""))
    pod["spec"]["nodeName"] = "node-1"
    assert audited(k8s.namespace(), pod).findings == ()


def test_pod_that_takes_gpus_without_asking_is_reported_in_any_namespace(k8s, audited):
    pod = k8s.pod(gpus=0)
    pod["spec"]["containers"][0]["env"] = [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]
    report = audited(k8s.namespace(mode=""), pod)
    assert [(rule, kind, name) for rule, _, kind, name, _ in findings_of(report)] == [("GA601", "Pod", "train")]


def test_ephemeral_container_that_takes_gpus_is_reported(k8s, audited):
    debugged, alike = k8s.pod("debugged", gpus=0), k8s.pod("alike", gpus=0)
    variable = {"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}
    debugged["spec"]["ephemeralContainers"] = [{"name": "debug", "image": "debug", "env": [variable]}]
    (finding,) = audited(k8s.namespace(mode=""), alike, debugged).findings
    assert (finding.rule.id, finding.name, finding.count) == ("GA601", "debugged", 1)
    assert str(finding.path).startswith("spec.ephemeralContainers[0].env[0]")


def test_host_path_named_like_a_token_volume_is_reported(k8s, audited):
    pods = [k8s.pod(name, gpus=0) for name in ("a", "b")]
    token = {"projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]}}
    for pod, source in zip(pods, (token, {"hostPath": {"path": "/dev/nvidia0"}}), strict=True):
        pod["spec"]["volumes"] = [{"name": "kube-api-access-x7b2p", **source}]
        pod["spec"]["containers"][0]["volumeMounts"] = [{"name": "kube-api-access-x7b2p", "mountPath": "/x"}]
    assert findings_of(audited(k8s.namespace(mode=""), *pods)) == [("GA604", "warn", "Pod", "b", 1)]


@pytest.mark.parametrize("key", ["nvidia.cdi.k8s.io", "nvidia.cdi.k8s.io/pod"])
def test_annotation_that_names_gpus_is_reported(k8s, audited, key):
    pods = [k8s.pod("a", gpus=0), k8s.pod("b", gpus=0, annotations={key: "nvidia.com/gpu=all"})]
    assert findings_of(audited(k8s.namespace(mode=""), *pods)) == [("GA611", "warn", "Pod", "b", 1)]


def running(k8s, name, *, node="node-1", claimed=False, **fields):
    """A pod on a node that requests the extended resource of a DeviceClass and sees every GPU."""
    pod = k8s.pod(name, resource="acme.com/accelerator", node=node, **fields)
    pod["spec"]["containers"][0]["env"] = [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]
    if claimed:
        mappings = [{"containerName": "main", "resourceName": "acme.com/accelerator", "requestName": "r"}]
        pod["status"]["extendedResourceClaimStatus"] = {"resourceClaimName": name, "requestMappings": mappings}
    return pod


def test_pod_that_named_its_node_and_has_no_claim_is_told_apart_from_scheduled_ones(k8s, audited):
    fast = k8s.device_class("fast", extendedResourceName="acme.com/accelerator")
    pods = [*(running(k8s, f"ok-{number}", claimed=True) for number in range(3)), running(k8s, "named")]
    report = audited(k8s.namespace(mode=""), fast, *pods, settings=settings(access={"mode": "deny"}))
    assert findings_of(report) == [("GA601", "deny", "Pod", "named", 1), ("GA602", "warn", "Pod", "ok-0", 3)]


def test_pod_of_another_scheduler_that_made_its_claim_is_no_pod_without_one(k8s, audited):
    fast = k8s.device_class("fast", extendedResourceName="acme.com/accelerator")
    pods = [running(k8s, "claimed", claimed=True, schedulerName="x"), running(k8s, "waits", node="", schedulerName="x")]
    report = audited(k8s.namespace(mode=""), fast, *pods, settings=settings(access={"mode": "deny"}))
    assert findings_of(report) == [("GA601", "deny", "Pod", "waits", 1), ("GA602", "warn", "Pod", "claimed", 1)]
