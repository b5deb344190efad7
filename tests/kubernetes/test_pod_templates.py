"""Pod templates in workloads."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.kubernetes.objects import FieldPath, lookup
from policies.kubernetes.workloads import group_of, pod_templates

TEMPLATE = {"spec": {"containers": [{"name": "train"}]}}
WORKER = {"spec": {"containers": [{"name": "worker"}]}}
RAY_CLUSTER = {
    "headGroupSpec": {"template": TEMPLATE},
    "workerGroupSpecs": [{"template": WORKER}, {"template": WORKER}],
}

WORKLOADS = [
    ("v1", "PodTemplate", {"template": TEMPLATE}, ["template"]),
    *(
        (version, kind, {"spec": {"template": TEMPLATE}}, ["spec.template"])
        for version, kind in (
            ("v1", "ReplicationController"),
            ("apps/v1", "DaemonSet"),
            ("apps/v1", "Deployment"),
            ("apps/v1", "ReplicaSet"),
            ("apps/v1", "StatefulSet"),
            ("batch/v1", "Job"),
        )
    ),
    (
        "batch/v1",
        "CronJob",
        {"spec": {"jobTemplate": {"spec": {"template": TEMPLATE}}}},
        ["spec.jobTemplate.spec.template"],
    ),
    (
        "jobset.x-k8s.io/v1alpha2",
        "JobSet",
        {
            "spec": {
                "replicatedJobs": [
                    {"name": "driver", "template": {"spec": {"template": TEMPLATE}}},
                    {"name": "workers", "template": {"spec": {"template": WORKER}}},
                ]
            }
        },
        ["spec.replicatedJobs[0].template.spec.template", "spec.replicatedJobs[1].template.spec.template"],
    ),
    (
        "leaderworkerset.x-k8s.io/v1",
        "LeaderWorkerSet",
        {"spec": {"leaderWorkerTemplate": {"leaderTemplate": TEMPLATE, "workerTemplate": WORKER}}},
        ["spec.leaderWorkerTemplate.leaderTemplate", "spec.leaderWorkerTemplate.workerTemplate"],
    ),
    (
        "ray.io/v1",
        "RayCluster",
        {"spec": RAY_CLUSTER},
        ["spec.headGroupSpec.template", "spec.workerGroupSpecs[0].template", "spec.workerGroupSpecs[1].template"],
    ),
    (
        "ray.io/v1",
        "RayJob",
        {"spec": {"rayClusterSpec": RAY_CLUSTER, "submitterPodTemplate": TEMPLATE}},
        [
            "spec.rayClusterSpec.headGroupSpec.template",
            "spec.rayClusterSpec.workerGroupSpecs[0].template",
            "spec.rayClusterSpec.workerGroupSpecs[1].template",
            "spec.submitterPodTemplate",
        ],
    ),
    (
        "ray.io/v1",
        "RayService",
        {"spec": {"rayClusterConfig": RAY_CLUSTER}},
        [
            "spec.rayClusterConfig.headGroupSpec.template",
            "spec.rayClusterConfig.workerGroupSpecs[0].template",
            "spec.rayClusterConfig.workerGroupSpecs[1].template",
        ],
    ),
    *(
        (
            "kubeflow.org/v1",
            kind,
            {"spec": {field: {"Master": {"template": TEMPLATE}, "Worker": {"template": WORKER}}}},
            [f"spec.{field}.Master.template", f"spec.{field}.Worker.template"],
        )
        for kind, field in (
            ("JAXJob", "jaxReplicaSpecs"),
            ("PaddleJob", "paddleReplicaSpecs"),
            ("PyTorchJob", "pytorchReplicaSpecs"),
            ("TFJob", "tfReplicaSpecs"),
            ("XGBoostJob", "xgbReplicaSpecs"),
        )
    ),
    ("kubeflow.org/v1", "Notebook", {"spec": {"template": TEMPLATE}}, ["spec.template"]),
    (
        "kubeflow.org/v2beta1",
        "MPIJob",
        {"spec": {"mpiReplicaSpecs": {"Launcher": {"template": TEMPLATE}, "Worker": {"template": WORKER}}}},
        ["spec.mpiReplicaSpecs.Launcher.template", "spec.mpiReplicaSpecs.Worker.template"],
    ),
]


def paths_of(document):
    return [str(each.path) for each in pod_templates(document)]


@pytest.mark.parametrize(("version", "kind", "fields", "paths"), WORKLOADS, ids=[workload[1] for workload in WORKLOADS])
def test_templates_of_a_workload_are_found_at_their_places(version, kind, fields, paths):
    document = {"apiVersion": version, "kind": kind, **fields}
    found = pod_templates(document)
    assert [str(each.path) for each in found] == paths
    assert all(lookup(document, each.path) is each.template for each in found)


def test_templates_depend_on_the_api_group_and_not_on_the_kind_alone():
    assert paths_of({"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "spec": {"template": TEMPLATE}}) == []
    assert paths_of({"apiVersion": "v1", "kind": "Deployment", "spec": {"template": TEMPLATE}}) == []


def test_templates_do_not_depend_on_the_version():
    assert paths_of({"apiVersion": "apps/v2", "kind": "Deployment", "spec": {"template": TEMPLATE}}) == [
        "spec.template"
    ]


def test_pod_has_no_templates():
    assert paths_of({"apiVersion": "v1", "kind": "Pod", **TEMPLATE}) == []


@pytest.mark.parametrize("template", [None, [], "text", 1])
def test_template_that_is_no_mapping_is_left_out(template):
    assert paths_of({"apiVersion": "apps/v1", "kind": "Deployment", "spec": {"template": template}}) == []


def test_templates_beside_a_malformed_one_are_found():
    document = {"apiVersion": "ray.io/v1", "kind": "RayCluster", "spec": {**RAY_CLUSTER, "headGroupSpec": ["wrong"]}}
    assert paths_of(document) == ["spec.workerGroupSpecs[0].template", "spec.workerGroupSpecs[1].template"]


def test_missing_leader_template_leaves_the_worker_template():
    spec = {"leaderWorkerTemplate": {"workerTemplate": WORKER}}
    document = {"apiVersion": "leaderworkerset.x-k8s.io/v1", "kind": "LeaderWorkerSet", "spec": spec}
    assert paths_of(document) == ["spec.leaderWorkerTemplate.workerTemplate"]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=10,
)


@given(workload=st.sampled_from(WORKLOADS), data=st.data())
def test_any_json_in_place_of_any_part_of_a_workload_is_no_error(workload, data):
    version, kind, fields, _ = workload
    document = {"apiVersion": version, "kind": kind, **fields}
    target = data.draw(st.sampled_from([each.path for each in pod_templates(document)]))
    depth = data.draw(st.integers(1, len(target)))
    replaced = _with(document, FieldPath(target[:depth]), data.draw(JSON))
    assert all(isinstance(each.template, dict) for each in pod_templates(replaced))


@given(JSON)
def test_any_json_at_all_is_no_error(document):
    assert pod_templates(document) == ()


@pytest.mark.parametrize(
    ("version", "group"), [("v1", ""), ("apps/v1", "apps"), ("ray.io/v1", "ray.io"), (None, ""), (1, "")]
)
def test_group_is_what_stands_before_the_version(version, group):
    assert group_of({"apiVersion": version}) == group


def test_group_of_no_object_is_empty():
    assert group_of("text") == ""


def _with(document, path, value):
    if not path:
        return value
    step, *rest = path
    copy = document.copy()
    copy[step] = _with(document[step], rest, value)
    return copy
