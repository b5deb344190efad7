"""Pods in the list of those that wait: bound, holding devices, and not running."""

from datetime import UTC, datetime, timedelta

from policies.analyses.waiting import stuck_pods
from tests.nvidia.start_failure_texts import PREPARE
from tests.usage.usage_objects import NOTHING, pod
from webhook.cluster.manifests import ManifestsView

NOW = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)
WAITING = [{"name": "main", "state": {"waiting": {"reason": "ContainerCreating"}}}]


def bound(name="train", minutes=30, statuses=WAITING, phase="Pending", **more):
    found = pod(name, status={"phase": phase, "containerStatuses": statuses}, **more)
    created = f"{NOW - timedelta(minutes=minutes):%Y-%m-%dT%H:%M:%SZ}"
    return {**found, "metadata": {**found["metadata"], "uid": name, "creationTimestamp": created}}


def event(name="train"):
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": f"{name}.1", "namespace": "team-a"},
        "type": "Warning",
        "reason": "FailedPrepareDynamicResources",
        "message": f"{PREPARE}NodePrepareResources skipped 1 ResourceClaims",
        "involvedObject": {"kind": "Pod", "namespace": "team-a", "name": name, "uid": name},
    }


def stuck(*objects):
    return stuck_pods(ManifestsView([*NOTHING, *objects]), NOW)


def test_pod_with_a_failure_is_stuck_at_once():
    (found,) = stuck(bound(minutes=1), event())
    assert (found.namespace, found.pod, found.node) == ("team-a", "train", "node-1")
    assert found.reason.startswith("a driver gave no answer about 1 claims in 45 seconds")


def test_young_pod_without_a_failure_may_still_start():
    assert stuck(bound(minutes=5)) == ()


def test_old_pod_without_a_failure_is_stuck_for_an_unknown_reason():
    (found,) = stuck(bound(minutes=30))
    assert found.reason == "waits for container main, and nothing says why"


def test_pods_that_run_ended_are_deleted_or_have_no_node_are_not_stuck():
    running = [{"name": "main", "state": {"running": {}}}]
    deleted = bound("c")
    deleted["metadata"]["deletionTimestamp"] = "2026-11-30T11:59:00Z"
    assert (
        stuck(
            bound("a", statuses=running, phase="Running"), bound("b", phase="Failed"), deleted, bound("d", node_name="")
        )
        == ()
    )


def test_pod_without_gpus_is_not_listed():
    assert stuck(bound(gpus=0)) == ()


def test_pods_are_sorted():
    assert [each.pod for each in stuck(bound("b"), bound("a"))] == ["a", "b"]
