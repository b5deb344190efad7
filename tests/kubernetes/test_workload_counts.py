"""The number of pods that a workload runs at once."""

from __future__ import annotations

import pytest

from policies.kubernetes.workloads import pod_templates

TEMPLATE = {"spec": {"containers": []}}


def counts(version, kind, spec):
    workload = {"apiVersion": version, "kind": kind, "spec": spec}
    found = {str(each.path): each.count for each in pod_templates(workload)}
    return {path: count and (count.pods, str(count.path)) for path, count in found.items()}


@pytest.mark.parametrize("kind", ["Deployment", "ReplicaSet", "StatefulSet"])
def test_replicas_are_the_pods_at_once(kind):
    assert counts("apps/v1", kind, {"replicas": 7, "template": TEMPLATE}) == {"spec.template": (7, "spec.replicas")}


def test_replicas_that_are_not_there_are_one():
    assert counts("v1", "ReplicationController", {"template": TEMPLATE}) == {"spec.template": (1, "spec.replicas")}


@pytest.mark.parametrize("replicas", ["3", -1, True, 1.5, None], ids=repr)
def test_replicas_that_no_api_server_takes_count_as_if_not_there(replicas):
    spec = {"replicas": replicas, "template": TEMPLATE}
    assert counts("apps/v1", "Deployment", spec) == {"spec.template": (1, "spec.replicas")}


def test_daemonset_has_as_many_pods_as_nodes_decide():
    assert counts("apps/v1", "DaemonSet", {"template": TEMPLATE}) == {"spec.template": None}


def test_pod_template_runs_nothing():
    workload = {"apiVersion": "v1", "kind": "PodTemplate", "template": TEMPLATE}
    assert [each.count for each in pod_templates(workload)] == [None]


@pytest.mark.parametrize(
    ("spec", "pods"),
    [
        ({}, 1),
        ({"parallelism": 8}, 8),
        ({"parallelism": 8, "completions": 3}, 3),
        ({"completions": 20}, 1),
        ({"parallelism": 0}, 0),
    ],
    ids=["nothing", "parallelism", "fewer completions", "completions alone", "stopped"],
)
def test_job_runs_as_many_as_parallelism_and_completions_let(spec, pods):
    found = counts("batch/v1", "Job", {**spec, "template": TEMPLATE})
    assert found == {"spec.template": (pods, "spec.parallelism")}


def test_cronjob_is_counted_by_its_job():
    spec = {"jobTemplate": {"spec": {"parallelism": 4, "template": TEMPLATE}}}
    path = "spec.jobTemplate.spec"
    assert counts("batch/v1", "CronJob", spec) == {f"{path}.template": (4, f"{path}.parallelism")}


def test_jobset_multiplies_jobs_and_their_pods():
    job = {"replicas": 3, "template": {"spec": {"parallelism": 4, "template": TEMPLATE}}}
    found = counts("jobset.x-k8s.io/v1alpha2", "JobSet", {"replicatedJobs": [job]})
    assert found == {"spec.replicatedJobs[0].template.spec.template": (12, "spec.replicatedJobs[0].replicas")}


def test_pytorchjob_is_counted_by_role():
    spec = {"pytorchReplicaSpecs": {"Master": {"template": TEMPLATE}, "Worker": {"replicas": 15, "template": TEMPLATE}}}
    assert list(counts("kubeflow.org/v1", "PyTorchJob", spec).values()) == [
        (1, "spec.pytorchReplicaSpecs.Master.replicas"),
        (15, "spec.pytorchReplicaSpecs.Worker.replicas"),
    ]


def test_leaderworkerset_has_one_leader_in_each_group():
    spec = {
        "replicas": 2,
        "leaderWorkerTemplate": {"size": 4, "leaderTemplate": TEMPLATE, "workerTemplate": TEMPLATE},
    }
    assert list(counts("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", spec).values()) == [
        (2, "spec.replicas"),
        (6, "spec.replicas"),
    ]


def test_leaderworkerset_without_leader_template_makes_leaders_of_workers():
    spec = {"replicas": 2, "leaderWorkerTemplate": {"size": 4, "workerTemplate": TEMPLATE}}
    assert list(counts("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", spec).values()) == [(8, "spec.replicas")]


def test_ray_workers_are_replicas_of_hosts():
    groups = [{"replicas": 3, "numOfHosts": 2, "template": TEMPLATE}, {"minReplicas": 5, "template": TEMPLATE}]
    spec = {"headGroupSpec": {"template": TEMPLATE}, "workerGroupSpecs": groups}
    assert list(counts("ray.io/v1", "RayCluster", spec).values()) == [
        (1, "spec.headGroupSpec.template"),
        (6, "spec.workerGroupSpecs[0].replicas"),
        (5, "spec.workerGroupSpecs[1].replicas"),
    ]
