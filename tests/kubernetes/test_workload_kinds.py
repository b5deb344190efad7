"""Workload kinds of other projects: their pods, their counts, and pods that cannot be found."""

from __future__ import annotations

import pytest

from policies.admission.workload_templates import templates_of, unread_pods
from policies.kubernetes.objects import FieldPath
from policies.rules.settings import DEFAULTS, AddedKind, GPUAdmissionPolicy, Workloads
from webhook.cluster.manifests import ManifestsView

NOTHING = ManifestsView()
GPU = {"limits": {"nvidia.com/gpu": 1}}
SPEC = {"containers": [{"name": "node", "resources": GPU}]}
TEMPLATE = {"metadata": {"labels": {"app": "train"}}, "spec": SPEC}
ADDED = AddedKind(
    "example.com",
    "TrainingRun",
    ("spec.head.template", "spec.workers[*].template"),
    ("spec.replicas", "spec.workers[*].size"),
)


def workload(version, kind, **spec):
    return {"apiVersion": version, "kind": kind, "metadata": {"name": "train", "namespace": "team-a"}, "spec": spec}


def found(document, view=NOTHING, settings=DEFAULTS):
    """The pods of a workload: the place of their template, and their number."""
    return {
        str(each.path): each.count and (each.count.pods, str(each.count.path))
        for each in templates_of(document, view, settings)
    }


def unread(document, view=NOTHING, settings=DEFAULTS):
    return {str(each.path): each.reason for each in unread_pods(document, view, settings)}


def test_rollout_is_counted_like_a_deployment():
    rollout = workload("argoproj.io/v1alpha1", "Rollout", replicas=3, template=TEMPLATE)
    assert found(rollout) == {"spec.template": (3, "spec.replicas")}


def test_pods_of_a_rollout_that_names_a_workload_are_reviewed_with_it():
    reference = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
    assert unread(workload("argoproj.io/v1alpha1", "Rollout", workloadRef=reference)) == {
        "spec.workloadRef": "its pods are those of Deployment web, and are reviewed with it"
    }


def test_volcano_job_is_counted_by_task():
    tasks = [{"replicas": 2, "template": TEMPLATE}, {"template": TEMPLATE}]
    assert found(workload("batch.volcano.sh/v1alpha1", "Job", tasks=tasks)) == {
        "spec.tasks[0].template": (2, "spec.tasks[0].replicas"),
        "spec.tasks[1].template": (1, "spec.tasks[1].replicas"),
    }


@pytest.mark.parametrize(
    ("job", "inherited"),
    [
        ({}, ("volcano", None)),
        ({"schedulerName": "default-scheduler", "priorityClassName": "high"}, ("default-scheduler", "high")),
    ],
    ids=["defaults", "of the job"],
)
def test_pods_of_a_volcano_job_get_its_scheduler_and_priority_class(job, inherited):
    document = workload("batch.volcano.sh/v1alpha1", "Job", tasks=[{"template": TEMPLATE}], **job)
    (found,) = templates_of(document, NOTHING, DEFAULTS)
    spec = found.template["spec"]
    assert (spec["schedulerName"], spec.get("priorityClassName")) == inherited
    assert str(found.home(FieldPath(["spec", "schedulerName"]))) == "spec.schedulerName"


def test_what_a_task_inherits_is_written_nowhere():
    (one,) = templates_of(
        workload("batch.volcano.sh/v1alpha1", "Job", tasks=[{"template": TEMPLATE}]), NOTHING, DEFAULTS
    )
    assert [*one.edits(one.template)] == []


def test_task_of_a_volcano_job_may_name_its_own_scheduler():
    own = {"spec": {**SPEC, "schedulerName": "default-scheduler"}}
    (found,) = templates_of(workload("batch.volcano.sh/v1alpha1", "Job", tasks=[{"template": own}]), NOTHING, DEFAULTS)
    assert found.template["spec"]["schedulerName"] == "default-scheduler"
    assert str(found.home(FieldPath(["spec", "schedulerName"]))) == "spec.tasks[0].template.spec.schedulerName"


