"""What a plan names: disrupted pods, workloads that would not start again, quotas, and what is not known."""

import pytest

from policies.analyses.plan import ChangeError, changed_objects, key_of
from policies.outcome import Outcome, Situation
from policies.rules.settings import DEFAULTS
from tests.explain import conftest as k8s
from tests.outcome.clusters import bound
from tests.plan.nodes import GPU, bare_situation, config_map, gpu_node, plan, policy, situation, time_slicing
from webhook.cluster.manifests import ManifestsView

A100 = "NVIDIA-A100-SXM4-40GB"


def disrupted(found):
    return [(each.node, each.name, each.workload) for each in found.disrupted]


def outcomes(found):
    return {
        each.subject.label: (each.outcome, each.sentence) for each in found.fits if each.outcome is not Outcome.KEPT
    }


def mig(config="all-1g.5gb", **rest):
    return gpu_node(labels={"nvidia.com/mig.config": config}, **rest)


def test_pods_whose_gpus_are_cut_anew_are_named_with_node_and_controller():
    pods = bound("a", owner="ReplicaSet/web"), bound("b", "node-2"), k8s.pod({"cpu": "1"}, name="c", nodeName="node-1")
    found = plan(situation(gpu_node(), gpu_node("node-2"), *pods), mig())
    assert disrupted(found) == [("node-1", "pod team-a/a", "ReplicaSet web")]
    (only,) = found.disrupted
    assert only.why == (
        "it holds GPUs, and MIG cuts the GPUs of the node anew, which fails while they are in use, or takes them from the pods"
    )
    assert only.remedy == "drain node-1 first"


def test_pods_go_on_when_only_the_device_plugin_starts_again():
    found = plan(situation(gpu_node(), bound("a")), config_map(whole=time_slicing(renameByDefault=True)))
    assert disrupted(found) == []
    assert outcomes(found)["pod team-a/a"][0] is Outcome.LOST
    assert found.remedies["pod team-a/a"] == (
        "request nvidia.com/gpu.shared in its pods then, or do not rename what is shared"
    )


def test_claim_that_holds_devices_for_no_pod_is_disrupted():
    claim = k8s.holding("gone", [0], namespace="team-a")
    claim["status"].pop("reservedFor")
    labels = {"nvidia.com/gpu.deploy.device-plugin": "false"}
    before = situation(gpu_node(gpus=1, labels=labels, cpu="8"), k8s.resource_slice(k8s.gpus(1)), claim)
    change = gpu_node(gpus=1, labels={**labels, "nvidia.com/mig.config": "all-1g.5gb"}, cpu="8")
    assert disrupted(plan(before, change)) == [("node-1", "ResourceClaim team-a/gone-gpu", "")]


def test_taint_with_no_execute_ends_pods_without_a_toleration():
    taint = {"key": "repair", "value": "now", "effect": "NoExecute"}
    tolerant = bound("b", tolerations=[{"key": "repair", "operator": "Exists"}])
    found = plan(situation(gpu_node(), bound("a"), tolerant), gpu_node(taints=[taint]))
    assert [(each.name, each.why) for each in found.disrupted] == [
        ("pod team-a/a", "it does not tolerate the new taint repair=now:NoExecute")
    ]


def test_deleted_node_ends_its_pods():
    found = plan(situation(gpu_node(), bound("a")), deleted=[("Node", "", "node-1")])
    assert [(each.name, each.why) for each in found.disrupted] == [("pod team-a/a", "its node is deleted")]
    assert outcomes(found)["pod team-a/a"] == (Outcome.LOST, "no node exists now")


def test_node_whose_new_offers_are_not_known_makes_its_pods_unknown():
    before = situation(gpu_node(), bound("a"), bound("elsewhere", "node-2"), gpu_node("node-2"))
    own = {"config": {"name": "own"}}
    found = plan(before, policy(migManager=own), gpu_node(labels={"nvidia.com/mig.config": "mine"}))
    assert found.unknown == (
        "what node-1 offers afterwards is unknown: the MIG configuration mine is not known for its GPUs",
    )
    (node,) = found.nodes
    assert (node.before, node.after) == ("8 nvidia.com/gpu", "unknown")


