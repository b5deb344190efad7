"""The wait list: a row for each reason, alike pods together, workloads without pods, and what one namespace sees."""

import random
from datetime import UTC, datetime, timedelta

import pytest

from policies.analyses.explain import explain
from policies.analyses.wait_list import wait_list
from policies.analyses.wait_reasons import WaitReason, wait_cause
from policies.outcome import Audience, questions
from policies.rules.settings import DEFAULTS
from tests.explain.conftest import (
    BASE,
    claim,
    claiming,
    empty_list,
    gpus,
    holding,
    namespace,
    node,
    pod,
    resource_slice,
    selecting,
)
from webhook.cluster.manifests import ManifestsView

NOW = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)
QUOTAS = (empty_list("GPUQuota", "gpu-admission.io/v1alpha1"), empty_list("ResourceQuota"), empty_list("LimitRange"))
GPU_NODE = node(
    labels={"nvidia.com/gpu.product": "NVIDIA-L40S", "nvidia.com/gpu.count": "4"}, allocatable={"nvidia.com/gpu": "4"}
)


def aged(document, minutes=5, **metadata):
    created = f"{NOW - timedelta(minutes=minutes):%Y-%m-%dT%H:%M:%SZ}"
    return {**document, "metadata": {**document["metadata"], "creationTimestamp": created, **metadata}}


def waiting(name="train", count=1, minutes=5, **spec):
    return aged(pod({"nvidia.com/gpu": str(count)}, name=name, stored=True, **spec), minutes)


def claiming_pod(name, request=None, minutes=5, *, made=True):
    """A pod with a claim of its own that it names, and the claim."""
    own = [claim(request, name=f"{name}-gpus", stored=True)] if made else []
    return aged(pod(name=name, stored=True, resourceClaims=claiming(resourceClaimName=f"{name}-gpus")), minutes), *own


def busy(name="busy", count=4):
    return {**pod({"nvidia.com/gpu": str(count)}, name=name, nodeName="node-1"), "status": {"phase": "Running"}}


def workload(kind="Deployment", status=None, template=None, **spec):
    inside = template or pod({"nvidia.com/gpu": "2"})["spec"]
    document = {
        "apiVersion": "batch/v1" if kind == "Job" else "apps/v1",
        "kind": kind,
        "metadata": {"name": "web", "namespace": "team-a", "uid": "web"},
        "spec": {"template": {"metadata": {}, "spec": {**inside, "restartPolicy": "Never"}}, **spec},
        "status": {"observedGeneration": 1} if status is None else status,
    }
    return aged(document)


def quota(limit=1):
    return {
        "apiVersion": "gpu-admission.io/v1alpha1",
        "kind": "GPUQuota",
        "metadata": {"name": "gpu", "namespace": "team-a"},
        "spec": {"limits": [{"name": "all", "gpus": limit}]},
    }


def listed(*objects, audience=None):
    view = ManifestsView([*BASE, *QUOTAS, *objects])
    return wait_list(view, DEFAULTS, NOW, audience or Audience())


def only_row(*objects):
    (row,) = listed(*objects).rows
    return row


SLICE = resource_slice(gpus(4))
FAILURE = {
    "type": "ReplicaFailure",
    "status": "True",
    "reason": "FailedCreate",
    "message": 'pods "web-1" is forbidden: violates PodSecurity',
}
CREATE_ERROR = {"waiting": {"reason": "CreateContainerError", "message": "no such image"}}


