"""Plans of DeviceTaintRules: the pods that end, when, where they can start again, and what quotas count then."""

from __future__ import annotations

import pytest

from policies.outcome import Outcome
from policies.rules.settings import DEFAULTS
from tests.explain import conftest as k8s
from tests.explain.conftest import running
from tests.plan.nodes import bare_situation, plan

VERSION = {"serverVersion": {"gitVersion": "v1.37.1"}}
TEMPLATE = k8s.template()
REPLICA_SET = [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "controller": True}]
TOLERATION = {"operator": "Exists", "effect": "NoExecute"}


def cluster(*objects, nodes=1, gpus=1, version=VERSION):
    names = [f"node-{number}" for number in range(1, nodes + 1)]
    published = [k8s.resource_slice(k8s.gpus(gpus), name) for name in names]
    return bare_situation(version, TEMPLATE, *map(k8s.node, names), *published, *objects)


def rule(effect="NoExecute", **selector):
    return k8s.taint_rule(effect, **(selector or {"pool": "node-1"}))


def ended(found):
    return [(each.name, each.when, each.nodes) for each in found.evictions.ended]


def test_pods_that_hold_a_device_of_the_rule_end_and_can_start_elsewhere():
    pod, claim = running()
    pod["metadata"]["ownerReferences"] = REPLICA_SET
    found = plan(cluster(pod, claim, nodes=3), rule())
    assert ended(found) == [("pod team-a/train", "at once", ("node-2", "node-3"))]
    (only,) = found.evictions.ended
    assert (only.node, only.workload, only.taint) == (
        "node-1",
        "ReplicaSet web",
        "example.com/repair:NoExecute of DeviceTaintRule repair",
    )
    assert only.afterwards == "it can start again on node-2 and node-3"
    assert not found.is_harmless


def test_pod_without_a_controller_is_not_made_again():
    (only,) = plan(cluster(*running(), nodes=2), rule()).evictions.ended
    assert only.afterwards == "no controller makes it again; a pod like it can start again on node-2"


def test_pod_that_fits_nowhere_else_cannot_start_again():
    found = plan(cluster(*running()), rule())
    (only,) = found.evictions.ended
    assert only.nodes == ()
    assert "cannot start again: " in only.afterwards
    (lost,) = [each for each in found.fits if each.outcome is Outcome.LOST]
    assert lost.subject.pod_names == ("team-a/train",)


def test_pod_waits_where_others_hold_the_devices():
    (only,) = plan(cluster(*running(), *running("other", node="node-2"), nodes=2), rule()).evictions.ended
    assert "waits until others end" in only.afterwards


def test_pods_of_one_form_that_end_are_placed_while_the_others_go_on():
    found = plan(cluster(*running(), *running("other", [1]), *running("third", node="node-2"), nodes=2, gpus=2), rule())
    assert [each.nodes for each in found.evictions.ended] == [("node-2",)] * 2
    assert "1 of 2 pods that end like it find a place" in found.evictions.ended[0].afterwards


def test_pods_that_tolerate_the_taint_for_a_time_end_later_and_last():
    slow = running("slow", [1], tolerations=[{**TOLERATION, "tolerationSeconds": 90}])
    found = plan(cluster(*slow, *running(), gpus=2, nodes=2), rule())
    assert [each[:2] for each in ended(found)] == [
        ("pod team-a/train", "at once"),
        ("pod team-a/slow", "90 seconds after the taint is there"),
    ]


def test_pods_that_tolerate_the_taint_go_on():
    assert plan(cluster(*running(tolerations=[TOLERATION])), rule()).evictions.ended == ()


def test_rule_that_only_keeps_devices_from_new_pods_ends_none():
    found = plan(cluster(*running()), rule("NoSchedule"))
    assert found.evictions.ended == ()
    assert [each.subject.label for each in found.fits if each.outcome is Outcome.LOST] == ["pod team-a/train"]


def test_rule_without_effect_changes_nothing():
    assert plan(cluster(*running()), rule("None")).is_harmless