def test_pod_that_fits_only_a_node_whose_offers_are_not_known_is_unknown():
    before = situation(gpu_node(), bound("a"))
    found = plan(before, policy(migManager={"config": {"name": "own"}}), mig("mine"))
    assert outcomes(found) == {
        "pod team-a/a": (
            Outcome.UNKNOWN,
            "unknown: it fits node-1 now, and what that offers afterwards is unknown",
        )
    }


def test_pod_that_the_device_plugin_refuses_is_lost_although_it_is_scheduled():
    before = situation(gpu_node(), bound("two", gpus=2), bound("one"))
    found = plan(before, config_map(whole=time_slicing(failRequestsGreaterThanOne=True)))
    assert outcomes(found)["pod team-a/two"] == (
        Outcome.LOST,
        "fits none of 1 node, even if nothing were in use; on node-1: the device plugin refuses the pod once it is scheduled, because a container requests 2 nvidia.com/gpu: maximum request size for shared resources is 1; found 2",
    )
    assert outcomes(found)["pod team-a/one"][0] is Outcome.CHANGED


def test_pods_that_would_get_shares_are_counted_with_a_remedy():
    nodes = [gpu_node(f"node-{number}") for number in range(4)]
    wide = [bound(f"wide-{number}", f"node-{number}", gpus=8, owner="ReplicaSet/wide") for number in range(3)]
    found = plan(situation(*nodes, *wide, bound("one", "node-3")), config_map(whole=time_slicing()))
    assert found.changed_pods == {"shares instead of whole GPUs": 4}
    assert found.fits_with(Outcome.KEPT) == found.unaffected == ()
    assert not found.is_harmless
    assert found.remedies["ReplicaSet team-a/wide"] == (
        "leave as many of node-0, node-1, node-2 and 1 more as they are as its pods need"
    )


@pytest.mark.parametrize("renamed", [True, False])
def test_shares_count_where_mig_is_on_and_labels_hide_them(renamed):
    labels = {"nvidia.com/mig.config": "all-1g.5gb", "nvidia.com/gpu.replicas": "0"}
    pods = bound("one"), bound("two", gpus=2)
    before = situation(gpu_node(gpus=4, labels=labels), *pods, strategy="none")
    found = plan(before, config_map(whole=time_slicing(renameByDefault=renamed)))
    (node,) = found.nodes
    assert node.after == f"16 nvidia.com/gpu{'.shared' if renamed else ''}"
    assert found.changed_pods == ({} if renamed else {"shares instead of whole GPUs": 2})
    assert len(found.fits_with(Outcome.LOST)) == (2 if renamed else 0)


def affinity(value):
    wanted = {"key": "nvidia.com/gpu.product", "operator": "In", "values": [value]}
    terms = {"nodeSelectorTerms": [{"matchExpressions": [wanted]}]}
    return {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}}


@pytest.mark.parametrize("wanted", [{"nodeSelector": {"nvidia.com/gpu.product": A100}}, affinity(A100)])
def test_pod_that_the_suffix_of_a_product_keeps_off_is_told_the_new_value(wanted):
    found = plan(situation(gpu_node(), bound("a", **wanted)), config_map(whole=time_slicing()))
    assert outcomes(found)["pod team-a/a"][0] is Outcome.LOST
    assert found.remedies["pod team-a/a"] == (
        f"write nvidia.com/gpu.product: {A100}-SHARED in its pods if they may get shares, or leave node-1 as it is"
    )


def test_pod_for_which_the_new_value_does_not_suffice_is_not_told_it():
    pod = bound("a", gpus=2, nodeSelector={"nvidia.com/gpu.product": A100})
    found = plan(situation(gpu_node(), pod), config_map(whole=time_slicing(failRequestsGreaterThanOne=True)))
    assert found.remedies["pod team-a/a"] == ("leave one of node-1 as it is, or change what the pods request")