@pytest.mark.parametrize(
    ("objects", "reason", "why", "remedy"),
    [
        (
            [GPU_NODE, busy(), waiting(count=4)],
            WaitReason.IN_USE,
            "the only fitting node is in use",
            "",
        ),
        (
            [GPU_NODE, waiting(nodeSelector={"nvidia.com/gpu.product": "NVIDIA-L4OS"})],
            WaitReason.NO_NODE,
            '"NVIDIA-L4OS" is the nvidia.com/gpu.product of no node',
            'write "NVIDIA-L40S"',
        ),
        (
            [GPU_NODE, quota(), workload(replicas=1)],
            WaitReason.QUOTA,
            'over quota: needs 2 GPUs, and limit "all" allows at most 1',
            "request fewer GPUs",
        ),
        (
            [GPU_NODE, workload(replicas=1, status={"conditions": [FAILURE]})],
            WaitReason.REFUSED,
            'its pods are refused: pods "web-1" is forbidden: violates PodSecurity',
            "kubectl describe deployment web -n team-a shows its events",
        ),
        (
            [node(), SLICE, *claiming_pod("train", made=False)],
            WaitReason.MISSING,
            "ResourceClaim team-a/train-gpus, which the pod calls gpus, does not exist",
            "create it, or correct resourceClaimName",
        ),
        (
            [
                node(),
                SLICE,
                *(
                    aged(each, deletionTimestamp="x") if each["kind"] == "ResourceClaim" else each
                    for each in claiming_pod("train")
                ),
            ],
            WaitReason.CLAIM,
            "ResourceClaim team-a/train-gpus is being deleted, so no pod gets it any more",
            None,
        ),
        (
            [node(), SLICE, *claiming_pod("train", selecting("device.no.such.field > 1"))],
            WaitReason.INVALID,
            None,
            None,
        ),
        (
            [GPU_NODE, waiting(schedulingGates=[{"name": "example.com/later"}])],
            WaitReason.GATED,
            "scheduling gate example.com/later keeps it from the scheduler",
            "the controller that sets the gate must remove it",
        ),
        (
            [
                GPU_NODE,
                {
                    **waiting(nodeName="node-1"),
                    "status": {"containerStatuses": [{"name": "main", "state": CREATE_ERROR}]},
                },
            ],
            WaitReason.NOT_STARTED,
            "bound to node node-1, and does not start: no such image (container main, CreateContainerError)",
            "",
        ),
        (
            [GPU_NODE, workload("Job", parallelism=3)],
            WaitReason.NOT_CREATED,
            "0 of 3 pods exist, and nothing says why the others do not",
            "kubectl describe job web -n team-a shows its events",
        ),
        (
            [GPU_NODE, waiting()],
            WaitReason.FITS,
            "fits 1 node now, and the scheduler has not bound it yet",
            "kubectl describe pod shows what the scheduler says",
        ),
        (
            [waiting()],
            WaitReason.UNKNOWN,
            "no Nodes are known, and the pod has no claim that would tell where it can run",
            None,
        ),
    ],
    ids=[str(each) for each in WaitReason],
)
def test_each_reason_has_its_words(objects, reason, why, remedy):
    row = only_row(*objects)
    assert row.reason is reason
    assert why in (None, row.why)
    assert remedy in (None, row.remedy)


def test_alike_pods_are_one_row_with_the_oldest_first():
    row = only_row(GPU_NODE, busy(), waiting("late", 4, minutes=2), waiting("early", 4, minutes=9))
    assert (row.label, row.count, row.pods) == ("team-a/early (x2)", 2, ("early", "late"))
    assert (row.wants, row.since) == ("4 x L40S", NOW - timedelta(minutes=9))


def test_pods_with_equal_claims_of_their_own_are_one_row():
    row = only_row(node(), SLICE, holding("busy", [0, 1, 2]), *claiming_pod("a", minutes=9), *claiming_pod("b"))
    assert (row.label, row.wants, row.fit_now) == ("team-a/a (x2)", "1 x H100-80GB-HBM3", 1)
    assert (row.reason, row.why) == (
        WaitReason.IN_USE,
        "1 of 2 fit now; for the others, all fitting nodes are in use",
    )


def test_bound_pods_with_one_failure_are_one_row():
    failing = [
        {**waiting(name, nodeName="node-1"), "status": {"containerStatuses": [{"name": "main", "state": CREATE_ERROR}]}}
        for name in ("a", "b")
    ]
    row = only_row(GPU_NODE, *failing)
    assert (row.label, row.pods, row.fit_text) == ("team-a/a (x2)", ("a", "b"), "")


def test_higher_priorities_come_first_then_what_waits_longest():
    rows = listed(
        GPU_NODE,
        waiting("new", 5, minutes=1),
        waiting("old", 6, minutes=60),
        waiting("urgent", 7, priority=1000),
    ).rows
    assert [row.name for row in rows] == ["urgent", "old", "new"]


def test_pod_of_a_few_seconds_does_not_wait_yet():
    young = waiting()
    young["metadata"]["creationTimestamp"] = f"{NOW - timedelta(seconds=20):%Y-%m-%dT%H:%M:%SZ}"
    found = listed(GPU_NODE, young)
    assert (found.rows, found.summary) == ((), "no pod waits for GPUs")