def clique_set(**spec):
    cliques = [
        {"name": "leader", "labels": {"role": "leader"}, "spec": {"podSpec": SPEC}},
        {"name": "worker", "spec": {"replicas": 4, "podSpec": SPEC}},
    ]
    groups = [{"name": "model", "cliqueNames": ["worker"], "replicas": 3}]
    template = {"cliques": cliques, "podCliqueScalingGroups": groups}
    return workload("grove.io/v1alpha1", "PodCliqueSet", template=template, **spec)


def test_pod_clique_set_multiplies_sets_scaling_groups_and_cliques():
    assert [count for count, _ in found(clique_set(replicas=2)).values()] == [2, 24]


def test_pod_clique_set_without_replicas_runs_nothing():
    assert [count for count, _ in found(clique_set()).values()] == [0, 0]


def test_pod_spec_of_a_clique_is_a_template_with_the_labels_of_the_clique():
    leader, worker = templates_of(clique_set(), NOTHING, DEFAULTS)
    assert leader.template == {"metadata": {"labels": {"role": "leader"}}, "spec": SPEC}
    assert worker.template == {"metadata": {}, "spec": SPEC}
    place = "spec.template.cliques[0]"
    assert str(leader.home(("spec", "containers", 0))) == f"{place}.spec.podSpec.containers[0]"
    assert str(leader.home(("metadata", "labels", "role"))) == f"{place}.labels.role"


def service(**predictor):
    return workload("serving.kserve.io/v1beta1", "InferenceService", predictor=predictor)


def test_predictor_with_containers_is_a_pod_spec():
    assert found(service(minReplicas=2, **SPEC)) == {"spec.predictor": (2, "spec.predictor.minReplicas")}


def test_model_with_resources_is_a_container_of_the_predictor():
    (predictor,) = templates_of(
        service(model={"resources": GPU}, nodeSelector={"a": "b"}, containers=[{"name": "proxy"}]), NOTHING, DEFAULTS
    )
    model, proxy = predictor.template["spec"]["containers"]
    assert (model["name"], model["resources"], proxy) == ("kserve-container", GPU, {"name": "proxy"})
    assert str(predictor.home(("spec", "containers", 0, "resources"))) == "spec.predictor.model.resources"
    assert str(predictor.home(("spec", "containers", 1, "image"))) == "spec.predictor.containers[0].image"
    assert str(predictor.home(("spec", "nodeSelector", "a"))) == "spec.predictor.nodeSelector.a"
    assert [*predictor.edits(predictor.template)] == []


@pytest.mark.parametrize("name", [{"name": ""}, {"name": None}, {}])
def test_model_without_a_name_is_named_by_its_runtime(name):
    (predictor,) = templates_of(service(model={**name, "resources": GPU}), NOTHING, DEFAULTS)
    assert predictor.template["spec"]["containers"] == [{"name": "kserve-container", "resources": GPU}]


def test_model_without_resources_is_not_reviewed():
    document = service(model={"modelFormat": {"name": "huggingface"}})
    assert found(document) == {}
    assert unread(document) == {
        "spec.predictor.model": (
            "its resources are those of a ServingRuntime, so its pods are reviewed when they are created"
        )
    }


def test_workers_of_a_model_are_one_fewer_than_its_pipeline():
    document = service(model={"resources": GPU}, workerSpec={"pipelineParallelSize": 4, **SPEC})
    assert [count for count, _ in found(document).values()] == [1, 3]


def llm_service(**spec):
    return workload("serving.kserve.io/v1alpha1", "LLMInferenceService", **spec)


