"""Explanations from a live view, which does not have every object, never call an unknown object missing."""

import pytest

from policies.analyses.explain import explain, headroom
from policies.kubernetes.view import UNKNOWN
from policies.outcome import Feasibility, questions
from policies.rules.settings import DEFAULTS
from webhook.cluster.lookups import NotFoundError, find_resource, look_up
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
ONLY_WITH_GPUS = "only pods that may get GPUs, and have not ended, are known by name"
REMARK = "only pods that may get GPUs are known, so cpu and memory that other pods take of nodes count as free"


@pytest.mark.parametrize(
    ("name", "namespace", "sentence", "hint"),
    [
        ("web", "team-a", "Pod web in namespace team-a is unknown", ""),
        ("trian", "team-a", "Pod trian in namespace team-a is unknown", "; did you mean pod/train?"),
        ("train", "team-b", "Pod train in namespace team-b is unknown", "; one is in namespace team-a"),
    ],
    ids=["without GPUs", "misspelt", "elsewhere"],
)
def test_pod_that_is_not_kept_is_not_said_to_be_missing(cluster, name, namespace, sentence, hint):
    cluster.fill("Pod", TRAIN, WEB)
    with pytest.raises(NotFoundError) as reported:
        look_up(cluster.view, find_resource("pod"), name, namespace)
    assert str(reported.value) == f"{sentence}: {ONLY_WITH_GPUS}{hint}"
    assert not reported.value.is_certain


def test_pod_that_is_kept_is_found(cluster):
    cluster.fill("Pod", TRAIN, WEB)
    assert look_up(cluster.view, find_resource("pod"), "train", "team-a")["metadata"]["name"] == "train"


@pytest.mark.parametrize(("word", "kinds"), [("job", "Jobs"), ("sts", "StatefulSets"), ("lws", "LeaderWorkerSets")])
def test_workload_that_is_not_watched_is_not_said_to_be_missing(cluster, word, kinds):
    with pytest.raises(NotFoundError) as reported:
        look_up(cluster.view, find_resource(word), "train", "team-a")
    assert (str(reported.value), reported.value.is_certain) == (f"{kinds} are unknown", False)


def test_deployment_beside_that_of_the_gpu_operator_is_not_said_to_be_missing(cluster):
    cluster.fill("Deployment")
    with pytest.raises(NotFoundError) as reported:
        look_up(cluster.view, find_resource("deploy"), "web", "gpu-operator")
    assert (str(reported.value), reported.value.is_certain) == (
        "Deployment web in namespace gpu-operator is unknown",
        False,
    )


def test_claim_that_does_not_exist_is_said_to_be_missing(cluster):
    cluster.fill("ResourceClaim")
    with pytest.raises(NotFoundError) as reported:
        look_up(cluster.view, find_resource("claim"), "gpu", "team-a")
    assert (str(reported.value), reported.value.is_certain) == ("ResourceClaim gpu in namespace team-a not found", True)


def explained(view, **requests):
    """What is said to TRAIN, which may request more."""
    limits = {"nvidia.com/gpu": "1", **requests}
    pod = {**TRAIN, "spec": {"containers": [{"name": "main", "resources": {"limits": limits}}]}}
    (question,) = questions(pod, "team-a", view, DEFAULTS)
    return explain(question, view, DEFAULTS)


class Uncounted:
    """A view that does not know what pods take which it does not list."""

    def __init__(self, view):
        self._view = view

    def __getattr__(self, name):
        return getattr(self._view, name)

    def others_on(self, node):
        return UNKNOWN


def test_pods_that_are_not_counted_are_reported(cluster):
    cluster.fill("Node", NODE)
    cluster.fill("Pod", TRAIN, WEB)
    assert REMARK in explained(Uncounted(cluster.view)).remarks


def test_pods_that_are_counted_are_not_reported(cluster):
    cluster.fill("Node", NODE)
    cluster.fill("Pod", TRAIN, WEB)
    assert REMARK not in explained(cluster.view).remarks


