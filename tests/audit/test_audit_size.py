"""Large audits: equal objects are reviewed and reported once, and the order of objects does not matter."""

from __future__ import annotations

import copy
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.admission import as_running, common_part, form_of
from policies.analyses.audit import MOST_FINDINGS, AuditCounts, Survey, audit, audit_json
from policies.kubernetes.bounds import Work, bounded_by
from policies.kubernetes.objects import json_document
from policies.rules.decision import Severity
from policies.rules.settings import DEFAULTS
from webhook.cluster.manifests import ManifestsView


class CountingView(ManifestsView):
    """Counts how often it is asked."""

    asked = 0

    def get(self, kind, name, namespace=""):
        self.asked += 1
        return super().get(kind, name, namespace)

    def list(self, kind, namespace=""):
        self.asked += 1
        return super().list(kind, namespace)


def replicas(k8s, count):
    owners = k8s.owner("ReplicaSet", "train-5d8f")
    pods = [k8s.pod(f"train-5d8f-{number:05}", owners=owners, node=f"node-{number}") for number in range(count)]
    for number, pod in enumerate(pods):
        token = f"kube-api-access-{number:05}"
        source = {"serviceAccountToken": {"path": "token"}}
        pod["spec"]["volumes"] = [{"name": token, "projected": {"sources": [source]}}]
        pod["spec"]["containers"][0]["volumeMounts"] = [{"name": token, "mountPath": "/var/run/secrets"}]
    return pods


def questions(k8s, count):
    view = CountingView([*k8s.BASE, *map(k8s.listed, ("Pod", "Node", "ResourceQuota")), k8s.namespace()])
    survey = Survey(view, DEFAULTS)
    survey.add(replicas(k8s, count))
    audit(view, DEFAULTS, survey)
    return view.asked


def test_pods_of_one_template_are_reviewed_once(k8s):
    node_of_each = 1
    assert questions(k8s, 300) - questions(k8s, 2) == 298 * node_of_each


def test_survey_keeps_one_pod_of_a_template(k8s):
    survey = k8s.surveyed(k8s.view_of(k8s.namespace()), replicas(k8s, 100))
    assert [form.count for form in survey.pods.values()] == [100]


def test_survey_keeps_of_a_pod_what_decides(k8s):
    pod = k8s.pod()
    pod["spec"]["containers"][0]["env"] = [{"name": "SECRET", "value": "x"}]
    (form,) = k8s.surveyed(k8s.view_of(), [pod]).pods.values()
    assert form.pod["spec"]["containers"] == [
        {"name": "main", "resources": {"limits": {"nvidia.com/gpu": "1"}, "requests": {"nvidia.com/gpu": "1"}}}
    ]


def form(pod):
    return form_of(common_part(as_running(pod, ManifestsView(()), DEFAULTS)))


def changed(pod, *path, value):
    other = copy.deepcopy(pod)
    place = other
    for step in path[:-1]:
        place = place[step] if isinstance(step, int) else place.setdefault(step, {})
    place[path[-1]] = value
    return other


CLAIMED = [{"name": "data", "persistentVolumeClaim": {"claimName": "data-0"}}]


def owner(kind, name):
    return [{"apiVersion": "batch/v1", "kind": kind, "name": name, "uid": name, "controller": True}]


def of_daemon_set(k8s, number, gpus):
    """A pod of a DaemonSet, whose controller names the node by an affinity."""
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [f"node-{number}"]}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    pod = k8s.pod(f"agent-{number}", owners=k8s.owner("DaemonSet", "agent"), node=f"node-{number}", gpus=gpus)
    pod["spec"]["affinity"] = {"nodeAffinity": required}
    return pod


@pytest.mark.parametrize(("gpus", "forms"), [(0, 1), (1, 5)], ids=["no GPU", "GPU"])
def test_pods_of_a_daemon_set_are_told_apart_if_their_nodes_can_decide(k8s, gpus, forms):
    pods = [of_daemon_set(k8s, number, gpus) for number in range(5)]
    assert len(k8s.surveyed(k8s.view_of(), pods).pods) == forms