def test_llm_service_has_a_pod_spec_for_each_role():
    document = llm_service(template=SPEC, replicas=3, prefill={"template": SPEC, "replicas": 2})
    assert found(document) == {
        "spec.template": (3, "spec.replicas"),
        "spec.prefill.template": (2, "spec.prefill.replicas"),
    }


@pytest.mark.parametrize(
    ("parallelism", "workers"),
    [({}, 0), ({"tensor": 8}, 0), ({"pipeline": 4}, 3), ({"data": 16, "dataLocal": 8}, 1), ({"data": 4}, 3)],
)
def test_llm_service_with_workers_runs_a_group_for_each_replica(parallelism, workers):
    document = llm_service(template=SPEC, worker=SPEC, replicas=2, parallelism=parallelism)
    assert [count for count, _ in found(document).values()] == [2, 2 * workers]


def test_llm_service_that_scales_itself_has_no_number_of_pods():
    assert found(llm_service(template=SPEC, scaling={"maxReplicas": 4})) == {"spec.template": None}


def test_labels_of_an_llm_service_are_those_of_its_pods():
    (server,) = templates_of(llm_service(template=SPEC, labels={"a": "b"}), NOTHING, DEFAULTS)
    assert server.template["metadata"] == {"labels": {"a": "b"}}
    assert str(server.home(("metadata", "labels", "a"))) == "spec.labels.a"


def test_pods_of_an_llm_service_without_containers_are_reviewed_later():
    document = llm_service(model={"uri": "hf://a/b"}, baseRefs=[{"name": "h100"}])
    assert found(document) == {}
    assert [*unread(document)] == ["spec.baseRefs", "spec"]


def test_spark_application_is_reviewed_by_its_pod_templates():
    document = workload(
        "sparkoperator.k8s.io/v1beta2",
        "SparkApplication",
        driver={"cores": 1},
        executor={"instances": 5, "template": TEMPLATE},
    )
    assert found(document) == {"spec.executor.template": (5, "spec.executor.instances")}
    assert unread(document) == {
        "spec.driver": "it has no pod template; Spark makes the pods, which are reviewed when they are created"
    }


def test_gpus_of_a_spark_application_are_not_reviewed():
    document = workload(
        "sparkoperator.k8s.io/v1beta2",
        "SparkApplication",
        executor={"gpu": {"name": "nvidia.com/gpu", "quantity": 1}, "template": TEMPLATE},
    )
    assert unread(document) == {
        "spec.executor.gpu": "Spark writes it into the pods, which are reviewed when they are created"
    }


@pytest.mark.parametrize(
    ("kind", "path"),
    [
        ("Workflow", "spec.templates"),
        ("WorkflowTemplate", "spec.templates"),
        ("CronWorkflow", "spec.workflowSpec.templates"),
    ],
)
def test_steps_of_a_workflow_are_no_pod_templates(kind, path):
    document = workload("argoproj.io/v1alpha1", kind, templates=[{"name": "a", "container": SPEC["containers"][0]}])
    assert found(document) == {}
    assert unread(document) == {
        path: "an Argo step is not a pod template, so its pods are reviewed only when the workflow controller creates them"
    }


def test_known_kind_without_a_template_says_where_one_belongs():
    assert unread(workload("apps/v1", "Deployment", replicas=3)) == {
        "spec": "there is no pod template at spec.template"
    }


def test_object_of_another_kind_has_no_pods():
    assert unread(workload("example.com/v1", "TrainingRun", template=TEMPLATE)) == {}


def runtime(kind="ClusterTrainingRuntime", **policy):
    trainer = {
        "name": "node",
        "template": {
            "metadata": {"labels": {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}},
            "spec": {
                "template": {"spec": {"containers": [{"name": "node", "image": "torch"}], "nodeSelector": {"a": "b"}}}
            },
        },
    }
    jobs = {"spec": {"replicatedJobs": [trainer]}}
    document = {"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": kind, "metadata": {"name": "torch"}}
    if kind == "TrainingRuntime":
        document["metadata"]["namespace"] = "team-a"
    return {**document, "spec": {"mlPolicy": policy, "template": jobs}}