def test_all_pods_are_counted_from_manifests():
    node = {"apiVersion": "v1", "kind": "Node", **NODE}
    view = ManifestsView([node, {"apiVersion": "v1", "kind": "PodList", "items": [WEB]}])
    assert REMARK not in explained(view).remarks


def test_unknown_pods_are_reported_once(cluster):
    cluster.fill("Node", NODE)
    assert [each for each in explained(cluster.view).remarks if "ods" in each] == [
        "no Pods are known, so nodes count as empty except for devices (add: kubectl get --raw /api/v1/pods > pods.json)"
    ]


def test_cpu_that_pods_without_gpus_take_is_not_free(cluster):
    busy = {"nodeName": "a", "containers": [{"name": "main", "resources": {"requests": {"cpu": "7"}}}]}
    cluster.fill("Node", NODE)
    cluster.fill("Pod", {**WEB, "spec": busy})
    answer = explained(cluster.view, cpu="2")
    assert (answer.verdict, answer.fit_now, answer.fit_if_empty) == (Feasibility.FULL, 0, 1)
    assert [group.reason.sentence for group in answer.groups] == [
        "2 cpu requested, 1 of 8 left beside the pods that run there"
    ]


def test_replicas_are_counted_beside_pods_without_gpus(cluster):
    busy = {"nodeName": "a", "containers": [{"name": "main", "resources": {"requests": {"cpu": "3"}}}]}
    cluster.fill("Node", {**NODE, "status": {"allocatable": {"nvidia.com/gpu": "8", "cpu": "8"}}})
    cluster.fill("Pod", {**WEB, "spec": busy})
    assert explained(cluster.view, cpu="2").replicas == 2


def test_pods_with_and_without_gpus_are_counted_together(cluster):
    def running(pod, **limits):
        spec = {"nodeName": "a", "containers": [{"name": "main", "resources": {"limits": {"cpu": "3", **limits}}}]}
        return {**pod, "spec": spec}

    cluster.fill("Node", {**NODE, "status": {"allocatable": {"nvidia.com/gpu": "8", "cpu": "8"}}})
    cluster.fill("Pod", running(WEB), running(TRAIN, **{"nvidia.com/gpu": "1"}))
    assert [group.reason.sentence for group in explained(cluster.view, cpu="4").groups] == [
        "4 cpu requested, 2 of 8 left beside the pods that run there"
    ]


def test_pods_that_come_later_are_counted(cluster):
    cluster.fill("Node", {**NODE, "status": {"allocatable": {"nvidia.com/gpu": "1", "pods": "1"}}})
    cluster.fill("Pod")
    before = explained(cluster.view).fit_now
    cluster.put("Pod", {**WEB, "spec": {"nodeName": "a", "containers": [{"name": "main"}]}})
    assert (before, explained(cluster.view).fit_now) == (1, 0)


def test_so_many_more_of_a_kept_pod_fit_as_of_the_whole_one(cluster):
    quota = {
        "apiVersion": "gpu-admission.io/v1alpha1",
        "kind": "GPUQuota",
        "metadata": {"name": "gpu", "namespace": "team-a"},
        "spec": {"limits": [{"name": "all", "gpus": 3}]},
    }
    node = {
        **NODE,
        "apiVersion": "v1",
        "kind": "Node",
        "status": {"allocatable": {"nvidia.com/gpu": "8", "pods": "110"}},
    }
    bound = {**TRAIN, "spec": {**TRAIN["spec"], "nodeName": "a", "volumes": [{"name": "v", "emptyDir": {}}]}}
    for kind, objects in {"Node": [node], "Pod": [bound, WEB], "GPUQuota": [quota]}.items():
        cluster.fill(kind, *objects)
    for kind in ("ResourceClaim", "ResourceSlice", "DeviceClass", "Namespace", "ClusterGPUQuota"):
        cluster.fill(kind)
    kept = look_up(cluster.view, find_resource("pod"), "train", "team-a")
    found = headroom(kept, "team-a", cluster.view, DEFAULTS)
    assert found.headline == '2 more fit: limit "all" of GPUQuota team-a/gpu has 2 GPUs left, each takes 1'
    assert (found.now, found.if_empty, found.remarks) == (7, 8, ())
