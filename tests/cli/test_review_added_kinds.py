"""`gpu-admission review` of workloads of other projects, and of kinds that the settings add."""

from __future__ import annotations

from testbed import libyaml

GPU = {"limits": {"nvidia.com/gpu": 1}}
POD = {"containers": [{"name": "train", "image": "train", "resources": GPU}]}
POLICY = {
    "apiVersion": "gpu-admission.io/v1alpha1",
    "kind": "GPUAdmissionPolicy",
    "metadata": {"name": "default"},
    "spec": {"workloads": {"kinds": [{"group": "example.com", "kind": "TrainingRun", "templates": ["spec.pods[*]"]}]}},
}


def workload(version, kind, **spec):
    return {"apiVersion": version, "kind": kind, "metadata": {"name": "train", "namespace": "team-a"}, "spec": spec}


def shown(invoke, cluster, file, *options):
    """The workload as it is shown with its pods admitted, before the templates of its claims."""
    done = invoke("review", "--cluster", cluster, "-o", "yaml", *options, file)
    assert done.exit_code == 0, done.output
    return next(libyaml.load_all(done.stdout))["spec"]


def test_clique_is_shown_as_its_pods_are_converted(invoke, cluster, write):
    cliques = [{"name": "worker", "labels": {"app": "a"}, "spec": {"replicas": 2, "podSpec": POD}}]
    document = workload("grove.io/v1alpha1", "PodCliqueSet", replicas=1, template={"cliques": cliques})
    clique = shown(invoke, cluster, write("set.yaml", document))["template"]["cliques"][0]
    assert "claims" in clique["spec"]["podSpec"]["containers"][0]["resources"]
    assert clique["labels"] == {"app": "a", "gpu-admission.io/managed": "true"}
    assert clique["annotations"].keys() == {"gpu-admission.io/converted"}


def test_model_is_shown_as_it_is(invoke, cluster, write):
    document = workload("serving.kserve.io/v1beta1", "InferenceService", predictor={"model": {"resources": GPU}})
    spec = shown(invoke, cluster, write("service.yaml", document))
    assert spec["predictor"]["model"]["resources"]["limits"] == {"nvidia.com/gpu": 1}


def test_kind_of_the_settings_is_shown_as_its_pods_are_converted(invoke, cluster, write):
    file = write("run.yaml", workload("example.com/v1", "TrainingRun", pods=[POD, {"spec": POD}]))
    spec, template = shown(invoke, cluster, file, "--settings", write("settings.yaml", POLICY))["pods"]
    assert "claims" in spec["containers"][0]["resources"]
    assert "claims" in template["spec"]["containers"][0]["resources"]
    assert template["metadata"]["labels"] == {"gpu-admission.io/managed": "true"}


def test_pods_that_are_not_reviewed_are_named_beside_those_that_are(invoke, cluster, write):
    document = workload(
        "sparkoperator.k8s.io/v1beta2",
        "SparkApplication",
        driver={"template": {"spec": POD}},
        executor={"gpu": {"name": "nvidia.com/gpu", "quantity": 1}},
    )
    done = invoke("review", "--cluster", cluster, write("spark.yaml", document))
    assert done.exit_code == 4
    said = (
        "Review the pods that it makes: the object mentions GPUs, but was not reviewed: Spark writes it into the pods"
    )
    assert said in " ".join(done.stdout.split()).replace("Warning: ", "")