def test_pods_that_find_whole_gpus_elsewhere_are_not_counted():
    keeps = {"nvidia.com/device-plugin.config": "apart"}
    nodes = gpu_node("node-1"), gpu_node("node-2", labels=keeps)
    before = bare_situation(policy(), config_map(whole="version: v1\n", apart="version: v1\n"), *nodes, bound("one"))
    found = plan(before, config_map(whole=time_slicing(), apart="version: v1\n"))
    assert (found.changed_pods, found.is_harmless) == ({}, True)


def test_pod_may_be_refused_where_a_change_adds_shares_that_a_plugin_gives_one_by_one():
    keeps = {"nvidia.com/device-plugin.config": "apart"}
    nodes = gpu_node("node-1"), gpu_node("node-2", labels=keeps)
    documents = {"whole": "version: v1\n", "apart": "version: v1\n"}
    before = bare_situation(policy("single"), config_map(**documents), *nodes, bound("a", "node-2", gpus=2))
    found = plan(before, config_map(**{**documents, "whole": time_slicing(kind="mps")}))
    assert outcomes(found)["pod team-a/a"] == (
        Outcome.UNKNOWN,
        "may be refused: fits 1 of 2 nodes now; the scheduler may choose node-1, where the device plugin refuses it",
    )
    assert found.remedies["pod team-a/a"] == (
        "keep it off node-1 by its node selector or affinity, for example nvidia.com/gpu.sharing-strategy: none"
    )


def test_workload_with_less_room_gets_the_number_that_fits():
    pods = [bound(f"web-{number}", owner="ReplicaSet/web", gpus=4) for number in range(2)]
    before = situation(gpu_node(), gpu_node("node-2", gpus=4), *pods)
    found = plan(before, gpu_node(labels={"nvidia.com/gpu.deploy.device-plugin": "false"}))
    assert outcomes(found)["ReplicaSet team-a/web"][1] == "only 1 of 2 pods would find a place; before, 2"
    assert found.remedies["ReplicaSet team-a/web"] == "lower its number of pods to 1, or leave more nodes as they are"


def test_fields_of_a_policy_that_are_not_predicted_are_named():
    found = plan(situation(gpu_node()), policy(driver={"version": "1"}, toolkit={"enabled": False}))
    assert found.unknown == (
        "ClusterPolicy cluster-policy: the effect of spec.driver.version and spec.toolkit.enabled is not predicted",
    )


def test_config_map_without_a_known_policy_is_unknown():
    found = plan(bare_situation(gpu_node()), config_map(whole=time_slicing()))
    assert found.unknown == (
        (
            "which nodes use ConfigMap plugin is unknown, because no ClusterPolicy is known; "
            "add it: kubectl get --raw /apis/nvidia.com/v1/clusterpolicies > clusterpolicies.json"
        ),
    )


def test_config_map_of_something_else_is_not_predicted():
    found = plan(situation(gpu_node()), config_map("other"))
    assert found.unknown == (
        "ConfigMap other is not the one of the device plugin or the MIG manager; its effect is not predicted",
    )


def test_changed_mig_configuration_takes_effect_later():
    entries = [{"devices": "all", "mig-enabled": True, "mig-devices": {"3g.20gb": 2}}]
    files = [{"version": "v1", "mig-configs": {"mine": entries[:count]}} for count in (0, 1)]
    old, new = (config_map("mig", **{"config.yaml": each}) for each in files)
    found = plan(situation(mig("mine"), old, migManager={"config": {"name": "mig"}}), new)
    assert found.remarks == (
        "the MIG manager reads the changed ConfigMap mig when its pods start, or the label of a node changes",
    )
    assert [each.after for each in found.nodes] == ["16 nvidia.com/mig-3g.20gb"]


def test_change_without_an_effect_is_harmless():
    found = plan(situation(gpu_node(), bound("a")), gpu_node(labels={"example.com/rack": "7"}))
    assert found.is_harmless
    assert found.counts == {Outcome.KEPT: 1}


def test_settings_of_the_change_count():
    settings = {
        "apiVersion": "gpu-admission.io/v1alpha1",
        "kind": "GPUAdmissionPolicy",
        "metadata": {"name": "default"},
        "spec": {"quota": {"exemptNamespaces": ["team-a"]}},
    }
    quota = {
        "apiVersion": "gpu-admission.io/v1alpha1",
        "kind": "GPUQuota",
        "metadata": {"name": "gpu", "namespace": "team-a"},
        "spec": {"limits": [{"name": "all", "gpus": 1}]},
    }
    found = plan(situation(gpu_node(), quota, bound("a")), settings)
    assert [each.sentence for each in found.limits] == ["the limit is gone"]


