"""Readiness of namespaces: which workloads would convert, which would not, and why."""

from __future__ import annotations

import pytest

from policies.analyses.audit import audit, audit_json
from policies.conversion.exemptions import Mode
from policies.rules.settings import DEFAULTS
from webhook.cli.reports.audit_reports import Audited, text
from webhook.cluster.manifests import ManifestsView


def rows(report):
    return [(each.namespace, each.workloads, each.converts, each.refused, each.left) for each in report.readiness]


@pytest.mark.parametrize(
    ("mode", "known"), [("enabled", Mode.ENABLED), ("preview", Mode.PREVIEW), ("", Mode.OFF)], ids=str
)
def test_workloads_are_judged_whatever_the_namespace_has_chosen(k8s, audited, mode, known):
    (row,) = audited(k8s.namespace(mode=mode), k8s.workload()).readiness
    assert (row.mode, row.is_ready, row.workloads, row.converts) == (known, True, 1, 1)


@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet", "DaemonSet", "ReplicaSet", "Job", "CronJob"])
def test_every_kind_of_workload_counts(k8s, audited, kind):
    assert rows(audited(k8s.namespace(), k8s.workload(kind))) == [("team-a", 1, 1, 0, 0)]


def test_workload_that_requests_no_gpus_does_not_count(k8s, audited):
    assert audited(k8s.namespace(mode=""), k8s.workload(gpus=0)).readiness == ()


def test_namespace_that_opted_in_has_a_row_without_workloads(k8s, audited):
    assert rows(audited(k8s.namespace(), k8s.namespace("team-b", ""))) == [("team-a", 0, 0, 0, 0)]


def test_workload_that_would_be_refused_is_counted_with_its_reason(k8s, audited):
    refused = {"nodeSelector": {"nvidia.com/gpu.count": "8"}}
    objects = [k8s.workload(name="b", **refused), k8s.workload(name="a", **refused), k8s.workload(name="fine")]
    (row,) = audited(k8s.namespace(mode=""), *objects).readiness
    assert (row.is_ready, row.workloads, row.converts, row.refused) == (False, 3, 1, 2)
    (obstacle,) = row.obstacles
    assert (obstacle.rule.id, obstacle.workload, obstacle.count) == ("GA307", "Deployment a", 2)
    assert obstacle.message == "counts the GPUs of the node; no device knows how many there are"


def test_workload_that_stays_with_the_device_plugin_is_left(k8s, audited):
    (row,) = audited(k8s.namespace(), k8s.workload(schedulerName="volcano")).readiness
    assert (row.is_ready, row.left, [each.rule.id for each in row.obstacles]) == (False, 1, ["GA315"])


@pytest.mark.parametrize(
    ("workload", "ready", "shown"), [({}, None, "unknown"), ({"schedulerName": "volcano"}, False, "no")]
)
def test_namespace_whose_pods_cannot_be_read_is_not_called_ready(k8s, workload, ready, shown):
    namespace, made = k8s.namespace(), k8s.workload(**workload)
    view = k8s.view_of(namespace, made)
    survey = k8s.surveyed(view, [made])
    survey.miss("Pod", "forbidden: list them")
    report = audit(view, DEFAULTS, survey)
    (row,) = report.readiness
    assert (row.is_ready, audit_json(report).readiness[0].ready, report.counts.namespaces_ready) == (ready, ready, 0)
    assert f"enabled  {shown} " in text(Audited(report, (), ManifestsView(()), DEFAULTS))


def test_obstacles_that_stop_most_come_first(k8s, audited):
    objects = [
        k8s.workload(name="a", schedulerName="volcano"),
        *(k8s.workload(name=name, nodeSelector={"nvidia.com/gpu.count": "8"}) for name in "bc"),
    ]
    (row,) = audited(k8s.namespace(), *objects).readiness
    assert [(each.rule.id, each.count) for each in row.obstacles] == [("GA307", 2), ("GA315", 1)]


