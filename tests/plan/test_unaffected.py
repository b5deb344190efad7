"""Subjects that a plan leaves out because the change cannot concern them: a whole comparison says the same."""

import pytest

from policies.analyses.plan import PlannedChange, changed_objects, key_of, plan_change, predict
from policies.outcome import Outcome, compare_fits, subjects_of
from tests.explain import conftest as k8s
from tests.outcome.clusters import bound
from tests.plan.nodes import config_map, gpu_node, policy, situation, time_slicing

OFF = {"nvidia.com/gpu.deploy.device-plugin": "false"}
PODS = [
    *(bound(f"web-{number}", f"node-{number % 3}", gpus=2, owner="ReplicaSet/web") for number in range(4)),
    *(bound(f"api-{number}", "node-2", owner="ReplicaSet/api") for number in range(2)),
    bound("pinned", "node-0", nodeSelector={"kubernetes.io/hostname": "node-0"}),
    bound("product", "node-1", nodeSelector={"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-40GB"}),
    k8s.pod({"nvidia.com/gpu": "8"}, name="waits", stored=True),
    k8s.pod({"nvidia.com/mig-1g.5gb": "1"}, name="part", stored=True),
]
CLAIMED = k8s.pod(
    name="claimed", stored=True, nodeName="dra-0", resourceClaims=k8s.claiming(resourceClaimName="claimed-gpu")
)
OBJECTS = [
    *(gpu_node(f"node-{number}") for number in range(3)),
    *(gpu_node(f"dra-{number}", gpus=2, labels=OFF, cpu="8") for number in range(2)),
    *(k8s.resource_slice(k8s.gpus(2), f"dra-{number}") for number in range(2)),
    k8s.holding("claimed", [0], "dra-0", namespace="team-a"),
    CLAIMED,
    *PODS,
]
CHANGES = {
    "one node is cut": [gpu_node("node-0", labels={"nvidia.com/mig.config": "all-1g.5gb"})],
    "one node loses its plugin": [gpu_node("node-2", labels=OFF)],
    "all are shared": [config_map(whole=time_slicing())],
    "the plugin is disabled": [policy(devicePlugin={"enabled": False})],
    "a node is tainted": [gpu_node("node-1", taints=[{"key": "a", "effect": "NoSchedule"}])],
    "a namespace converts": [k8s.namespace(**{"gpu-admission.io/dra": "enabled"})],
    "devices are cut": [gpu_node("dra-0", gpus=2, labels={**OFF, "nvidia.com/mig.config": "all-1g.5gb"}, cpu="8")],
}


@pytest.mark.parametrize("name", CHANGES)
def test_plan_agrees_with_a_comparison_of_everything(name):
    before = situation(*OBJECTS)
    objects = changed_objects({key_of(each, "", before): each for each in CHANGES[name]}, [], before)
    plan = plan_change(PlannedChange(before, objects))
    after = predict(before, objects, before.settings).after
    whole = {each.subject.label: each.outcome for each in compare_fits(subjects_of(*before), before, after)}
    doubtful = {each.subject.label for each in plan.fits if each.outcome is Outcome.UNKNOWN}
    found = {each.subject.label: each.outcome for each in plan.fits}
    assert found.keys() | {each.label for each in plan.unaffected} == whole.keys()
    assert {label: outcome for label, outcome in whole.items() if label not in doubtful} == {
        **{each.label: Outcome.KEPT for each in plan.unaffected},
        **{label: outcome for label, outcome in found.items() if label not in doubtful},
    }


def test_pods_of_other_namespaces_are_left_out():
    before = situation(*OBJECTS, k8s.namespace("team-b"), bound("other", "node-0", namespace="team-b"))
    change = k8s.namespace(**{"gpu-admission.io/dra": "enabled"})
    plan = plan_change(PlannedChange(before, changed_objects({key_of(change, "", before): change}, [], before)))
    assert [each.label for each in plan.unaffected] == ["pod team-b/other"]


def test_pods_on_other_nodes_are_left_out():
    before = situation(*OBJECTS)
    change = CHANGES["one node loses its plugin"]
    objects = changed_objects({key_of(each, "", before): each for each in change}, [], before)
    left_out = {each.label for each in plan_change(PlannedChange(before, objects)).unaffected}
    assert left_out >= {"pod team-a/pinned", "pod team-a/product", "pod team-a/claimed"}
    assert "ReplicaSet team-a/api" not in left_out
