"""Plans of cutovers: inventories, waves, what must be done by hand, and the failures that others met."""

from __future__ import annotations

import shlex

import pytest

from policies.admission import review
from policies.analyses.cutover import CutoverError, cutover_documents, open_points, plan_cutover
from policies.kubernetes.workloads import group_of
from policies.outcome import Outcome
from policies.rules.request import Request
from policies.rules.settings import DEFAULTS
from tests.explain import conftest as k8s
from tests.outcome.clusters import BASE, GPU, bound
from tests.plan.nodes import gpu_node, policy
from webhook.cluster.manifests import ManifestsView

VERSION = {"serverVersion": {"gitVersion": "v1.36.2"}}
DRIVER = {"nvidia.com/cuda.driver-version.full": "580.95.05"}
WAVE = "gpu-admission.io/cutover-wave"
PLUGIN = "nvidia.com/gpu.deploy.device-plugin"
HELM = {"meta.helm.sh/release-name": "gpus", "meta.helm.sh/release-namespace": "nvidia"}
OLD = {"metadata": {"name": "cluster-policy", "labels": {"helm.sh/chart": "gpu-operator-v26.3.1"}}}


def node(name="node-1", **rest):
    return gpu_node(name, gpus=2, labels={**DRIVER, **rest.pop("labels", {})}, **rest)


def view(*objects, **spec):
    return ManifestsView([*BASE, VERSION, policy(**spec), *objects])


def plan(*objects, **spec):
    return plan_cutover(view(*objects, **spec), DEFAULTS, "cutover")


def by_hand(found, word):
    return [each for each in found.by_hand if word in each]


def commands(found, step):
    return next(each.commands for each in found.steps if each.id == step)


def test_nothing_is_planned_without_a_cluster_policy():
    with pytest.raises(CutoverError, match="begins with the ClusterPolicy"):
        plan_cutover(ManifestsView([*BASE, node()]), DEFAULTS, "cutover")


def test_first_wave_has_one_node_of_each_product():
    nodes = [node(f"a100-{number}") for number in range(8)]
    others = [node(f"t4-{number}", product="Tesla-T4", memory="15360") for number in range(4)]
    waves = plan(*nodes, *others).waves
    assert waves[0].products == {"NVIDIA-A100-SXM4-40GB": 1, "Tesla-T4": 1}
    assert [len(each.nodes) for each in waves] == [2, 3, 3, 3, 1]


def test_wave_is_no_larger_than_the_room_for_its_pods():
    busy = [node(f"node-{number}") for number in range(8)]
    pods = [bound(f"train-{number}", f"node-{number}", gpus=2) for number in range(7)]
    waves = plan(*busy, *pods).waves
    assert {len(each.nodes) for each in waves} == {1}
    assert not waves[0].homeless


def test_wave_without_room_says_so():
    pods = [bound(f"train-{number}", f"node-{number}", gpus=2) for number in range(2)]
    found = plan(node("node-0"), node("node-1"), *pods)
    assert found.waves[0].homeless == ("NVIDIA-A100-SXM4-40GB",)
    assert by_hand(found, "make room for the pods of wave 1 (NVIDIA-A100-SXM4-40GB)")


def test_waves_without_room_are_one_task():
    pods = [bound(f"train-{number}", f"node-{number}", gpus=2) for number in range(6)]
    found = plan(*(node(f"node-{number}") for number in range(6)), *pods)
    assert len([each for each in found.waves if each.homeless]) > 1
    assert len(by_hand(found, "make room")) == 1


def test_workloads_that_conversion_leaves_come_before_room_for_pods():
    selecting = bound("train", nodeSelector={"nvidia.com/gpu.count": "2"}, gpus=2)
    found = plan(node(), selecting)
    order = [word for each in found.by_hand for word in ("change pod", "make room") if word in each]
    assert order == ["change pod", "make room"]


