"""One ClusterPolicy per cluster, and components that must not be removed under running pods."""

import json

import pytest

from policies.rules.decision import Severity
from policies.rules.request import UserInfo
from policies.rules.settings import Configuration, GPUAdmissionPolicy
from tests.findings import plain_text

POLICY = """
apiVersion: nvidia.com/v1
kind: ClusterPolicy
metadata: {name: cluster-policy, creationTimestamp: "2026-01-05T09:00:00Z"}
"""
POD = """
apiVersion: v1
kind: Pod
metadata: {{name: {name}, namespace: team-a}}
spec:
  nodeName: gpu-1
  containers:
  - name: main
    resources: {{limits: {{"{resource}": "1"}}}}
"""
DELETED = f"# operation: DELETE{POLICY}"


def texts(findings, rule):
    return [plain_text(finding) for finding in findings if finding.rule.id == rule]


def test_second_cluster_policy_is_warned_about(examined):
    found = examined(POLICY.replace("name: cluster-policy", "name: mine") + "---" + POLICY)
    assert [one.severity for one in found if one.rule.id == "GA105"] == [Severity.WARN]
    assert texts(found, "GA105") == [
        (
            'metadata.name: "mine" would be ignored, because the operator follows the older "cluster-policy"; '
            "change the existing one, or delete it first"
        )
    ]


def test_mistakes_in_a_cluster_policy_that_is_ignored_are_warnings(examined):
    spec = "spec: {driver: {livenessProbe: {periodSeconds: 1}, kernelModuleType: openn}}\n"
    found = examined(POLICY.replace("name: cluster-policy", "name: mine") + spec + "---" + POLICY)
    severities = {one.rule.id: one.severity for one in found}
    assert severities["GA124"] is Severity.WARN
    assert severities["GA101"] is Severity.DENY
    (ignored,) = [one for one in found if one.rule.id == "GA124"]
    assert ignored.message.endswith('; the operator follows the ClusterPolicy "cluster-policy" and ignores this one')


def test_update_of_the_only_cluster_policy_passes(examined):
    assert texts(examined(f"{POLICY}--- # before{POLICY}---{POLICY}"), "GA105") == []


def test_cluster_policy_beside_a_gpu_cluster_is_refused(examined):
    cluster = "apiVersion: nvidia.com/v1alpha1\nkind: GPUCluster\nmetadata: {name: gpu-cluster}\n"
    assert texts(examined(f"{POLICY}---\n{cluster}"), "GA105") == [
        (
            'metadata.name: "cluster-policy" and the GPUCluster "gpu-cluster" exclude each '
            'other; the operator would report: conflicting GPUCluster resource "gpu-cluster" '
            "detected; ClusterPolicy and GPUCluster cannot co-exist; delete the GPUCluster "
            '"gpu-cluster" first, or keep it'
        )
    ]


@pytest.mark.parametrize("name", ["cluster-policy", "gpu-cluster-policy"])
def test_usual_names_pass(examined, name):
    assert texts(examined(POLICY.replace("name: cluster-policy", f"name: {name}")), "GA105") == []


def test_other_names_are_only_audited(examined):
    (found,) = [one for one in examined(POLICY.replace("name: cluster-policy", "name: mine")) if one.rule.id == "GA105"]
    assert found.severity is Severity.AUDIT
    assert found.message == (
        '"mine" is allowed, but documentation and scripts patch clusterpolicies.nvidia.com/cluster-policy'
    )


@pytest.mark.parametrize("resource", ["nvidia.com/gpu", "nvidia.com/mig-1g.10gb", "nvidia.com/gpu.shared"])
def test_deletion_while_pods_hold_gpus_warns(examined, resource):
    (found,) = examined(f"{DELETED}---{POD.format(name='training', resource=resource)}")
    assert found.severity is Severity.WARN
    assert plain_text(found) == (
        'metadata.name: "cluster-policy" is deleted while GPUs are held by the pod '
        '"team-a/training"; this removes the driver under them; end these pods first, or '
        'annotate the ClusterPolicy with gpu-admission.io/allow-deletion: "true"'
    )


def test_deletion_is_refused_when_the_administrator_says_so(examined):
    settings = GPUAdmissionPolicy(configuration=Configuration(cluster_policy_deletion="deny"))
    (found,) = examined(f"{DELETED}---{POD.format(name='a', resource='nvidia.com/gpu')}", settings=settings)
    assert found.severity is Severity.DENY


def test_garbage_collection_is_never_refused(examined):
    settings = GPUAdmissionPolicy(configuration=Configuration(cluster_policy_deletion="deny"))
    user = UserInfo("system:serviceaccount:kube-system:generic-garbage-collector")
    text = f"{DELETED}---{POD.format(name='a', resource='nvidia.com/gpu')}"
    (found,) = examined(text, settings=settings, user=user)
    assert found.severity is Severity.WARN


def test_deletion_names_three_pods_and_counts_the_rest(examined):
    pods = "---".join(POD.format(name=f"p-{number}", resource="nvidia.com/gpu") for number in range(5))
    (found,) = examined(f"{DELETED}---{pods}")
    assert '5 pods ("team-a/p-0", "team-a/p-1", "team-a/p-2" and 2 more)' in found.message


def test_deletion_counts_claims_too(examined):
    claim = """
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: training-gpu, namespace: team-a}
status:
  reservedFor: [{resource: pods, name: training, uid: "1"}]
  allocation: {devices: {results: [{driver: gpu.nvidia.com, pool: gpu-1, device: gpu-0, request: gpu}]}}
"""
    (found,) = examined(f"{DELETED}---{claim}")
    assert 'held by the claim "team-a/training-gpu"' in found.message