def test_rule_changes_nothing_where_the_cluster_applies_none():
    before = cluster(*running(), version={"serverVersion": {"gitVersion": "v1.36.2"}})
    assert plan(before, rule()).is_harmless


def test_pods_that_end_already_are_not_named_again():
    assert plan(cluster(*running(), rule()), rule(device="gpu-0")).evictions.ended == ()


def test_deleted_rule_keeps_pods_and_gives_others_a_place():
    waiting = k8s.pod(name="waiting", priority=7, resourceClaims=k8s.claiming(resourceClaimTemplateName="gpus"))
    going = running("going", tolerations=[{**TOLERATION, "tolerationSeconds": 90}])
    before = cluster(rule(), *going, waiting, gpus=2)
    found = plan(before, deleted=[("DeviceTaintRule", "", "repair")])
    assert found.evictions.kept == ("pod team-a/going",)
    assert [(each.subject, each.nodes) for each in found.found_places] == [("pod team-a/waiting", ("node-1",))]


def test_pod_with_devices_from_extended_resources_is_counted_apart():
    pod, claim = running()
    del pod["spec"]["resourceClaims"]
    pod["status"] = {"extendedResourceClaimStatus": {"resourceClaimName": "train-gpu"}}
    found = plan(cluster(pod, claim), rule())
    assert found.evictions.ended == ()
    assert [each for each in found.remarks if "extended resources" in each] == [
        "1 pod with such devices would go on: Kubernetes ends no pod whose devices come from extended resources"
    ]


def quota(amount="8"):
    return {
        "apiVersion": "gpu-admission.io/v1alpha1",
        "kind": "GPUQuota",
        "metadata": {"name": "gpu", "namespace": "team-a"},
        "spec": {"limits": [{"name": "all", "gpus": amount}]},
    }


def test_quotas_count_less_once_the_pods_have_ended():
    pod, claim = running()
    claim["metadata"]["annotations"] = {"resource.kubernetes.io/pod-claim-name": "gpus"}
    claim["metadata"]["ownerReferences"] = [
        {"apiVersion": "v1", "kind": "Pod", "name": "train", "uid": "uid-train", "controller": True}
    ]
    pod["metadata"]["uid"] = "uid-train"
    found = plan(cluster(pod, claim, *running("other", [1]), quota(), gpus=2), rule(device="gpu-0"))
    assert [(each.namespace, each.name, each.sentence) for each in found.evictions.freed] == [
        ("team-a", "all", "1 of 8 GPUs used once they have ended, before 2 of 8 GPUs")
    ]


@pytest.mark.parametrize(
    ("manifest", "effect", "expected"),
    [
        ({}, "NoExecute", "30 seconds after 2026-11-30T10:00:00Z"),
        ({}, "NoSchedule", "30 seconds after the taint is there"),
        ({"timeAdded": "2026-11-30T10:00:00Z"}, "NoSchedule", "30 seconds after the taint is there"),
        ({"timeAdded": "2026-11-30T12:00:00Z"}, "NoSchedule", "30 seconds after 2026-11-30T12:00:00Z"),
    ],
    ids=["same effect", "new effect", "new effect with the old time", "own time"],
)
def test_time_counts_from_that_of_the_stored_taint_until_the_effect_changes(manifest, effect, expected):
    time = {"timeAdded": "2026-11-30T10:00:00Z"}
    stored = k8s.taint_rule(effect, taint=time, pool="node-2")
    changed = k8s.taint_rule("NoExecute", taint=manifest, pool="node-1")
    pods = running(tolerations=[{**TOLERATION, "tolerationSeconds": 30}])
    (only,) = plan(cluster(stored, *pods, nodes=2), changed).evictions.ended
    assert only.when == expected


def test_only_pods_of_the_namespace_are_named():
    from policies.analyses.plan import PlannedChange, changed_objects, plan_change

    before = cluster(*running())
    objects = changed_objects({("DeviceTaintRule", "", "repair"): rule()}, [], before)
    assert before.settings is DEFAULTS
    assert plan_change(PlannedChange(before, objects, "team-b")).evictions.ended == ()
