"""Pods of one template are reviewed once, as long as nothing changes that the answer depends on."""

import asyncio
import json
from dataclasses import replace

import pytest

from policies.admission.webhooks import ENTRIES
from policies.rules.settings import DEFAULTS, Access, Exemption
from tests.server.memo.pods_and_clusters import ChangingCluster, body_of
from webhook.server import admission, driver
from webhook.server.metrics import Metrics

OBJECTS = [
    {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": "team-a", "labels": {"gpu-admission.io/dra": "enabled"}},
    },
    {"apiVersion": "v1", "kind": "NodeList", "items": []},
    {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSliceList", "items": []},
    {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaimTemplateList", "items": []},
    {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceClass",
        "metadata": {"name": "gpu.nvidia.com"},
        "spec": {"selectors": [{"cel": {"expression": "device.driver == 'gpu.nvidia.com'"}}]},
    },
]
ALICE = replace(DEFAULTS, exemptions=(Exemption(users=("alice",), from_=("GA4*",)),))


@pytest.fixture
def cluster():
    return ChangingCluster(OBJECTS, DEFAULTS)


@pytest.fixture
def reviewed(monkeypatch):
    """The concerns that rules were asked about."""
    reviewed, real = [], driver.judge

    def judge(step, view, settings):
        reviewed.append(step.part.concern)
        return real(step, view, settings)

    monkeypatch.setattr(driver, "judge", judge)
    return reviewed


@pytest.fixture
def ask(cluster):
    with asyncio.Runner() as runner:

        def ask(pod, entry="convert-pods", **review):
            return json.loads(cluster.answer(runner.run, entry, body_of(pod, **review), remembers=True))["response"]

        yield ask


def train(number=0, **metadata):
    amounts = {"nvidia.com/gpu": "1"}
    container = {"name": "main", "image": "train:1", "resources": {"limits": amounts, "requests": dict(amounts)}}
    own = {"name": f"train-{number}", "uid": f"uid-{number}", "namespace": "team-a", "labels": {}, "annotations": {}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": own | metadata, "spec": {"containers": [container]}}


def hosted(number):
    pod = train(number)
    pod["spec"]["hostname"] = f"train-{number}"
    return pod


def with_token(number):
    """A pod with the volume that the API server adds before it calls webhooks."""
    pod, name = train(number), f"kube-api-access-{number:05}"
    pod["spec"]["volumes"] = [{"name": name, "projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]}}]
    pod["spec"]["containers"][0]["volumeMounts"] = [{"name": name, "mountPath": "/var/run/secrets"}]
    return pod


def of_job(number):
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": f"nightly-{number}", "uid": f"job-{number}"}
    return train(number, ownerReferences=[{**owner, "controller": True}])


def with_claim(number):
    pod = train(number)
    pod["spec"]["volumes"] = [{"name": "data", "persistentVolumeClaim": {"claimName": f"data-{number}"}}]
    return pod


def test_third_pod_of_a_template_is_not_reviewed(ask, reviewed):
    answers = [ask(train(number)) for number in range(4)]
    assert reviewed == ["conversion", "placement"] * 2
    assert [answer["uid"] for answer in answers] == [f"uid-{number}" for number in range(4)]
    assert len({answer["patch"] for answer in answers}) == 1


@pytest.mark.parametrize(
    "pod",
    [
        lambda number: train(number, generateName=f"train-{number}-"),
        lambda number: train(number, creationTimestamp=f"2026-01-01T00:00:0{number}Z"),
        lambda number: train(number, managedFields=[{"manager": str(number)}]),
        lambda number: train(number, labels={"batch.kubernetes.io/job-completion-index": str(number)}),
        lambda number: train(number, annotations={"batch.kubernetes.io/job-completion-index": str(number)}),
        lambda number: train(number, labels={"statefulset.kubernetes.io/pod-name": f"train-{number}"}),
        lambda number: train(number, labels={"batch.kubernetes.io/job-name": f"nightly-{number}"}),
        lambda number: train(number, annotations={"example.com/started-by": str(number)}),
        hosted,
        with_token,
        of_job,
        with_claim,
    ],
    ids=[
        *("generateName", "creationTimestamp", "managedFields", "label", "annotation", "StatefulSet", "Job's label"),
        *("other annotation", "hostname", "token", "Job", "claim"),
    ],
)
def test_fields_that_differ_within_a_template_make_no_difference(ask, reviewed, pod):
    for number in range(4):
        ask(pod(number))
    assert len(reviewed) == 4


@pytest.mark.parametrize(
    "other",
    [
        {"labels": {"kueue.x-k8s.io/queue-name": "a"}},
        {"annotations": {"gpu-admission.io/product": "H100*"}},
        {"ownerReferences": [{"kind": "Job", "name": "train", "controller": True}]},
        {"labels": {"batch.kubernetes.io/job-completion-index": 7}},
    ],
    ids=["label", "annotation", "owner", "label of another type"],
)
def test_pod_with_other_metadata_is_reviewed(ask, reviewed, other):
    for number in range(3):
        ask(train(number))
    reviewed.clear()
    ask(train(3, **other))
    assert reviewed[0] == "conversion"


@pytest.mark.parametrize(
    "review",
    [{"dry_run": True}, {"namespace": "team-b"}, {"entry": "place-pods"}],
    ids=["dry run", "namespace", "entry"],
)
def test_request_of_another_kind_is_reviewed(ask, reviewed, review):
    for number in range(3):
        ask(train(number))
    reviewed.clear()
    ask(train(3), **review)
    assert reviewed


def test_user_with_other_exemptions_has_an_answer_of_his_own(cluster, ask, reviewed):
    cluster.settings = ALICE
    for number in range(3):
        ask(train(number), user="bob")
    reviewed.clear()
    ask(train(3), user="carol")
    assert reviewed == []
    ask(train(4), user="alice")
    assert reviewed == ["conversion", "placement"]


def test_new_settings_make_answers_outdated(cluster, ask, reviewed):
    for number in range(3):
        ask(train(number))
    cluster.settings = replace(DEFAULTS, access=Access(mode="warn"))
    reviewed.clear()
    ask(train(3))
    ask(train(4))
    assert reviewed == ["conversion", "placement"]


def test_change_of_what_was_read_makes_an_answer_outdated(cluster, ask, reviewed):
    for number in range(3):
        ask(train(number))
    reviewed.clear()
    cluster.put({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team-a", "labels": {}}})
    ask(train(3))
    assert reviewed == ["conversion", "placement"]


def test_change_of_other_objects_of_a_kind_leaves_answers(cluster, ask, reviewed):
    for number in range(3):
        ask(train(number))
    reviewed.clear()
    cluster.put({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team-b", "labels": {}}})
    running = {"nodeName": "node-0", "priority": 0, "containers": train()["spec"]["containers"]}
    cluster.put({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "b", "namespace": "team-b"}, "spec": running})
    ask(train(3))
    assert reviewed == []


def test_cluster_that_becomes_unknown_makes_an_answer_outdated(cluster, ask, reviewed):
    for number in range(3):
        ask(train(number))
    for store in cluster.stores_of("DeviceClass"):
        store.mark("stale")
    ask(train(3))
    reviewed.clear()
    ask(train(4))
    assert reviewed == []
    cluster.now += 3600
    ask(train(5))
    assert reviewed == ["conversion", "placement"]


def test_another_version_of_the_api_server_makes_an_answer_outdated(cluster, ask, reviewed):
    for number in range(3):
        ask(train(number))
    reviewed.clear()
    cluster.view.set_server_version((1, 34))
    ask(train(3))
    assert reviewed == ["conversion", "placement"]


def test_pod_that_could_be_preempted_makes_an_answer_outdated(cluster, ask):
    def urgent(number):
        pod = train(number)
        pod["spec"]["priority"] = 7
        return pod

    assert ["warnings" in ask(urgent(number)) for number in range(3)] == [False] * 3
    running = {"nodeName": "node-0", "priority": 3, "containers": train()["spec"]["containers"]}
    cluster.put({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "b", "namespace": "team-b"}, "spec": running})
    assert ask(urgent(3))["warnings"][-1].endswith(" [GA335]")


def test_refusals_are_kept_too(ask, reviewed):
    pods = [train(number, labels={}) for number in range(4)]
    for pod in pods:
        pod["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] = "0.5"
    messages = {ask(pod)["status"]["message"] for pod in pods}
    assert len(messages) == 1
    assert reviewed == ["conversion"] * 2


def test_failure_is_not_kept(cluster, ask, monkeypatch):
    calls, real = [], driver.judge

    def judge(step, view, settings):
        calls.append(step.part.concern)
        if step.part.concern == "placement" and len(calls) < 8:
            raise KeyError(step.part.concern)
        return real(step, view, settings)

    monkeypatch.setattr(driver, "judge", judge)
    warned = ["warnings" in ask(train(number)) for number in range(6)]
    assert warned == [True, True, True, False, False, False]
    assert len(calls) == 8
    assert len(cluster.server._memo.answers) == 1


def test_pods_that_never_repeat_are_not_kept(cluster, ask):
    for number in range(20):
        ask(train(number, labels={"gpu-admission.io/x": str(number)}))
    assert len(cluster.server._memo.answers) == 0


def test_quota_is_asked_about_every_pod(cluster, ask, reviewed):
    quota = {"spec": {"limits": []}, "metadata": {"name": "gpu", "namespace": "team-b"}}
    cluster.put({"apiVersion": "gpu-admission.io/v1alpha1", "kind": "GPUQuota", **quota})
    for number in range(4):
        ask(train(number), "check-pods", namespace="team-b")
    assert reviewed == ["access", "quota"] * 2 + ["quota"] * 2


def test_every_answer_is_counted(cluster, ask):
    cluster.server = admission.Admission(cluster.view, lambda: DEFAULTS, metrics := Metrics())
    for number in range(4):
        ask(train(number))
    value = metrics.registry.get_sample_value
    assert value("gpu_admission_requests_total", {"webhook": "convert-pods", "verdict": "changed"}) == 4
    assert value("gpu_admission_conversions_total", {"outcome": "converted"}) == 4


def test_large_pods_are_not_kept(cluster, ask):
    for number in range(4):
        ask(train(number, annotations={"gpu-admission.io/notes": "n" * 40_000}))
    assert len(cluster.server._memo.answers) == 0


def test_forged_creation_with_an_old_object_is_not_kept(cluster, ask):
    for number in range(4):
        ask(train(number), old=train())
    assert len(cluster.server._memo.answers) == 0


@pytest.mark.parametrize("entry", ["claims", "workloads", "configuration", "reapply"])
def test_entries_about_other_objects_keep_nothing(cluster, ask, entry):
    assert entry in ENTRIES
    for number in range(4):
        ask(train(number), entry)
    assert len(cluster.server._memo.answers) == 0