def test_way_back_from_conversion_restores_the_preview():
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team-a"}}
    namespace["metadata"]["labels"] = {"gpu-admission.io/dra": "preview"}
    back = next(each.back for each in plan(node(), namespace, bound("train")).steps if each.id == "wave-1-convert")
    assert back[-1] == "kubectl label namespaces team-a --overwrite gpu-admission.io/dra=preview"


def test_labels_decide_the_wave_of_a_node():
    found = plan(node("node-1", labels={WAVE: "2"}), node("node-2", labels={WAVE: "1"}))
    assert [(each.number, each.nodes) for each in found.waves] == [(1, ("node-2",)), (2, ("node-1",))]


def test_node_that_hands_out_twice_is_to_be_emptied_first():
    found = plan(node(), k8s.resource_slice(k8s.gpus(1)))
    assert found.inventory.twice == ("node-1",)
    assert by_hand(found, "empty node-1 now")


def test_switch_is_not_done_while_the_plugin_still_hands_out():
    labels = {WAVE: "1", PLUGIN: "false", "nvidia.com/dra-kubelet-plugin": "true"}
    both = view(node(labels=labels), k8s.resource_slice(k8s.gpus(1)))
    (point,) = open_points("wave-1-switch", both, DEFAULTS)
    assert point == "node node-1: the device plugin still hands out nvidia.com/gpu"


def test_label_that_goes_is_named_with_the_workload_that_needs_it():
    found = plan(node(), bound("train", nodeSelector={"nvidia.com/gpu.count": "2"}))
    (use,) = found.inventory.labels
    assert (use.label, use.converted, use.left) == ("nvidia.com/gpu.count", (), ("pod team-a/train",))
    assert by_hand(
        found,
        "change pod team-a/train: conversion leaves it, and the requested resources go; Remove nvidia.com/gpu.count",
    )
    assert not by_hand(found, "remove nvidia.com/gpu.count from the selectors")
    assert [(each.workload, each.outcome) for each in found.after.effects] == [("pod team-a/train", Outcome.LOST)]


def test_label_that_becomes_a_condition_is_no_work():
    found = plan(node(), bound("train", nodeSelector={"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-40GB"}))
    (use,) = found.inventory.labels
    assert use.converted == ("pod team-a/train",)
    assert not by_hand(found, "remove nvidia.com/gpu.product")


def test_labels_that_nothing_updates_any_more_are_open_until_they_are_removed():
    left = k8s.node("node-1", {"nvidia.com/gpu.present": "true", "nvidia.com/gpu.product": "Tesla-T4"})
    bare = k8s.node("node-1", {"nvidia.com/gpu.present": "true"})
    found = [open_points("stale-labels", ManifestsView([*BASE, VERSION, each]), DEFAULTS) for each in (left, bare)]
    assert found == [("nodes have nvidia.com/gpu.product",), ()]


def shared_node(name, replicas):
    labels = {"nvidia.com/gpu.replicas": str(replicas), "nvidia.com/gpu.sharing-strategy": "time-slicing"}
    return node(name, labels=labels, product="NVIDIA-A100-SXM4-40GB-SHARED", **{GPU: str(2 * replicas)})


def test_replicas_without_an_equal_are_named():
    shared = [shared_node("node-2", 2), shared_node("node-4", 4)]
    found = plan(*shared)
    assert by_hand(found, "choose one number of shares: nvidia.com/gpu by 2 on node-2; nvidia.com/gpu by 4 on node-4")
    values = cutover_documents(view(*shared), DEFAULTS).documents["dra-driver-values.yaml"]
    assert values[0]["consumableShares"] == "4"


def test_resources_of_one_node_with_different_replicas_need_a_choice():
    mig = "nvidia.com/mig-1g.5gb"
    labels = {
        "nvidia.com/gpu.replicas": "8",
        "nvidia.com/gpu.sharing-strategy": "time-slicing",
        "nvidia.com/mig.strategy": "mixed",
        f"{mig}.product": "NVIDIA-A100-SXM4-40GB-MIG-1g.5gb-SHARED",
        f"{mig}.count": "7",
        f"{mig}.replicas": "2",
        f"{mig}.sharing-strategy": "time-slicing",
    }
    shared = node("node-1", labels=labels, product="NVIDIA-A100-SXM4-40GB-SHARED", **{GPU: "8", mig: "14"})
    assert by_hand(
        plan(shared), "choose one number of shares: nvidia.com/gpu by 8, nvidia.com/mig-1g.5gb by 2 on node-1"
    )
    values = cutover_documents(view(shared), DEFAULTS).documents["dra-driver-values.yaml"]
    assert values[0]["consumableShares"] == "8"


