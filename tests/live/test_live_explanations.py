"""Explanations from a live view: it does not know every object, and nothing is said to be missing that may be there."""

import pytest

from policies.explanation import explain, questions
from policies.settings import DEFAULTS
from policies.view import knows_all
from webhook.cluster.lookups import NotFoundError, kind_called, look_up
from webhook.cluster.manifests import ManifestsView

TRAIN = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "train", "namespace": "team-a"},
    "spec": {"containers": [{"name": "main", "resources": {"limits": {"nvidia.com/gpu": "1"}}}]},
}
WEB = {**TRAIN, "metadata": {"name": "web", "namespace": "team-a"}, "spec": {"containers": [{"name": "main"}]}}
NODE = {
    "metadata": {"name": "a"},
    "status": {"allocatable": {"nvidia.com/gpu": "1", "cpu": "8", "memory": "64Gi", "pods": "110"}},
}
ONLY_WITH_GPUS = "only pods that may get GPUs, and have not ended, are watched"
REMARK = "only pods that may get GPUs are known, so cpu and memory that other pods take of nodes count as free"


@pytest.mark.parametrize(
    ("name", "namespace", "sentence", "hint"),
    [
        ("web", "team-a", "Pod web in namespace team-a is not known", ""),
        ("trian", "team-a", "Pod trian in namespace team-a is not known", "; did you mean train?"),
        ("train", "team-b", "Pod train in namespace team-b is not known", "; one is in namespace team-a"),
    ],
    ids=["without GPUs", "misspelt", "elsewhere"],
)
def test_pod_that_is_not_kept_is_not_said_to_be_missing(cluster, name, namespace, sentence, hint):
    cluster.fill("Pod", TRAIN, WEB)
    with pytest.raises(NotFoundError) as told:
        look_up(cluster.view, kind_called("pod"), name, namespace)
    assert str(told.value) == f"{sentence}: {ONLY_WITH_GPUS}{hint}"
    assert not told.value.is_certain


def test_pod_that_is_kept_is_found(cluster):
    cluster.fill("Pod", TRAIN, WEB)
    assert look_up(cluster.view, kind_called("pod"), "train", "team-a")["metadata"]["name"] == "train"


@pytest.mark.parametrize(("word", "kinds"), [("job", "Jobs"), ("sts", "StatefulSets"), ("lws", "LeaderWorkerSets")])
def test_workload_that_is_not_watched_is_not_said_to_be_missing(cluster, word, kinds):
    with pytest.raises(NotFoundError) as told:
        look_up(cluster.view, kind_called(word), "train", "team-a")
    assert (str(told.value), told.value.is_certain) == (f"no {kinds} are known", False)


def test_deployment_beside_that_of_the_gpu_operator_is_not_said_to_be_missing(cluster):
    cluster.fill("Deployment")
    with pytest.raises(NotFoundError) as told:
        look_up(cluster.view, kind_called("deploy"), "web", "gpu-operator")
    assert (str(told.value), told.value.is_certain) == (
        "Deployment web in namespace gpu-operator is not known",
        False,
    )


def test_claim_that_does_not_exist_is_said_to_be_missing(cluster):
    cluster.fill("ResourceClaim")
    with pytest.raises(NotFoundError) as told:
        look_up(cluster.view, kind_called("claim"), "gpu", "team-a")
    assert (str(told.value), told.value.is_certain) == ("there is no ResourceClaim gpu in namespace team-a", True)


def remarks(view):
    (question,) = questions(TRAIN, "team-a", view, DEFAULTS)
    return explain(question, view, DEFAULTS).remarks


def test_pods_that_are_not_counted_are_told(cluster):
    cluster.fill("Node", NODE)
    cluster.fill("Pod", TRAIN, WEB)
    assert REMARK in remarks(cluster.view)


def test_all_pods_are_counted_from_manifests():
    node = {"apiVersion": "v1", "kind": "Node", **NODE}
    assert REMARK not in remarks(ManifestsView([node, {"apiVersion": "v1", "kind": "PodList", "items": [WEB]}]))


def test_view_knows_whether_it_knows_all(cluster):
    cluster.fill("Node", NODE)
    cluster.fill("Pod", TRAIN)
    assert [knows_all(cluster.view, kind) for kind in ("Node", "Pod", "Job")] == [True, False, False]
