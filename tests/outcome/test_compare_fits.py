"""What a change of the cluster does to the places of pods and claims."""

import pytest

from policies.outcome import Outcome, compare_fits, subjects_of
from tests.explain import conftest as k8s
from tests.outcome.clusters import GPU, bound, changed, gpu_node, situation


def compared(before, after):
    """Outcome and sentence of each subject."""
    subjects = subjects_of(before.view, before.settings)
    return {each.subject.label: (each.outcome, each.sentence) for each in compare_fits(subjects, before, after)}


def test_pod_keeps_the_place_that_it_holds_itself():
    before = situation(gpu_node(gpus=1), bound("train"))
    assert compared(before, before) == {"pod team-a/train": (Outcome.KEPT, "fits 1 of 1 node now")}


def test_pod_whose_node_offers_nothing_any_more_is_lost_with_the_reason_on_that_node():
    before = situation(gpu_node(), k8s.node("cpu"), bound("train"))
    assert compared(before, changed(before, gpu_node(gpus=0))) == {
        "pod team-a/train": (
            Outcome.LOST,
            "fits none of 2 nodes: none has nvidia.com/gpu; on node-1: 1 nvidia.com/gpu requested, and the node has none",
        )
    }


def test_pods_of_which_only_some_find_a_place_are_lost():
    pods = [bound(f"web-{number}", owner="ReplicaSet/web") for number in range(3)]
    before = situation(gpu_node(gpus=3), *pods)
    assert compared(before, changed(before, gpu_node(gpus=2))) == {
        "ReplicaSet team-a/web": (Outcome.LOST, "only 2 of 3 pods would find a place; before, 3")
    }


def test_pod_finds_its_place_on_another_node():
    before = situation(gpu_node(), gpu_node("node-2"), bound("train"))
    after = changed(before, gpu_node(gpus=0))
    assert compared(before, after) == {"pod team-a/train": (Outcome.KEPT, "fits 1 of 2 nodes now")}


def test_pod_whose_other_place_is_held_by_others_is_lost():
    before = situation(
        gpu_node(), gpu_node("node-2", gpus=1), bound("train"), bound("other", "node-2", owner="ReplicaSet/o")
    )
    outcome, sentence = compared(before, changed(before, gpu_node(gpus=0)))["pod team-a/train"]
    assert (outcome, sentence.partition(";")[0]) == (Outcome.LOST, "fits none of 2 nodes now")


def test_pending_pod_gains_a_place():
    pod = k8s.pod({GPU: "4"}, name="train", stored=True)
    before = situation(gpu_node(), pod)
    after = changed(before, gpu_node(gpus=4))
    assert compared(before, after) == {"pod team-a/train": (Outcome.GAINED, "fits 1 of 1 node now")}


def test_claim_of_a_deleted_class_is_lost():
    before = situation(k8s.node(), k8s.resource_slice(k8s.gpus(1)), k8s.claim())
    after = changed(before, deleted=[("DeviceClass", "", "gpu.nvidia.com")])
    assert compared(before, after) == {
        "ResourceClaim team-a/gpus": (Outcome.LOST, "DeviceClass gpu.nvidia.com does not exist")
    }


def test_devices_that_a_pod_holds_by_its_claim_are_free_for_it():
    claim = k8s.holding("train", [0], namespace="team-a")
    pod = k8s.pod(
        name="train", stored=True, nodeName="node-1", resourceClaims=k8s.claiming(resourceClaimName="train-gpu")
    )
    before = situation(k8s.node(), k8s.resource_slice(k8s.gpus(1)), claim, pod)
    assert compared(before, before) == {"pod team-a/train": (Outcome.KEPT, "fits 1 of 1 node now")}


def test_claim_that_others_use_too_keeps_its_devices():
    claim = k8s.holding("train", [0], namespace="team-a")
    claim["status"]["reservedFor"].append({"resource": "pods", "name": "watch"})
    pod = k8s.pod(
        name="train", stored=True, nodeName="node-1", resourceClaims=k8s.claiming(resourceClaimName="train-gpu")
    )
    other = k8s.pod(
        {"cpu": "1"},
        name="watch",
        stored=True,
        nodeName="node-1",
        resourceClaims=k8s.claiming(resourceClaimName="train-gpu"),
    )
    before = situation(k8s.node(), k8s.node("node-2"), k8s.resource_slice(k8s.gpus(1)), claim, pod, other)
    assert compared(before, changed(before, k8s.node(unschedulable=True)))["pod team-a/train"][0] is Outcome.LOST


def test_what_is_not_known_is_unknown():
    pod = k8s.pod(name="train", resourceClaims=k8s.claiming(resourceClaimTemplateName="gpus"))
    before = situation(k8s.node(), pod)
    assert compared(before, before) == {
        "pod team-a/train": (
            Outcome.UNKNOWN,
            "unknown: ResourceClaimTemplate team-a/gpus is unknown, so the requests of claim gpus are unknown",
        )
    }


@pytest.mark.parametrize("known", [True, False])
def test_template_that_is_not_known_is_that_of_the_claim_made_from_it(known):
    claim = k8s.holding("train", [0], namespace="team-a")
    pod = k8s.pod(
        name="train", stored=True, nodeName="node-1", resourceClaims=k8s.claiming(resourceClaimTemplateName="gone")
    )
    pod["status"] = {"resourceClaimStatuses": [{"name": "gpus", "resourceClaimName": "train-gpu"}]}
    lists = [k8s.empty_list("ResourceClaimTemplate", "resource.k8s.io/v1")] if known else []
    before = situation(k8s.node(), k8s.resource_slice(k8s.gpus(1)), claim, pod, *lists)
    outcome, sentence = compared(before, before)["pod team-a/train"]
    missing = (
        "as before, ResourceClaimTemplate team-a/gone, from which claim gpus of the pod is to be made, does not exist"
    )
    assert (outcome, sentence) == (Outcome.KEPT, missing if known else "fits 1 of 1 node now")


def test_resource_quota_that_refuses_the_schedulers_claim_concerns_its_namespace_only():
    hard = {"gpu.nvidia.com.deviceclass.resource.k8s.io/devices": "1"}
    quota = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "q", "namespace": "team-a"},
        "spec": {"hard": hard},
    }
    limits = {"nvidia.com/gpu": "2"}
    pods = k8s.pod(limits, name="a", stored=True), k8s.pod(limits, name="b", stored=True, namespace="team-b")
    cluster = k8s.device_class(extendedResourceName="nvidia.com/gpu"), k8s.node(), k8s.resource_slice(k8s.gpus(8))
    before = situation(*cluster, *pods)
    found = compared(before, changed(before, quota))
    assert (found["pod team-a/a"][0], found["pod team-b/b"][0]) == (Outcome.LOST, Outcome.KEPT)
