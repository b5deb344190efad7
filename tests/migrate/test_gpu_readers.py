"""Migration of objects whose controllers read nvidia.com/gpu in the manifest, or whose pods Kueue counts."""

from __future__ import annotations

import pytest

from policies.analyses.migrate.objects import migrate_object
from policies.rules.settings import DEFAULTS
from webhook.cluster.manifests import ManifestsView

QUEUED = {"kueue.x-k8s.io/queue-name": "research"}
GROUP = "grove.io/mnnvl-group"


def template(limits=None, *sidecars):
    containers = [limits or {"nvidia.com/gpu": 2}, *sidecars]
    return {
        "spec": {"containers": [{"name": f"c{i}", "resources": {"limits": each}} for i, each in enumerate(containers)]}
    }


def workload(version, kind, spec, **metadata):
    return {"apiVersion": version, "kind": kind, "metadata": {"name": "big", **metadata}, "spec": spec}


def migrate(document):
    return migrate_object(document, "team", ManifestsView([]), DEFAULTS, lambda *_: False)


def ray(head=None, **group):
    spec = {"headGroupSpec": {"rayStartParams": {}, "template": template(head or {"cpu": 1})}}
    return workload("ray.io/v1", "RayCluster", {**spec, "workerGroupSpecs": [{"template": template(), **group}]})


def workers(migrated):
    return migrated.after["spec"]["workerGroupSpecs"][0]


def test_gpus_of_ray_nodes_become_a_parameter():
    migrated = migrate(ray())
    assert workers(migrated)["rayStartParams"] == {"num-gpus": "2"}
    assert "limits" not in workers(migrated)["template"]["spec"]["containers"][0]["resources"]
    assert migrated.after["spec"]["headGroupSpec"]["rayStartParams"] == {}
    (notice,) = migrated.notices
    assert notice == (
        'spec.workerGroupSpecs[0].rayStartParams: num-gpus: "2" is added, because KubeRay read it from the limit of '
        "nvidia.com/gpu"
    )


def test_gpus_of_the_head_stand_beside_its_other_parameters():
    document = ray({"nvidia.com/gpu": 1})
    document["spec"]["headGroupSpec"]["rayStartParams"] = {"dashboard-host": "0.0.0.0"}
    head = migrate(document).after["spec"]["headGroupSpec"]
    assert head["rayStartParams"] == {"dashboard-host": "0.0.0.0", "num-gpus": "1"}


def test_gpus_of_ray_nodes_with_resources_of_the_group_stand_there():
    migrated = migrate(ray(resources={"CPU": "4"}))
    assert workers(migrated)["resources"] == {"CPU": "4", "GPU": "2"}
    assert "rayStartParams" not in workers(migrated)


def test_mig_devices_count_as_gpus_of_ray_nodes():
    migrated = migrate(ray(template=template({"nvidia.com/mig-1g.10gb": 3})))
    assert workers(migrated)["rayStartParams"] == {"num-gpus": "3"}


@pytest.mark.parametrize(
    "group",
    [
        {"rayStartParams": {"num-gpus": "8"}},
        {"resources": {"GPU": "8"}},
        {"template": template({"cpu": 1}, {"nvidia.com/gpu": 1})},
        {"template": template({"nvidia.com/mig-1g.10gb.me": 1})},
    ],
    ids=["parameter", "resources", "second container", "profile that KubeRay does not read"],
)
def test_ray_nodes_whose_limits_do_not_count_get_no_parameter(group):
    migrated = migrate(ray(**group))
    before = {key: value for key, value in group.items() if key != "template"}
    assert {key: value for key, value in workers(migrated).items() if key != "template"} == before
    assert migrated.notices == ()


def test_parameters_that_are_no_mapping_stay_as_they_are():
    migrated = migrate(ray(rayStartParams="text"))
    assert (workers(migrated)["rayStartParams"], migrated.notices) == ("text", ())


def clique_set(clique=None, scaling=None, **metadata):
    cliques = [{"name": "decode", "annotations": clique or {}, "spec": {"podSpec": template()["spec"]}}]
    groups = [{"name": "g", "cliqueNames": ["decode"], "annotations": scaling}] if scaling else []
    spec = {"template": {"cliques": cliques, "podCliqueScalingGroups": groups}}
    return workload("grove.io/v1alpha1", "PodCliqueSet", spec, **metadata)


@pytest.mark.parametrize(
    "document",
    [
        clique_set({GROUP: "a"}),
        clique_set(scaling={GROUP: "a"}),
        clique_set(annotations={GROUP: "a"}),
        clique_set({GROUP: "a"}, annotations={GROUP: "none"}),
    ],
    ids=["clique", "scaling group", "set", "clique before set"],
)
def test_gpus_of_an_nvlink_group_stay(document):
    migrated = migrate(document)
    assert (migrated.after, migrated.is_left) == (None, True)
    (reason,) = migrated.reasons
    assert reason == (
        "spec.template.cliques[0].spec.podSpec: keep nvidia.com/gpu: Grove gives a ComputeDomain to the cliques of a "
        "grove.io/mnnvl-group only if their containers name it"
    )


@pytest.mark.parametrize(
    "document", [clique_set(), clique_set({GROUP: "none"}, annotations={GROUP: "a"})], ids=["no group", "withdrawn"]
)
def test_gpus_of_cliques_outside_of_groups_are_migrated(document):
    assert migrate(document).after is not None


def service(**predictor):
    return workload("serving.kserve.io/v1beta1", "InferenceService", {"predictor": {**template()["spec"], **predictor}})


def test_gpus_of_an_inference_service_with_workers_stay():
    (reason,) = migrate(service(workerSpec={"pipelineParallelSize": 2})).reasons
    assert reason.startswith("spec.predictor.workerSpec: keep nvidia.com/gpu: KServe counts")


def test_inference_service_without_workers_is_migrated():
    assert migrate(service()).after is not None


def test_migrated_job_in_a_queue_needs_a_mapped_class():
    migrated = migrate(workload("batch/v1", "Job", {"template": template()}, labels=QUEUED))
    assert migrated.after is not None
    (notice,) = migrated.notices
    assert notice == (
        'metadata.labels[kueue.x-k8s.io/queue-name]: map DeviceClass "gpu.nvidia.com" in Kueue\'s deviceClassMappings: Kueue '
        "counts claims of mapped classes only, and fails the Workload of a queued object with others"
    )


def test_queue_of_a_cron_job_is_that_of_its_jobs():
    job = {"metadata": {"labels": QUEUED}, "spec": {"template": template({"nvidia.com/mig-1g.10gb": 1})}}
    (notice,) = migrate(workload("batch/v1", "CronJob", {"jobTemplate": job})).notices
    assert notice.startswith(
        'spec.jobTemplate.metadata.labels[kueue.x-k8s.io/queue-name]: map DeviceClass "mig.nvidia.com"'
    )


def test_job_without_a_queue_has_no_notice():
    assert migrate(workload("batch/v1", "Job", {"template": template()})).notices == ()


def test_deployment_in_a_queue_is_left():
    migrated = migrate(workload("apps/v1", "Deployment", {"template": template()}, labels=QUEUED))
    assert migrated.is_left
    assert [each.rule.id for each in migrated.findings] == ["GA316"]