def test_classes_are_applied_again_right_after_helm_removes_them():
    lines = commands(plan(node()), "exchange")
    assert lines[0].startswith("helm uninstall ")
    assert lines[1] == "kubectl apply -f cutover/deviceclasses.yaml"
    assert [
        each["metadata"]["name"] for each in cutover_documents(view(node()), DEFAULTS).documents["deviceclasses.yaml"]
    ] == [
        "gpu.nvidia.com",
        "mig.nvidia.com",
    ]


def test_runtime_class_that_goes_is_named():
    found = plan(node(), bound("train", runtimeClassName="nvidia"))
    assert by_hand(found, "remove runtimeClassName from pod team-a/train")


def test_pod_without_a_controller_is_lost_in_its_wave():
    assert plan(node(), bound("train")).waves[0].unmanaged == ("team-a/train",)


def test_old_driver_and_old_operator_come_first():
    found = plan(node(labels={"nvidia.com/cuda.driver-version.full": "550.54.15"}))
    assert by_hand(found, "upgrade the driver to 580 or newer on node-1")
    assert found.steps[0].id == "operator"


def test_cluster_policy_of_helm_is_exchanged_by_helm_and_goes_before_the_gpu_cluster_comes():
    stored = policy()
    stored["metadata"] |= {"annotations": HELM}
    found = plan_cutover(ManifestsView([*BASE, VERSION, stored, node()]), DEFAULTS, "cutover")
    upgrades = [
        each
        for each in commands(found, "exchange")
        if each.startswith("helm upgrade gpus nvidia/gpu-operator -n nvidia ")
    ]
    assert ["clusterPolicy.deployCR=false" in each for each in upgrades] == [True, False]
    assert not any("kubectl delete clusterpolicies" in each for each in commands(found, "exchange"))


@pytest.mark.parametrize("name", ["--all", "a;b", "$(reboot)"])
def test_names_that_no_cluster_has_are_refused(name):
    for make in (
        lambda found: plan_cutover(found, DEFAULTS, "cutover"),
        lambda found: cutover_documents(found, DEFAULTS),
    ):
        with pytest.raises(CutoverError, match="rename Node"):
            make(view(node(name)))


@pytest.mark.parametrize("name", ["x; reboot", "--post-renderer=./x", 5])
def test_release_that_helm_cannot_have_is_no_release(name):
    stored = policy()
    stored["metadata"] |= {"annotations": {**HELM, "meta.helm.sh/release-name": name}}
    found = plan_cutover(ManifestsView([*BASE, VERSION, stored, node()]), DEFAULTS, "cutover")
    assert found.inventory.policy_release is None


def test_labels_of_a_snapshot_cannot_become_commands():
    labelled = view(node(labels={"nvidia.com/gpu.machine": "x; reboot", "nvidia.com/mig-$(reboot)": "1"}))
    script = cutover_documents(labelled, DEFAULTS).scripts["node-labels.sh"]
    words = shlex.split(script.splitlines()[-1])
    assert "nvidia.com/gpu.machine=x; reboot" in words
    assert "nvidia.com/mig-$(reboot)=1" in words


def test_namespace_whose_labels_are_no_mapping_has_none():
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team-a", "labels": "none"}}
    assert plan(node(), namespace, bound("train")).inventory.namespaces == {"team-a": None}