def test_object_that_does_not_exist_cannot_be_deleted():
    before = situation(gpu_node())
    with pytest.raises(ChangeError, match=r"^DeviceClass nope does not exist, so it cannot be deleted$"):
        changed_objects({}, [("DeviceClass", "", "nope")], before)


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ({"apiVersion": "apps/v1", "kind": "Deployment"}, "Deployment is not configuration that a plan is about"),
        ({"apiVersion": "longhorn.io/v1", "kind": "Node"}, "Node is not configuration that a plan is about"),
        ({"apiVersion": "v1", "kind": "Node"}, "Node has no metadata.name"),
    ],
)
def test_objects_that_cannot_be_planned(document, message):
    with pytest.raises(ChangeError, match=f"^{message}"):
        key_of(document, "", situation())


def test_manifest_of_a_node_is_merged_and_a_null_removes_a_label():
    stored = gpu_node(labels={"a": "1", "b": "2"})
    manifest = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "node-1", "labels": {"a": None, "c": "3"}},
        "status": {"allocatable": {GPU: "99"}},
    }
    (after,) = changed_objects({("Node", "", "node-1"): manifest}, [], situation(stored)).values()
    labels = after["metadata"]["labels"]
    assert ("a" in labels, labels["b"], labels["c"], after["status"]) == (False, "2", "3", stored["status"])


def test_manifest_of_anything_else_is_the_whole_object():
    before = situation(gpu_node())
    change = {("ClusterPolicy", "", "cluster-policy"): policy("single")}
    change[("ClusterPolicy", "", "cluster-policy")]["spec"].pop("devicePlugin")
    (after,) = changed_objects(change, [], before).values()
    assert after["spec"] == {"mig": {"strategy": "single"}}


def standing(name, created=None, selector=k8s.SELECTOR):
    made = k8s.device_class(name, selector, extendedResourceName=GPU)
    return made | {"metadata": {"name": name, **({"creationTimestamp": created} if created else {})}}


def cluster_with_standing_class(*others):
    """Two GPUs that DRA hands out for nvidia.com/gpu, and a pod that has one."""
    node = k8s.node(labels={"nvidia.com/gpu.present": "true"})
    version = {"serverVersion": {"gitVersion": "v1.36.2"}}
    slices = k8s.resource_slice(k8s.gpus(2))
    return bare_situation(
        version, node, slices, standing("gpu.nvidia.com", "2026-01-05T09:00:00Z"), bound("a"), *others
    )


def test_class_that_takes_a_resource_over_is_named_with_the_pods_that_request_it():
    found = plan(cluster_with_standing_class(), standing("big.example.com", selector="device.driver == 'none'"))
    (remark,) = found.remarks
    assert remark == (
        "DeviceClass big.example.com takes nvidia.com/gpu over from DeviceClass gpu.nvidia.com: where DRA hands it out, pods "
        "that start again get devices of big.example.com (1 pod of 1 workload)"
    )
    assert outcomes(found)["pod team-a/a"][0] is Outcome.LOST


@pytest.mark.parametrize("created", [None, "2020-01-01T00:00:00Z"])
def test_new_class_is_the_newest_where_no_class_has_a_timestamp(created):
    node = k8s.node(labels={"nvidia.com/gpu.present": "true"})
    before = bare_situation(node, k8s.resource_slice(k8s.gpus(2)), standing("gpu.nvidia.com"), bound("a"))
    found = plan(before, standing("zz.example.com", created, selector="device.driver == 'none'"))
    (remark,) = found.remarks
    assert remark.startswith("DeviceClass zz.example.com takes nvidia.com/gpu over from DeviceClass gpu.nvidia.com: ")
    assert outcomes(found)["pod team-a/a"][0] is Outcome.LOST