def test_pods_without_gpus_and_pods_that_run_ended_or_are_deleted_do_not_wait():
    ended = {**waiting("ended"), "status": {"phase": "Succeeded"}}
    deleted = aged(pod({"nvidia.com/gpu": "1"}, name="gone"), deletionTimestamp="2026-11-30T11:59:00Z")
    assert listed(GPU_NODE, aged(pod(name="web")), busy(), ended, deleted).rows == ()


def test_unknown_pods_are_not_no_pods():
    view = ManifestsView([namespace(), GPU_NODE])
    found = wait_list(view, DEFAULTS, NOW)
    assert (found.is_known, found.summary) == (
        False,
        "it is unknown which pods wait for GPUs, because pods are unknown",
    )


def test_reasons_are_counted_in_pods():
    found = listed(GPU_NODE, busy(), waiting("a", 4), waiting("b", 4), waiting("c", 5))
    assert found.summary == "3 pods wait for GPUs: fitting nodes in use (2), no node fits (1)"


def test_pod_that_kueue_holds_back_names_its_queue():
    gated = waiting(schedulingGates=[{"name": "kueue.x-k8s.io/admission"}])
    gated["metadata"]["labels"] = {"kueue.x-k8s.io/queue-name": "training"}
    row = only_row(GPU_NODE, gated)
    assert row.why == "Kueue has not admitted it to queue training"
    assert row.fit_now == 1


@pytest.mark.parametrize(
    ("labels", "why"),
    [
        ({}, "it is suspended"),
        ({"kueue.x-k8s.io/queue-name": "training"}, "Kueue has not admitted it to queue training"),
    ],
)
def test_suspended_job_is_held_back(labels, why):
    row = only_row(GPU_NODE, aged(workload("Job", parallelism=2, suspend=True), labels=labels))
    assert (row.label, row.reason, row.why) == ("Job team-a/web (x2)", WaitReason.GATED, why)


def test_job_waits_for_the_completions_that_are_left_only():
    job = workload("Job", parallelism=4, completions=10, status={"succeeded": 9})
    assert only_row(GPU_NODE, job).count == 1


def test_workload_with_all_its_pods_or_without_a_status_does_not_wait():
    never_run = workload(replicas=2, status={})
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "web", "uid": "web", "controller": True}
    running = busy(count=2)
    running["metadata"]["ownerReferences"] = [owner]
    assert listed(GPU_NODE, never_run).rows == ()
    assert listed(GPU_NODE, workload("Job", parallelism=1), running).rows == ()


def test_pods_that_the_status_counts_exist_even_if_the_view_lacks_what_is_between():
    row = only_row(GPU_NODE, workload(replicas=3, status={"replicas": 2}))
    assert (row.count, row.why) == (1, "2 of 3 pods exist, and nothing says why the others do not")


def test_workload_that_the_view_lacks_waits_until_the_pods_of_its_replica_set_exist():
    short = workload(replicas=2, status={"replicas": 0})
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-5d8f", "uid": "x", "controller": True}
    running = busy(count=2)
    running["metadata"].update(labels={"pod-template-hash": "5d8f"}, ownerReferences=[owner])
    for pods, counts in (((), [2]), ((running,), [1]), ((running, busy("other", 2)), [1])):
        view = ManifestsView([namespace(), GPU_NODE, *pods, {"apiVersion": "v1", "kind": "PodList", "items": []}])
        rows = wait_list(view, DEFAULTS, NOW, more_workloads=[short]).rows
        assert [row.count for row in rows] == counts


def test_finished_job_of_another_group_does_not_wait():
    job = workload("Job", tasks=[{"replicas": 1, "template": {"spec": pod({"nvidia.com/gpu": "1"})["spec"]}}])
    assert listed(GPU_NODE, {**job, "apiVersion": "batch.volcano.sh/v1alpha1"}).rows == ()


def test_event_of_a_controller_says_why_its_pods_are_missing():
    event = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": "web.1", "namespace": "team-a"},
        "reason": "FailedCreate",
        "message": 'pods "web-x" is forbidden: exceeded quota: team',
        "involvedObject": {"kind": "Job", "name": "web", "namespace": "team-a"},
    }
    row = only_row(GPU_NODE, workload("Job", parallelism=1), event)
    assert (row.reason, row.why) == (
        WaitReason.QUOTA,
        'its pods are refused: pods "web-x" is forbidden: exceeded quota: team',
    )