@pytest.mark.parametrize(
    ("path", "first", "second"),
    [
        (("metadata", "name"), "a", "b"),
        (("metadata", "labels", "pod-index"), "0", "1"),
        (("metadata", "annotations", "k8s.v1.cni.cncf.io/network-status"), "10.0.0.1", "10.0.0.2"),
        (("spec", "nodeName"), "node-1", "node-2"),
        (("spec", "hostname"), "web-0", "web-1"),
        (("spec", "volumes"), CLAIMED, [{"name": "data", "persistentVolumeClaim": {"claimName": "data-1"}}]),
        (("metadata", "labels", "app"), "a", "b"),
        (("metadata", "ownerReferences"), owner("Job", "nightly-1"), owner("Job", "nightly-2")),
        (("status", "podIP"), "10.0.0.1", "10.0.0.2"),
    ],
    ids=lambda value: value[-1] if isinstance(value, tuple) else "",
)
def test_pods_that_differ_in_names_only_are_reviewed_once(k8s, path, first, second):
    pod = k8s.pod()
    assert form(changed(pod, *path, value=first)) == form(changed(pod, *path, value=second))


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("metadata", "labels", "gpu-admission.io/dra"), "disabled"),
        (("metadata", "labels", "kueue.x-k8s.io/queue-name"), "a"),
        (("metadata", "annotations", "gpu-admission.io/product"), "H100*"),
        (("metadata", "annotations", "nvidia.cdi.k8s.io/container.main"), "nvidia.com/gpu=all"),
        (("metadata", "annotations", "nvidia.cdi.k8s.io"), "nvidia.com/gpu=all"),
        (("metadata", "annotations", "cdi.k8s.io/any"), "nvidia.com/gpu=all"),
        (("metadata", "ownerReferences"), [{"kind": "Job", "name": "train", "controller": True}]),
        (("spec", "nodeSelector"), {"nvidia.com/gpu.product": "NVIDIA-L4"}),
        (("spec", "schedulerName"), "volcano"),
        (("spec", "containers", 0, "image"), "nvcr.io/nvidia/cuda:13.0.0"),
        (("spec", "volumes"), [{"name": "dev", "hostPath": {"path": "/dev"}}]),
        (("spec", "volumes"), [{"name": "kube-api-access-x7b2p", "hostPath": {"path": "/dev"}}]),
        (("spec", "ephemeralContainers"), [{"name": "debug", "image": "busybox"}]),
    ],
    ids=lambda value: value[-1] if isinstance(value, tuple) else "",
)
def test_pods_that_differ_in_relevant_fields_are_reviewed_each(k8s, path, value):
    pod = k8s.pod()
    assert form(changed(pod, *path, value=value)) != form(pod)


def nested(depth):
    """A mapping in mappings, deeper than JSON from an API server is."""
    value = {"a": 1}
    for _ in range(depth):
        value = {"a": value}
    return value


@pytest.mark.parametrize("value", [2**70, nested(400), "\ud800"], ids=["large", "deep", "surrogate"])
def test_pods_with_unusual_values_have_a_form(k8s, value):
    pods = [changed(k8s.pod(), "spec", "nodeSelector", value={"a": copy.deepcopy(value)}) for _ in range(2)]
    assert form(pods[0]) == form(pods[1]) != form(k8s.pod())


@pytest.fixture(scope="module")
def cluster(k8s):
    """A bit of everything."""
    return [
        k8s.namespace(),
        k8s.namespace("team-b", ""),
        *replicas(k8s, 3),
        k8s.pod("alone", nodeSelector={"nvidia.com/gpu.count": "8"}),
        *(k8s.pod(f"etl-{number}", "team-b", owners=k8s.owner("Spark", "etl", "x/v1")) for number in range(3)),
        k8s.workload(),
        k8s.workload(name="other", namespace="team-b", schedulerName="volcano"),
        k8s.quota(),
        k8s.quota(namespace="team-b"),
        *(k8s.node_pool(name) for name in "ab"),
        *(k8s.thing("Node", f"n-{number}", labels={"nvidia.com/mig.config": "x,y"}) for number in range(3)),
    ]