def test_what_another_workload_made_counts_with_its_owner(k8s, audited):
    objects = [
        k8s.workload(),
        k8s.workload("ReplicaSet", "train-5d8f", owners=k8s.owner("Deployment", "train")),
        k8s.pod("train-5d8f-1", owners=k8s.owner("ReplicaSet", "train-5d8f")),
        k8s.workload("CronJob", "nightly"),
        k8s.workload("Job", "nightly-1", owners=k8s.owner("CronJob", "nightly", "batch/v1")),
    ]
    assert rows(audited(k8s.namespace(mode=""), *objects)) == [("team-a", 2, 2, 0, 0)]


def test_object_of_an_unlisted_controller_counts(k8s, audited):
    made_by = k8s.owner("AppWrapper", "big", "workload.codeflare.dev/v1beta2")
    objects = [
        k8s.workload("Job", "big", owners=made_by),
        *(k8s.pod(f"spark-{number}", owners=k8s.owner("SparkApplication", "etl", "x/v1")) for number in range(5)),
        k8s.pod("spark-driver", owners=k8s.owner("SparkApplication", "etl", "x/v1"), gpus=2),
    ]
    assert rows(audited(k8s.namespace(mode=""), *objects)) == [("team-a", 2, 2, 0, 0)]


@pytest.mark.parametrize(
    ("kind", "version"),
    [
        ("InferenceService", "serving.kserve.io/v1beta1"),
        ("LLMInferenceService", "serving.kserve.io/v1alpha1"),
        ("SparkApplication", "sparkoperator.k8s.io/v1beta2"),
        ("TrainJob", "trainer.kubeflow.org/v1alpha1"),
    ],
)
def test_what_a_kind_made_whose_pods_cannot_always_be_found_counts_instead_of_it(k8s, audited, kind, version):
    made = k8s.workload("Job", "big-1", owners=k8s.owner(kind, "big", version))
    owner = {"apiVersion": version, "kind": kind, "metadata": {"name": "big", "namespace": "team-a"}, "spec": {}}
    assert rows(audited(k8s.namespace(mode=""), made, owner)) == [("team-a", 1, 1, 0, 0)]


@pytest.mark.parametrize(
    ("kind", "version"), [("Job", "batch.volcano.sh/v1alpha1"), ("PodCliqueSet", "grove.io/v1alpha1")]
)
def test_workload_of_another_project_counts_once(k8s, audited, kind, version):
    made = k8s.workload()
    template = made["spec"]["template"]
    spec = (
        {"schedulerName": "default-scheduler", "tasks": [{"template": template}]}
        if kind == "Job"
        else {"template": {"cliques": [{"name": "a", "spec": {"podSpec": template["spec"]}}]}}
    )
    owner = {"apiVersion": version, "kind": kind, "metadata": {"name": "big", "namespace": "team-a"}, "spec": spec}
    pod = k8s.pod("big-1", owners=k8s.owner(kind, "big", version))
    assert rows(audited(k8s.namespace(mode=""), owner, pod)) == [("team-a", 1, 1, 0, 0)]


def test_namesake_of_a_workload_in_another_group_is_not_one(k8s, audited):
    pods = [k8s.pod(f"p-{number}", owners=k8s.owner("Job", "mpi", "batch.example.com/v1")) for number in range(3)]
    assert rows(audited(k8s.namespace(mode=""), *pods)) == [("team-a", 1, 1, 0, 0)]


def test_pods_that_nothing_made_count_one_by_one(k8s, audited, converted):
    pod, template = converted(k8s.pod("converted", node=""))
    objects = [pod, template, k8s.pod("a"), k8s.pod("b")]
    assert rows(audited(k8s.namespace(), *objects)) == [("team-a", 3, 3, 0, 0)]


@pytest.mark.parametrize("condition", ["Complete", "Failed"])
def test_job_that_has_finished_does_not_count(k8s, audited, condition):
    job = k8s.workload("Job") | {"status": {"conditions": [{"type": condition, "status": "True"}]}}
    assert audited(k8s.namespace(mode=""), job).readiness == ()