def test_pods_are_not_explained_if_facts_cannot_be_listed():
    view = ManifestsView([*BASE, GPU_NODE, waiting()])
    (row,) = wait_list(view, DEFAULTS, NOW, unexplained="you may not list nodes").rows
    assert (row.reason, row.why, row.fit_text) == (WaitReason.UNKNOWN, "you may not list nodes", "?")
    assert row.remedy == "run gpu-admission explain pod/train -n team-a"


def test_explaining_stops_when_the_time_is_up_and_what_waits_longest_is_explained():
    times = iter([True, False])
    view = ManifestsView([*BASE, GPU_NODE, waiting("late", 6, minutes=2), waiting("early", 5, minutes=9)])
    found = wait_list(view, DEFAULTS, NOW, has_time=lambda: next(times))
    assert [(row.name, row.reason) for row in found.rows] == [
        ("early", WaitReason.NO_NODE),
        ("late", WaitReason.UNKNOWN),
    ]
    assert found.summary == "2 pods wait for GPUs: no node fits (1), unknown (1); 1 of them was not explained"


def test_explaining_stops_after_so_many_nodes(monkeypatch):
    monkeypatch.setattr("policies.analyses.wait_list._MOST_VISITS", 2)
    pods = [waiting(f"train-{count}", count, minutes=90 - count) for count in (5, 6, 7, 8)]
    found = wait_list(ManifestsView([*BASE, GPU_NODE, *pods]), DEFAULTS, NOW)
    assert [row.why.partition(":")[0] for row in found.rows[2:]] == ["not explained", "not explained"]
    assert found.summary.endswith("; 2 of them were not explained")


def test_member_of_a_namespace_sees_only_its_rows_without_names_of_others():
    other = waiting("secret", 4)
    other["metadata"]["namespace"] = "team-b"
    stuck = {
        **waiting("stuck", nodeName="node-1"),
        "status": {"containerStatuses": [{"name": "main", "state": {"waiting": {"reason": "x", "message": "node-1"}}}]},
    }
    found = listed(GPU_NODE, busy(), namespace("team-b"), other, stuck, audience=Audience("team-a", sees_nodes=False))
    assert [row.label for row in found.rows] == ["team-a/stuck"]
    assert "node-1" not in found.rows[0].why


def _random_cluster(seed):
    """Nodes with plugin GPUs and with published devices, partly in use, and pods of a few templates that wait."""
    chance = random.Random(seed)
    objects = []
    for number in range(chance.randint(1, 4)):
        name = f"plugin-{number}"
        objects.append(
            node(name, labels={"nvidia.com/gpu.product": "NVIDIA-L40S"}, allocatable={"nvidia.com/gpu": "4"})
        )
        if chance.random() < 0.6:
            held = {"nvidia.com/gpu": str(chance.randint(1, 4))}
            objects.append({**pod(held, name=f"on-{name}", nodeName=name), "status": {"phase": "Running"}})
    for number in range(chance.randint(0, 3)):
        name = f"dra-{number}"
        objects += [node(name), resource_slice(gpus(4), name), holding(f"on-{name}", range(chance.randint(0, 4)), name)]
    for number in range(chance.randint(1, 8)):
        if chance.random() < 0.5:
            selector = {"nodeSelector": {"nvidia.com/gpu.product": chance.choice(["NVIDIA-L40S", "NVIDIA-L4OS"])}}
            objects.append(waiting(f"p{number}", chance.choice([1, 4, 8]), **chance.choice([{}, selector])))
        else:
            objects += claiming_pod(f"c{number}", {"count": chance.choice([1, 4])}, made=chance.random() < 0.8)
    return objects


@pytest.mark.parametrize("seed", range(20))
def test_every_pod_of_a_row_has_the_explanation_of_the_row(seed):
    objects = _random_cluster(seed)
    view = ManifestsView([*BASE, *QUOTAS, *objects])
    rows = wait_list(view, DEFAULTS, NOW).rows
    pods = {
        each["metadata"]["name"]: each for each in objects if each["kind"] == "Pod" and "nodeName" not in each["spec"]
    }
    assert sorted(name for row in rows for name in row.pods) == sorted(pods)
    for row in rows:
        for name in row.pods:
            (question,) = questions(pods[name], "team-a", view, DEFAULTS, found=True)
            own = wait_cause(explain(question, view, DEFAULTS))
            shared = row.reason is WaitReason.IN_USE and own.reason is WaitReason.FITS
            assert shared == ("fit now; for the others" in row.why)
            assert shared or (own.reason, own.why, own.remedy) == (row.reason, row.why, row.remedy)