def test_resource_goes_back_when_the_newest_class_is_deleted():
    newest = standing("big.example.com", "2026-02-05T09:00:00Z")
    found = plan(cluster_with_standing_class(newest), deleted=[("DeviceClass", "", "big.example.com")])
    (remark,) = found.remarks
    assert remark.startswith("DeviceClass gpu.nvidia.com takes nvidia.com/gpu over from DeviceClass big.example.com: ")


def test_takeover_of_a_resource_that_no_known_pod_requests_has_no_counts():
    node = k8s.node(labels={"nvidia.com/gpu.present": "true"})
    found = plan(bare_situation(node, standing("gpu.nvidia.com", "2026-01-05T09:00:00Z")), standing("big.example.com"))
    (remark,) = found.remarks
    assert remark.endswith("pods that start again get devices of big.example.com")


def test_class_for_another_resource_takes_nothing_over():
    other = k8s.device_class("other", extendedResourceName="example.com/gpu")
    assert plan(cluster_with_standing_class(), other).remarks == ()


def test_kinds_that_are_not_known_are_named_in_the_plural():
    before = Situation(ManifestsView([gpu_node()]), DEFAULTS)
    assert (
        plan(before, gpu_node())
        .unknown[0]
        .startswith("Pods, ResourceClaims, ResourceSlices and DeviceClasses are not known, ")
    )


WORKLOAD = "nvidia.com/gpu.workload.config"
PASSED_THROUGH, VGPU = "nvidia.com/GA107GL_A2", "nvidia.com/NVIDIA_A2-2Q"


def of_machines(workload, resource=PASSED_THROUGH, labels=None):
    node = gpu_node(gpus=1, product="NVIDIA-A2", memory="15360", labels={WORKLOAD: workload}, **{resource: "1"})
    return {**node, "metadata": {**node["metadata"], "labels": labels or node["metadata"]["labels"]}}


def machine(resource):
    pod = k8s.pod({resource: "1"}, name="vm", stored=True, nodeName="node-1")
    return {**pod, "status": {"phase": "Running"}}


def sandboxes(**spec):
    return {"sandboxWorkloads": {"enabled": True}, "sandboxDevicePlugin": {"enabled": True}, **spec}


@pytest.mark.parametrize(
    ("node", "resource", "change"),
    [
        (of_machines("vm-passthrough"), PASSED_THROUGH, of_machines("vm-vgpu")),
        (of_machines("vm-passthrough"), PASSED_THROUGH, of_machines("container")),
        (of_machines("vm-vgpu", VGPU), VGPU, of_machines("vm-passthrough", VGPU)),
        (of_machines("vm-vgpu", VGPU), VGPU, policy(sandboxWorkloads={"enabled": False})),
        (
            of_machines("vm-passthrough", labels={"nvidia.com/gpu.present": "true", WORKLOAD: "vm-passthrough"}),
            PASSED_THROUGH,
            of_machines("container", labels={"nvidia.com/gpu.present": "true", WORKLOAD: "container"}),
        ),
    ],
)
def test_virtual_machine_loses_its_gpu_when_the_node_gets_another_purpose(node, resource, change):
    before = situation(node, k8s.device_class("other.example.com"), machine(resource), **sandboxes())
    found = plan(before, change)
    assert disrupted(found) == [("node-1", "pod team-a/vm", "")]
    assert outcomes(found)["pod team-a/vm"][0] is Outcome.LOST


def test_virtual_machine_goes_on_but_cannot_start_again_without_its_device_plugin():
    before = situation(of_machines("vm-passthrough"), machine(PASSED_THROUGH), **sandboxes())
    found = plan(before, policy(**sandboxes(sandboxDevicePlugin={"enabled": False})))
    assert disrupted(found) == []
    assert outcomes(found)["pod team-a/vm"][0] is Outcome.LOST
    assert [each.reasons for each in found.nodes] == [
        ("the device plugin for virtual machines does not run there any more",)
    ]


def test_node_for_machines_that_keeps_its_purpose_is_left_alone():
    before = situation(of_machines("vm-passthrough"), machine(PASSED_THROUGH), **sandboxes())
    found = plan(before, policy(**sandboxes(mode="kubevirt")))
    assert (found.nodes, outcomes(found)) == ((), {})