def test_way_back_keeps_the_device_plugin_off_before_the_cluster_policy_returns():
    back = next(each.back for each in plan(node()).steps if each.id == "exchange")
    keeps_off = next(number for number, each in enumerate(back) if f"{PLUGIN}=false" in each)
    returns = next(number for number, each in enumerate(back) if "clusterpolicy.yaml" in each)
    assert keeps_off < returns


FULL = {
    "daemonsets": {"tolerations": [{"key": GPU, "operator": "Exists", "effect": "NoSchedule"}]},
    "dcgmExporter": {"enabled": True, "serviceMonitor": {"enabled": False}},
    "driver": {
        "enabled": True,
        "repository": "nvcr.io/nvidia",
        "image": "driver",
        "version": "580.95.05",
        "repoConfig": {"configMapName": "repos"},
        "licensingConfig": {"secretName": "licence", "nlsEnabled": True},
    },
    "hostPaths": {"rootFS": "/", "driverInstallDir": "/run/nvidia/driver"},
    "toolkit": {"enabled": True},
}


def test_generated_objects_review_clean():
    files = cutover_documents(view(shared_node("node-1", 4), **FULL), DEFAULTS).documents
    around = ManifestsView([VERSION, k8s.empty_list("ClusterPolicy", "nvidia.com/v1")])
    for name in ("nvidiadriver.yaml", "gpucluster.yaml", "deviceclasses.yaml"):
        for document in files[name]:
            request = Request(
                document, group=group_of(document), kind=document["kind"], name=document["metadata"]["name"]
            )
            decision = review(request, around, DEFAULTS)
            assert (decision.allowed, [*map(str, decision.findings)]) == (True, []), name


def test_nvidia_driver_has_the_fields_of_the_cluster_policy_under_its_own_names():
    (driver,) = cutover_documents(view(node(), **FULL), DEFAULTS).documents["nvidiadriver.yaml"]
    spec = driver["spec"]
    assert spec["repoConfig"] == {"name": "repos"}
    assert spec["licensingConfig"] == {"secretName": "licence", "nlsEnabled": True}
    assert spec["upgradePolicy"] == {"autoUpgrade": False}


def test_gpu_cluster_says_what_a_missing_dcgm_means_in_a_cluster_policy():
    (cluster,) = cutover_documents(view(node()), DEFAULTS).documents["gpucluster.yaml"]
    assert cluster["spec"]["dcgm"] == {"enabled": True}


def test_driver_of_hosts_needs_no_nvidia_driver():
    found = view(node(), driver={"enabled": False})
    assert "nvidiadriver.yaml" not in cutover_documents(found, DEFAULTS).documents
    assert "nvidia-driver" not in [each.id for each in plan_cutover(found, DEFAULTS, "cutover").steps]
    assert cutover_documents(found, DEFAULTS).documents["dra-driver-values.yaml"][0]["nvidiaDriverRoot"] == "/"


@pytest.mark.parametrize(
    "step", ["wave-1-exchange", "exchange-1", "wave--empty", "wave-x-open", "empty", "nothing", ""]
)
def test_unknown_step_is_no_step(step):
    assert open_points(step, view(node()), DEFAULTS) is None


@pytest.mark.parametrize(
    "step",
    [
        "operator",
        "label-waves",
        "dra-driver",
        "nvidia-driver",
        "wave-1-empty",
        "wave-1-convert",
        "exchange",
        "stale-labels",
    ],
)
def test_what_is_unknown_is_not_done(step):
    assert open_points(step, ManifestsView([]), DEFAULTS)


def test_each_gpu_node_is_in_one_wave():
    products = (("NVIDIA-A100-SXM4-40GB", "40960"), ("NVIDIA-H100-80GB-HBM3", "81559"), ("Tesla-T4", "15360"))
    nodes = [
        node(f"node-{number}", product=product, memory=memory) for number, (product, memory) in enumerate(products * 10)
    ]
    pods = [bound(f"train-{number}", f"node-{number}") for number in range(20)]
    planned = [name for each in plan(*nodes, *pods, k8s.node("cpu")).waves for name in each.nodes]
    assert sorted(planned) == sorted(f"node-{number}" for number in range(30))