def test_job_that_runs_counts(k8s, audited):
    job = k8s.workload("Job") | {"status": {"conditions": [{"type": "Complete", "status": "False"}]}}
    assert rows(audited(k8s.namespace(mode=""), job)) == [("team-a", 1, 1, 0, 0)]


def test_workload_that_the_strategy_leaves_to_its_class_is_ready(k8s, audited):
    base = (
        {"serverVersion": {"gitVersion": "v1.36.0"}},
        k8s.device_class(extendedResourceName="nvidia.com/gpu"),
        k8s.gpu_node(),
    )
    namespace = k8s.namespace(**{"gpu-admission.io/dra-strategy": "leave"})
    report = audited(namespace, k8s.workload(), k8s.pod(), base=base)
    assert (rows(report), report.findings) == ([("team-a", 2, 2, 0, 0)], ())


def test_quota_that_opting_in_would_switch_off_stops_every_workload(k8s, audited):
    (row,) = audited(k8s.namespace(mode=""), k8s.workload(), k8s.quota()).readiness
    assert (row.is_ready, row.refused, [each.rule.id for each in row.obstacles]) == (False, 1, ["GA312"])


def test_workloads_of_kube_system_are_not_counted(k8s, audited):
    assert audited(k8s.namespace("kube-system", ""), k8s.workload(namespace="kube-system")).readiness == ()


def test_rows_are_in_the_order_of_their_namespaces(k8s, audited):
    names = ["team-b", "team-a", "team-c"]
    objects = [each for name in names for each in (k8s.namespace(name, ""), k8s.workload(namespace=name))]
    assert [row.namespace for row in audited(*objects).readiness] == sorted(names)


def test_workload_with_unreadable_pods_would_be_refused(k8s, audited):
    broken = k8s.workload(nodeSelector={"disks": 3})
    (row,) = audited(k8s.namespace(mode=""), broken).readiness
    assert (row.refused, [each.rule.id for each in row.obstacles]) == (1, ["GA301"])


CLASS = {
    "apiVersion": "scheduling.k8s.io/v1",
    "kind": "PriorityClass",
    "metadata": {"name": "production"},
    "value": 1000,
}


def test_workloads_that_could_preempt_others_are_counted(k8s, audited):
    objects = [
        CLASS,
        k8s.pod("batch", "team-b", priority=0),
        k8s.workload(name="b", priorityClassName="production"),
        k8s.workload(name="a", priorityClassName="production"),
        k8s.workload(name="low"),
    ]
    row, _ = audited(k8s.namespace(mode=""), *objects).readiness
    assert (row.is_ready, row.converts, row.loses, row.obstacles) == (False, 1, 2, ())
    lost = row.preemption
    assert (lost.rule.id, lost.workload, lost.count) == ("GA335", "Deployment a", 2)
    assert lost.message == (
        "priority 1000 is above that of 1 pod that holds nvidia.com/gpu; once converted, the pod does not preempt it, "
        "because the scheduler ends no pod to free devices of claims"
    )


def test_loss_of_preemption_is_reported_below_the_table(k8s, audited):
    objects = [k8s.pod("batch", "team-b", priority=0), k8s.workload(priorityClassName="production")]
    report = audited(CLASS, k8s.namespace(mode=""), *objects)
    reported = text(Audited(report, (), ManifestsView(()), DEFAULTS))
    assert (
        "\nteam-a:\n"
        "  Deployment train converts and loses preemption [GA335]\n"
        "    spec.priorityClassName: priority 1000 is above that of 1 pod that holds nvidia.com/gpu; once converted, the pod "
        "does not preempt it, because the scheduler ends no pod to free devices of claims\n"
        "    What to do: if the pod stays Pending, end pods of lower priority yourself (gpu-admission explain names them), or add "
        "the label gpu-admission.io/dra: disabled to the pod, which then preempts under the device plugin\n"
    ) in reported


def test_workloads_that_no_pod_makes_room_for_lose_nothing(k8s, audited):
    (row,) = audited(CLASS, k8s.namespace(), k8s.workload(priorityClassName="production")).readiness
    assert row.preemption is None
