"""Objects of a cluster by the kind and name that users write."""

import pytest

from policies.kubernetes.workloads import WORKLOAD_KINDS
from policies.rules.settings import AddedKind
from webhook.cluster.lookups import KindUnknownError, NotFoundError, find_resource, look_up
from webhook.cluster.manifests import ManifestsView


def thing(kind, name, namespace="team-a", version="v1"):
    metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
    return {"apiVersion": version, "kind": kind, "metadata": metadata}


CLUSTER = ManifestsView(
    [
        thing("Pod", "train"),
        thing("Pod", "eval", ""),
        thing("Pod", "train-2", "team-b"),
        thing("Pod", "train-2", "team-c"),
        thing("Deployment", "web", "", "apps/v1"),
        thing("Job", "volcanic", "team-a", "batch.volcano.sh/v1alpha1"),
    ]
)

ALL = (
    "supported kinds: pod, claim, template, podtemplate, replicationcontroller, daemonset, deployment, replicaset, "
    "statefulset, rollout, cronjob, job, podcliqueset, jobset, jaxjob, mpijob, paddlejob, pytorchjob, tfjob, xgboostjob, "
    "notebook, leaderworkerset, raycluster, rayjob, "
    "rayservice, inferenceservice, llminferenceservice, scheduledsparkapplication, sparkapplication, trainjob"
)


@pytest.mark.parametrize(
    ("word", "kind"),
    [
        ("pod", "Pod"),
        ("Pods", "Pod"),
        ("po", "Pod"),
        ("claim", "ResourceClaim"),
        ("resourceclaim.resource.k8s.io", "ResourceClaim"),
        ("template", "ResourceClaimTemplate"),
        ("resourceclaimtemplates", "ResourceClaimTemplate"),
        ("deploy", "Deployment"),
        ("deployment.apps", "Deployment"),
        ("job", "Job"),
        ("podtemplate", "PodTemplate"),
        ("rayclusters.ray.io", "RayCluster"),
        ("job.batch.volcano.sh", "Job"),
    ],
)
def test_kind_has_the_names_that_kubectl_knows(word, kind):
    assert find_resource(word).kind == kind


@pytest.mark.parametrize("kind", [kind for _, kind in WORKLOAD_KINDS])
def test_every_workload_is_called_by_its_kind(kind):
    assert find_resource(kind).kind == kind


@pytest.mark.parametrize("word", ["trainingrun", "trainingruns", "TrainingRun.example.com"])
def test_kind_of_the_settings_has_its_names_too(word):
    added = AddedKind("example.com", "TrainingRun", ("spec.template",))
    assert find_resource(word, [added]).group == "example.com"
    with pytest.raises(KindUnknownError):
        find_resource(word)


@pytest.mark.parametrize(
    ("word", "hint"),
    [
        ("pdo", "did you mean pod?"),
        ("deploymnet", "did you mean deployment?"),
        ("job.batch.example.com", "did you mean job?"),
        ("xyz", ALL),
    ],
)
def test_message_about_unknown_words_lists_the_known_ones(word, hint):
    with pytest.raises(KindUnknownError) as reported:
        find_resource(word)
    assert str(reported.value) == f"unknown kind {word}; {hint}"


def test_kinds_of_the_settings_are_among_those_there_are():
    added = AddedKind("example.com", "TrainingRun", ("spec.template",))
    for word, hint in (("traningrun", "did you mean trainingrun?"), ("xyz", f"{ALL}, trainingrun")):
        with pytest.raises(KindUnknownError) as reported:
            find_resource(word, [added])
        assert str(reported.value) == f"unknown kind {word}; {hint}"


@pytest.mark.parametrize(
    ("word", "resource"), [("pod", "pods"), ("claim", "resourceclaims.resource.k8s.io"), ("job", "jobs.batch")]
)
def test_resource_is_what_kubectl_gets(word, resource):
    assert find_resource(word).name == resource


@pytest.mark.parametrize(
    ("word", "name", "namespace"),
    [("pod", "train", "team-a"), ("pod", "eval", ""), ("pod", "eval", "default"), ("deployment", "web", "")],
)
def test_object_is_found_by_kind_name_and_namespace(word, name, namespace):
    assert look_up(CLUSTER, find_resource(word), name, namespace)["metadata"]["name"] == name


@pytest.mark.parametrize(
    ("word", "name", "namespace", "sentence"),
    [
        ("pod", "trian", "team-a", "Pod trian in namespace team-a not found; did you mean pod/train?"),
        ("pod", "train", "", "Pod train in namespace default not found; one is in namespace team-a"),
        ("pod", "train-2", "", "Pod train-2 in namespace default not found; one is in namespace team-b and 1 more"),
        ("pod", "x", "team-a", "Pod x in namespace team-a not found"),
        ("pod", "tra", "team-a", "Pod tra in namespace team-a not found; did you mean pod/train?"),
        (
            "pod",
            "eva",
            "team-b",
            "Pod eva in namespace team-b not found; did you mean pod/eval? It is in namespace default",
        ),
        ("deploy", "train", "team-a", "Deployment train in namespace team-a not found; did you mean pod/train?"),
        ("job", "volcanic", "team-a", "Job volcanic in namespace team-a not found"),
    ],
    ids=[
        "misspelt",
        "elsewhere",
        "in several namespaces",
        "nowhere",
        "of its workload",
        "near elsewhere",
        "of another kind",
        "of another group",
    ],
)
def test_message_about_a_missing_object_names_what_is_there(word, name, namespace, sentence):
    with pytest.raises(NotFoundError) as reported:
        look_up(CLUSTER, find_resource(word), name, namespace)
    assert (str(reported.value), reported.value.is_certain) == (sentence, True)


def test_object_of_a_kind_of_which_nothing_is_known_is_not_said_to_be_missing():
    with pytest.raises(NotFoundError) as reported:
        look_up(CLUSTER, find_resource("claim"), "gpu", "team-a")
    assert (str(reported.value), reported.value.is_certain) == ("ResourceClaims are unknown", False)