def train_job(kind=None, **spec):
    reference = {"name": "torch"} | ({"kind": kind} if kind else {})
    return workload("trainer.kubeflow.org/v1alpha1", "TrainJob", runtimeRef=reference, **spec)


@pytest.mark.parametrize("kind", [None, "ClusterTrainingRuntime", "TrainingRuntime"])
def test_train_job_has_the_pods_of_its_runtime(kind):
    view = ManifestsView([runtime(kind or "ClusterTrainingRuntime", numNodes=2)])
    (pods,) = templates_of(train_job(kind, trainer={"resourcesPerNode": GPU}), view, DEFAULTS)
    (container,) = pods.template["spec"]["containers"]
    assert container == {"name": "node", "image": "torch", "resources": GPU}
    assert (pods.count.pods, str(pods.path)) == (2, "spec.runtimeRef")
    assert str(pods.home(("spec", "containers", 0, "resources", "limits"))) == "spec.trainer.resourcesPerNode.limits"
    assert str(pods.home(("spec", "nodeSelector", "a"))) == "spec.runtimeRef"


def test_nodes_of_a_train_job_win_over_those_of_its_runtime():
    document = train_job(trainer={"numNodes": 8})
    assert found(document, ManifestsView([runtime(numNodes=2)])) == {"spec.runtimeRef": (8, "spec.trainer.numNodes")}


def test_variables_of_a_trainer_are_added_to_those_of_the_runtime():
    view = ManifestsView([runtime()])
    job = train_job(trainer={"env": [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]})
    (pods,) = templates_of(job, view, DEFAULTS)
    assert pods.template["spec"]["containers"][0]["env"] == [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]


def test_train_job_whose_runtime_is_unknown_is_not_reviewed():
    assert found(train_job()) == {}
    assert unread(train_job()) == {
        "spec.runtimeRef": "its pods are made from ClusterTrainingRuntime torch, which is not known here"
    }


def test_patches_of_a_train_job_are_named_as_not_reviewed():
    document = train_job(runtimePatches=[{"manager": "kueue"}])
    assert unread(document, ManifestsView([runtime()])) == {
        "spec.runtimePatches": "its pods are reviewed without these changes"
    }


def test_runtime_is_reviewed_with_its_train_jobs():
    assert unread(runtime()) == {
        "spec.template": "a training runtime makes no pods of its own; they are reviewed with each TrainJob that uses it"
    }


def test_kind_of_the_settings_has_templates_and_counts():
    workers = [{"size": 4, "template": TEMPLATE}, {"template": SPEC}]
    document = workload("example.com/v1", "TrainingRun", replicas=2, head={"template": TEMPLATE}, workers=workers)
    settings = GPUAdmissionPolicy(workloads=Workloads((ADDED,)))
    assert found(document) == {}
    assert found(document, settings=settings) == {
        "spec.head.template": (2, "spec.replicas"),
        "spec.workers[0].template": (8, "spec.workers[0].size"),
        "spec.workers[1].template": (2, "spec.workers[1].size"),
    }


def test_kind_of_the_settings_without_counts_is_not_counted():
    settings = GPUAdmissionPolicy(workloads=Workloads((AddedKind("example.com", "TrainingRun", ("spec.template",)),)))
    document = workload("example.com/v1", "TrainingRun", template=TEMPLATE)
    assert found(document, settings=settings) == {"spec.template": None}


def test_kind_of_the_settings_wins_over_a_built_in_one():
    added = AddedKind("ray.io", "RayCluster", ("spec.pods",))
    settings = GPUAdmissionPolicy(workloads=Workloads((added,)))
    assert found(workload("ray.io/v1", "RayCluster", pods=TEMPLATE), settings=settings) == {"spec.pods": None}