@pytest.mark.parametrize(
    "change",
    [
        ("nodeName: gpu-1", "schedulerName: default-scheduler"),
        ("nvidia.com/gpu", "cpu"),
        ('"1"', '"0"'),
        ("spec:", "status: {phase: Succeeded}\nspec:"),
    ],
)
def test_deletion_passes_when_no_pod_holds_a_gpu(examined, change):
    assert examined(f"{DELETED}---{POD.format(name='a', resource='nvidia.com/gpu').replace(*change)}") == ()


def test_deletion_passes_when_annotated(examined):
    annotated = DELETED.replace("{name", '{annotations: {gpu-admission.io/allow-deletion: "true"}, name')
    assert examined(f"{annotated}---{POD.format(name='a', resource='nvidia.com/gpu')}") == ()


def test_deletion_of_an_ignored_cluster_policy_passes(examined):
    ignored = DELETED.replace("name: cluster-policy", "name: second").replace("2026-01-05", "2026-02-05")
    assert examined(f"{ignored}---{POLICY}---{POD.format(name='a', resource='nvidia.com/gpu')}") == ()


def test_deletion_passes_when_pods_are_unknown(examined):
    assert examined(DELETED) == ()


def switched(field, before, after, facts=""):
    update = POLICY + f"spec: {{driver: {{{field}: {after}}}}}\n--- # before" + POLICY
    return update + f"spec: {{driver: {{{field}: {before}}}}}\n" + facts


NODES = "---\n".join(
    f'\napiVersion: v1\nkind: Node\nmetadata: {{name: gpu-{number}, labels: {{nvidia.com/gpu.deploy.driver: "true"}}}}\n'
    for number in (1, 2)
)


def test_driver_switched_off_names_its_nodes(examined):
    assert texts(examined(switched("enabled", "true", "false", f"---{NODES}")), "GA108") == [
        (
            'spec.driver.enabled: removes the driver from 2 nodes ("gpu-1", "gpu-2"), under the '
            "pods that run there; drain the nodes first"
        )
    ]


def test_driver_switched_off_says_when_nodes_are_unknown(examined):
    assert texts(examined(switched("enabled", "true", "false")), "GA108") == [
        (
            "spec.driver.enabled: removes the driver from every node that has it; the nodes are "
            "not known here; drain the nodes first"
        )
    ]


@pytest.mark.parametrize(("before", "after"), [("false", "false"), ("false", "true"), ("true", "true")])
def test_driver_that_stays_as_it_is_passes(examined, before, after):
    assert texts(examined(switched("enabled", before, after, f"---{NODES}")), "GA108") == []


def test_driver_resources_switched_off_are_named(examined):
    driver = "---\napiVersion: nvidia.com/v1alpha1\nkind: NVIDIADriver\nmetadata: {name: a100}\n"
    assert texts(examined(switched("useNvidiaDriverCRD", "true", "false", driver)), "GA108") == [
        (
            'spec.driver.useNvidiaDriverCRD: disables the NVIDIADriver "a100" and replaces the driver on their nodes; '
            "delete the NVIDIADrivers first, or leave it true"
        )
    ]


def test_driver_resources_switched_off_say_when_they_are_unknown(examined):
    assert texts(examined(switched("useNvidiaDriverCRD", "true", "false")), "GA108") == [
        (
            "spec.driver.useNvidiaDriverCRD: disables every NVIDIADriver; which ones exist is "
            "not known here; delete the NVIDIADrivers first, or leave it true"
        )
    ]


def applied(spec, actual="{}", before=None):
    def document(note):
        text = json.dumps(json.dumps({"spec": note}))
        annotations = f"kubectl.kubernetes.io/last-applied-configuration: {text}"
        metadata = f"metadata:\n  name: cluster-policy\n  annotations:\n    {annotations}\n"
        return f"\napiVersion: nvidia.com/v1\nkind: ClusterPolicy\n{metadata}spec: {actual}\n"

    return document(spec) + (f"--- # before{document(before)}" if before is not None else "")


def test_mistyped_field_that_was_dropped_is_refused(examined):
    assert texts(examined(applied({"migManger": {"enabled": False}})), "GA109") == [
        (
            "spec.migManger: was applied and silently dropped by the API server, because there is no such field; "
            'write "migManager"'
        )
    ]


def test_unlike_field_that_was_dropped_warns(examined):
    (found,) = [one for one in examined(applied({"zebra": {"stripes": 7}})) if one.rule.id == "GA109"]
    assert found.severity is Severity.WARN


def test_field_that_is_there_was_not_dropped(examined):
    assert texts(examined(applied({"toolkt": {}}, actual="{toolkt: {}}")), "GA109") == []


def test_note_of_an_earlier_apply_is_not_reported_again(examined):
    note = {"migManger": {"enabled": False}}
    assert texts(examined(applied(note, before=note)), "GA109") == []


@pytest.mark.parametrize("note", ["nonsense", "[]", '{"spec": 7}', "{" * 5000, "[" * 100_000])
def test_note_that_cannot_be_read_passes(examined, note):
    text = (
        f"apiVersion: nvidia.com/v1\nkind: ClusterPolicy\nmetadata:\n  name: cluster-policy\n  annotations:\n"
        f"    kubectl.kubernetes.io/last-applied-configuration: {json.dumps(note)}\n"
    )
    assert texts(examined(text), "GA109") == []