@given(seed=st.integers(0, 2**32))
def test_order_of_objects_changes_nothing(cluster, audited, seed):
    shuffled = random.Random(seed).sample(cluster, len(cluster))
    assert audit_json(audited(*shuffled)) == audit_json(audited(*cluster))


def test_gravest_findings_come_first(cluster, audited):
    severities = [finding.severity for finding in audited(*cluster).findings]
    assert severities == sorted(severities, key=list(Severity).index)
    assert set(severities) == {Severity.DENY, Severity.WARN, Severity.AUDIT}


def test_report_is_bounded_and_says_what_it_left_out(k8s, audited):
    nodes = [
        k8s.thing("Node", f"n-{number:04}", labels={"nvidia.com/mig.config": f"x,{number}"})
        for number in range(MOST_FINDINGS + 7)
    ]
    report = audited(*nodes)
    assert (len(report.findings), report.left_out) == (MOST_FINDINGS, 7)
    assert report.counts.deny == MOST_FINDINGS + 7


def test_counts_are_a_few_numbers(cluster, audited):
    assert json_document(audited(*cluster).counts, AuditCounts) == {
        "deny": 8,
        "warn": 2,
        "audit": 1,
        "waived": 0,
        "kindsNotReviewed": 0,
        "namespaces": 2,
        "namespacesReady": 0,
        "namespacesOptedIn": 1,
        "workloads": 4,
        "workloadsConvert": 0,
    }


def test_work_can_be_stopped_between_its_steps(k8s):
    def stop():
        raise InterruptedError

    view = k8s.view_of(k8s.namespace())
    survey, surveyed = Survey(view, DEFAULTS), k8s.surveyed(view, [k8s.pod()])
    with bounded_by(Work(check=stop)):
        with pytest.raises(InterruptedError):
            survey.add([k8s.pod()])
        with pytest.raises(InterruptedError):
            audit(view, DEFAULTS, surveyed)


def test_audit_can_rest_before_and_after_each_claim_is_selected(k8s):
    """A cluster has tens of thousands of claims; a step that goes through all of them takes 50 ms and more."""

    def rests(count):
        claims = [
            k8s.thing("ResourceClaim", f"gpus-{number:03}", "team-a", "resource.k8s.io/v1", spec={})
            for number in range(count)
        ]
        view, calls = k8s.view_of(k8s.namespace(), *claims), []
        with bounded_by(Work(check=lambda: calls.append(1))):
            audit(view, DEFAULTS, Survey(view, DEFAULTS))
        return len(calls)

    assert rests(40) - rests(20) >= 2 * 20


@pytest.mark.parametrize(
    ("kept", "workloads"),
    [
        (0, [("a", 2, "")]),  # it has its pods
        (1, [("a", 0, "")]),
        (20, [("a", 0, "")] * 21),
        (200, [(f"team-{number % 30}", 0, "") for number in range(300)]),
        (0, [("a", 0, "x" * 33_000)]),
    ],
)
def test_workloads_that_lack_pods_are_kept_within_bounds(k8s, kept, workloads):
    objects = []
    for number, (namespace, existing, text) in enumerate(workloads):
        each = k8s.workload(name=f"w-{number}", namespace=namespace, labels={"text": text})
        each["spec"]["replicas"] = 2
        each["metadata"]["managedFields"] = [{"manager": "x"}]
        objects.append({**each, "status": {"replicas": existing, "observedGeneration": 1}})
    found = k8s.surveyed(k8s.view_of(), objects).short_workloads
    assert len(found) == kept
    assert all("managedFields" not in each["metadata"] and each["status"] == {"replicas": 0} for each in found)


@pytest.mark.parametrize("status", ["text", [1], 5, True, {"replicas": "one", "conditions": "none"}])
def test_workload_with_a_status_of_any_type_is_audited(k8s, status):
    workload = k8s.workload()
    workload["spec"]["replicas"] = 2
    found = k8s.surveyed(k8s.view_of(), [{**workload, "status": status}])
    assert len(found.workloads) == 1
