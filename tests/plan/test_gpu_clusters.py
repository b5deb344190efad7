"""Plans of a GPUCluster, and of a ClusterPolicy that is deleted or loses components."""

from __future__ import annotations

import pytest

from policies.analyses.plan import predict
from policies.outcome import Outcome
from tests.explain import conftest as k8s
from tests.fleet.offers.reference import gpu_cluster
from tests.outcome.clusters import bound
from tests.plan.nodes import GPU, bare_situation, gpu_node, plan, policy, situation

POLICY = ("ClusterPolicy", "", "cluster-policy")
CLUSTER = ("GPUCluster", "", "gpu-cluster")
ON_HOSTS = {"enabled": False}
"""The driver of a ClusterPolicy whose nodes have their own."""
VERSION = {"serverVersion": {"gitVersion": "v1.36.2"}}
AMPERE = {
    "nvidia.com/gpu.compute.major": "8",
    "nvidia.com/gpu.compute.minor": "0",
    "nvidia.com/gpu.family": "ampere",
    "nvidia.com/cuda.driver-version.full": "580.65.06",
}
HOPPER = AMPERE | {"nvidia.com/gpu.compute.major": "9", "nvidia.com/gpu.family": "hopper"}
CONVERTING = k8s.namespace("team-a", **{"gpu-admission.io/dra": "enabled"})
TAINT = {"key": GPU, "value": "present", "effect": "NoSchedule"}


def nvidia_driver(name="default", **spec):
    found = {"default": True, "version": "580.95.05", **spec}
    return {"apiVersion": "nvidia.com/v1alpha1", "kind": "NVIDIADriver", "metadata": {"name": name}, "spec": found}


def node(name="node-1", labels=AMPERE, **rest):
    return gpu_node(name, labels=labels, **rest)


def cut(profile, count, labels=AMPERE, product="NVIDIA-A100-SXM4-40GB", memory="40960"):
    """A node all whose two GPUs are cut into MIG devices of one profile, under the mixed strategy."""
    name = f"nvidia.com/mig-{profile}"
    found = {"nvidia.com/mig.strategy": "mixed", f"{name}.count": str(count), "nvidia.com/gpu.replicas": "0"}
    found["nvidia.com/mig.config"] = f"all-{profile}"
    return gpu_node(gpus=2, product=product, memory=memory, labels=labels | found, **{name: str(count)})


def mig_pod(name, resource="nvidia.com/mig-1g.5gb"):
    made = bound(name, gpus=0)
    made["spec"]["containers"][0]["resources"] = {"limits": {resource: "1"}}
    return made


def on_hosts(*objects, **rest):
    return situation(VERSION, *objects, driver=ON_HOSTS, **rest)


def cut_over(before, *manifests):
    """The plan that deletes the ClusterPolicy and applies manifests."""
    return plan(before, *manifests, deleted=[POLICY])


def only_node(found):
    (changed,) = found.nodes
    return changed


def after_of(before, *manifests, deleted=(POLICY,)):
    """The predicted cluster."""
    objects = {
        (each["kind"], each["metadata"].get("namespace", ""), each["metadata"]["name"]): each for each in manifests
    }
    return predict(before, objects | dict.fromkeys(deleted), before.settings).after.view


def gpu_slices(view):
    return [each for each in view.list("ResourceSlice") if each["spec"]["driver"] == "gpu.nvidia.com"]


def outcomes(found):
    return {each.subject.label: each.outcome for each in found.fits if each.outcome is not Outcome.KEPT}


def test_gpu_cluster_publishes_the_gpus_in_place_of_the_device_plugin():
    changed = only_node(cut_over(on_hosts(node()), gpu_cluster()))
    assert (changed.before, changed.after, changed.unknown) == ("8 nvidia.com/gpu", "8 GPUs of the DRA driver", "")
    assert changed.reasons == ("the operator's DRA driver runs there in place of the device plugin",)


def test_devices_have_what_the_labels_tell():
    (found,) = gpu_slices(after_of(on_hosts(node(gpus=1)), gpu_cluster()))
    (device,) = found["spec"]["devices"]
    assert (found["spec"]["nodeName"], found["spec"]["pool"]["resourceSliceCount"]) == ("node-1", 1)
    assert device["attributes"]["productName"] == {"string": "NVIDIA A100-SXM4-40GB"}
    assert device["attributes"]["driverVersion"] == {"version": "580.65.6"}
    assert device["capacity"]["memory"] == {"value": "40Gi"}


@pytest.mark.parametrize(
    ("shares", "offers"),
    [
        ("4", "8 GPUs (in 4 shares each) of the DRA driver"),
        ("memory", "8 GPUs (shared by memory) of the DRA driver"),
        ("unlimited", "8 GPUs (shared without a limit) of the DRA driver"),
        ("disabled", "8 GPUs of the DRA driver"),
        ("", "8 GPUs of the DRA driver"),
    ],
)
def test_shares_follow_from_the_variable_of_the_plugin(shares, offers):
    changed = only_node(cut_over(on_hosts(node()), gpu_cluster(["ConsumableShares"], shares)))
    assert changed.after == offers


def test_variable_has_no_effect_without_its_gate():
    assert only_node(cut_over(on_hosts(node()), gpu_cluster(shares="4"))).after == "8 GPUs of the DRA driver"


@pytest.mark.parametrize(
    ("labels", "product", "offers"),
    [
        (HOPPER, "NVIDIA-H100-80GB-HBM3", "8 GPUs whole or cut on demand of the DRA driver"),
        (AMPERE, "NVIDIA-A100-SXM4-40GB", "8 GPUs of the DRA driver"),
    ],
)
def test_gpus_from_hopper_on_are_cut_on_demand(labels, product, offers):
    changed = only_node(cut_over(on_hosts(node(labels=labels, product=product)), gpu_cluster(["DynamicMIG"])))
    assert changed.after == offers


@pytest.mark.parametrize(("version", "slices"), [("v1.34.3", 1), ("v1.36.2", 2)])
def test_counters_have_a_slice_of_their_own_since_1_35(version, slices):
    server = {"serverVersion": {"gitVersion": version}, "featureGates": {"DRAPartitionableDevices": True}}
    h100 = node(gpus=1, labels=HOPPER, product="NVIDIA-H100-80GB-HBM3", memory="81559")
    before = situation(server, h100, driver=ON_HOSTS)
    assert len(gpu_slices(after_of(before, gpu_cluster(["DynamicMIG"])))) == slices


def test_partitions_are_unknown_where_kubernetes_drops_their_counters():
    before = situation({"serverVersion": {"gitVersion": "v1.34.3"}}, node(), driver=ON_HOSTS)
    changed = only_node(cut_over(before, gpu_cluster(["DynamicMIG"])))
    assert changed.unknown == (
        "DRAPartitionableDevices of Kubernetes is off, and the API server drops what the DRA driver publishes by it"
    )


def test_pods_that_convert_get_a_claim_and_the_others_are_lost():
    pods = bound("a"), k8s.namespace("team-b"), bound("b", namespace="team-b")
    found = cut_over(on_hosts(node(), *pods), gpu_cluster(), CONVERTING)
    assert outcomes(found) == {"pod team-b/b": Outcome.LOST}


def test_gpus_that_other_pods_hold_are_not_free():
    found = cut_over(on_hosts(node(), bound("a", gpus=5), bound("b", gpus=3)), gpu_cluster(), CONVERTING)
    assert outcomes(found) == {}
    waiting = k8s.pod({GPU: "1"}, name="c", stored=True)
    full = cut_over(on_hosts(node(), bound("a", gpus=5), bound("b", gpus=3), waiting), gpu_cluster(), CONVERTING)
    assert outcomes(full) == {}


@pytest.mark.parametrize(("shares", "room"), [("4", 1), ("2", 0)])
def test_shares_that_other_pods_hold_are_not_free(shares, room):
    labels = AMPERE | {"nvidia.com/gpu.replicas": "4", "nvidia.com/gpu.sharing-strategy": "time-slicing"}
    shared = gpu_node(gpus=1, product="NVIDIA-A100-SXM4-40GB-SHARED", labels=labels, **{GPU: "4"})
    waiting = k8s.pod(name="c", stored=True, resourceClaims=k8s.claiming(resourceClaimTemplateName="gpus"))
    waiting["spec"]["containers"][0]["resources"] = {"claims": [{"name": "gpus"}]}
    others = [bound(name, namespace="team-b") for name in "ab"]
    before = on_hosts(shared, k8s.namespace("team-b"), *others, k8s.template(), waiting)
    found = cut_over(before, gpu_cluster(["ConsumableShares"], shares))
    assert [each.after.room for each in found.fits if each.subject.namespace == "team-a"] == [room]


def test_lost_pods_are_told_to_convert_where_that_helps():
    found = cut_over(on_hosts(node(), bound("a")), gpu_cluster())
    assert found.remedies == {
        "pod team-a/a": "label the namespace team-a gpu-admission.io/dra: enabled, so that its pods use claims"
    }


def test_pods_with_mig_devices_are_told_to_turn_dynamic_mig_on_where_that_helps():
    before = situation(VERSION, cut("1g.5gb", 14), mig_pod("a"))
    found = cut_over(before, gpu_cluster(), nvidia_driver())
    assert found.remedies == {
        "pod team-a/a": "write featureGates: {DynamicMIG: true} in GPUCluster gpu-cluster, so that the DRA driver makes MIG "
        "devices for claims, and label the namespace team-a gpu-admission.io/dra: enabled, so that its pods use claims"
    }


def test_pods_that_get_shares_are_told_how_to_get_whole_gpus():
    converting = k8s.pod(
        {}, name="a", stored=True, nodeName="node-1", resourceClaims=k8s.claiming(resourceClaimName="a-gpu")
    )
    converting["spec"]["containers"][0]["resources"] = {"claims": [{"name": "gpus"}]}
    before = in_gpu_cluster(
        k8s.device_class(), converting | {"status": {"phase": "Running"}}, k8s.holding("a", [0], namespace="team-a")
    )
    found = plan(before, gpu_cluster(["ConsumableShares"], "4"))
    assert outcomes(found) == {"pod team-a/a": Outcome.CHANGED}
    assert found.remedies["pod team-a/a"] == (
        "request all shares of a GPU in its claims (capacity.requests.shares: 4), or leave CONSUMABLE_SHARES out of GPUCluster "
        "gpu-cluster"
    )


def test_quotas_count_the_claims_of_pods_that_start_again():
    quota = {
        "apiVersion": "gpu-admission.io/v1alpha1",
        "kind": "GPUQuota",
        "metadata": {"name": "gpu", "namespace": "team-a"},
        "spec": {
            "limits": [
                {"name": "a100", "gpus": 8, "selector": {"products": ["*A100*"]}},
                {"name": "h100", "gpus": 8, "selector": {"products": ["*H100*"]}},
            ]
        },
    }
    found = cut_over(on_hosts(node(), quota, bound("a", gpus=2), bound("b")), gpu_cluster(), CONVERTING)
    assert {each.name: (each.outcome, each.after.used) for each in found.limits} == {
        "a100": (Outcome.KEPT, 3),
        "h100": (Outcome.KEPT, 0),
    }


def test_another_dra_driver_is_to_be_uninstalled_first():
    before = on_hosts(node(gpus=2, **{GPU: "0"}), k8s.resource_slice(k8s.gpus(2)))
    found = cut_over(before, gpu_cluster())
    assert found.remarks[-1] == (
        "first uninstall the DRA driver that publishes the GPUs of 1 node: both register as gpu.nvidia.com"
    )


def test_gpus_of_running_pods_would_be_handed_out_again():
    (disrupted,) = cut_over(on_hosts(node(), bound("a")), gpu_cluster()).disrupted
    assert disrupted.why == "it holds GPUs, and the DRA driver hands the same GPUs out again, for claims"
    assert disrupted.remedy == "drain node-1 first"


HOST_IMEX = {"env": [{"name": "IMEX_MODE", "value": "hostManaged"}]}


@pytest.mark.parametrize(
    ("domains", "devices"),
    [
        ({}, ["channel-0", "daemon-0"]),
        ({"kubeletPlugin": HOST_IMEX}, ["channel-0"]),
        ({"enabled": False}, None),
    ],
)
def test_compute_domains_have_a_channel_and_a_daemon_on_each_node(domains, devices):
    cluster = gpu_cluster()
    cluster["spec"]["draDriver"]["computeDomains"] = domains
    found = after_of(on_hosts(node()), cluster).list("ResourceSlice")
    by_driver = {each["spec"]["driver"]: [device["name"] for device in each["spec"]["devices"]] for each in found}
    assert by_driver.get("compute-domain.nvidia.com") == devices


def test_compute_domains_that_are_disabled_leave_the_nodes():
    domains = k8s.resource_slice([{"name": "channel-0"}], driver="compute-domain.nvidia.com")
    disabled = gpu_cluster()
    disabled["spec"]["draDriver"]["computeDomains"] = {"enabled": False}
    found = plan(in_gpu_cluster(domains), disabled)
    assert only_node(found).reasons == ("the driver of ComputeDomains does not run there any more",)
    view = after_of(in_gpu_cluster(domains), disabled, deleted=())
    assert {each["spec"]["driver"] for each in view.list("ResourceSlice")} == {"gpu.nvidia.com"}


def test_classes_appear_without_an_extended_resource():
    classes = after_of(on_hosts(node()), gpu_cluster()).list("DeviceClass")
    assert {each["metadata"]["name"] for each in classes} == {
        "gpu.nvidia.com",
        "mig.nvidia.com",
        "vfio.gpu.nvidia.com",
        "compute-domain-daemon.nvidia.com",
        "compute-domain-default-channel.nvidia.com",
    }
    assert not any("extendedResourceName" in each["spec"] for each in classes)


def test_class_of_a_helm_release_is_missing_for_a_while_and_loses_its_resource():
    release = {"meta.helm.sh/release-name": "dra", "meta.helm.sh/release-namespace": "nvidia-dra-driver-gpu"}
    stored = k8s.device_class(extendedResourceName=GPU)
    stored["metadata"]["annotations"] = release
    found = cut_over(on_hosts(stored, node()), gpu_cluster())
    assert [each for each in found.remarks if "DeviceClass" in each] == [
        (
            "the operator overwrites DeviceClass gpu.nvidia.com without extendedResourceName: pods that request "
            "nvidia.com/gpu get no devices of the class any more, unless conversion makes a claim of it"
        ),
        (
            "the Helm release nvidia-dra-driver-gpu/dra deletes DeviceClass gpu.nvidia.com when it is uninstalled; pods and "
            "claims for it wait until the operator creates it again, within a minute"
        ),
    ]


def test_class_that_a_user_deletes_comes_back():
    before = bare_situation(VERSION, node(), gpu_cluster())
    found = plan(before, deleted=[("DeviceClass", "", "gpu.nvidia.com")])
    assert [each for each in found.remarks if "is missing until" in each]
    view = after_of(before, deleted=[("DeviceClass", "", "gpu.nvidia.com")])
    assert view.get("DeviceClass", "gpu.nvidia.com") is not None


@pytest.mark.parametrize(
    ("version", "is_gone"), [(None, True), ("v0.20.0", True), ("v0.19.3", True), ("v0.18.2", False)]
)
def test_labels_of_gpu_feature_discovery_go_with_it_unless_it_is_old(version, is_gone):
    before = on_hosts(node(), gfd={"version": version} if version else {})
    labels = after_of(before, gpu_cluster()).get("Node", "node-1")["metadata"]["labels"]
    assert ("nvidia.com/gpu.product" not in labels, labels["nvidia.com/gpu.present"]) == (is_gone, "true")
    (remark,) = (each for each in cut_over(before, gpu_cluster()).remarks if "GPU Feature Discovery" in each)
    assert ("stay on 1 node" in remark) is not is_gone


def test_operator_labels_nodes_for_the_components_of_a_gpu_cluster():
    labels = AMPERE | {"nvidia.com/gpu.deploy.device-plugin": "true", "nvidia.com/gpu.deploy.driver": "pre-installed"}
    found = after_of(on_hosts(node(labels=labels)), gpu_cluster()).get("Node", "node-1")["metadata"]["labels"]
    assert {name: value for name, value in found.items() if ".deploy." in name} == {
        "nvidia.com/gpu.deploy.driver": "pre-installed",
        "nvidia.com/gpu.deploy.dra-driver": "true",
        "nvidia.com/gpu.deploy.dra-validator": "true",
        "nvidia.com/gpu.deploy.dcgm-dra": "true",
        "nvidia.com/gpu.deploy.dcgm-exporter-dra": "true",
    }


def test_driver_of_the_cluster_policy_goes_with_it():
    changed = only_node(
        cut_over(situation(VERSION, k8s.empty_list("NVIDIADriver", "nvidia.com/v1alpha1"), node()), gpu_cluster())
    )
    assert (changed.after, changed.interrupts) == ("nothing", "the driver is taken from the node")
    assert changed.reasons[0] == (
        "the DRA driver does not run there: it waits for a driver of the GPUs, and no NVIDIADriver is for the node"
    )


def test_nvidia_driver_takes_the_place_of_the_driver_that_goes():
    found = cut_over(situation(VERSION, node(), bound("a")), gpu_cluster(), nvidia_driver(version="595.58.03"))
    assert (only_node(found).after, found.unknown) == ("8 GPUs of the DRA driver", ())
    (disrupted,) = found.disrupted
    assert disrupted.why == (
        "it holds GPUs, and NVIDIADriver default loads the driver of the node anew, which ends pods with GPUs, or fails while they run"
    )
    view = after_of(situation(VERSION, node(gpus=1)), gpu_cluster(), nvidia_driver(version="595.58.03"))
    (published,) = gpu_slices(view)
    assert published["spec"]["devices"][0]["attributes"]["driverVersion"] == {"version": "595.58.3"}


def test_devices_of_another_dra_driver_get_the_version_of_the_new_driver():
    before = situation(VERSION, node(gpus=2, **{GPU: "0"}), k8s.resource_slice(k8s.gpus(2)))
    (published,) = gpu_slices(after_of(before, gpu_cluster(), nvidia_driver(version="595.58.03")))
    versions = [each["attributes"]["driverVersion"] for each in published["spec"]["devices"]]
    assert versions == [{"version": "595.58.3"}] * 2


def test_nvidia_driver_is_for_the_nodes_that_it_selects():
    selecting = nvidia_driver("some", default=False, nodeSelector={"pool": "a"})
    before = situation(VERSION, node(labels=AMPERE | {"pool": "a"}), node("node-2"))
    first, second = cut_over(before, gpu_cluster(), selecting).nodes
    assert (first.after, second.after) == ("8 GPUs of the DRA driver", "nothing")


def test_driver_older_than_580_leaves_the_devices_unknown():
    labels = AMPERE | {"nvidia.com/cuda.driver-version.full": "570.86.15"}
    changed = only_node(cut_over(on_hosts(node(labels=labels)), gpu_cluster()))
    assert changed.unknown == "its driver 570.86.15 is older than 580, which a GPUCluster needs"
    newer = cut_over(situation(VERSION, node(labels=labels)), gpu_cluster(), nvidia_driver())
    assert only_node(newer).unknown == ""


@pytest.mark.parametrize("tolerations", [None, [{"key": GPU, "operator": "Exists"}]])
def test_dra_driver_tolerates_only_what_the_gpu_cluster_says(tolerations):
    changed = only_node(
        cut_over(
            on_hosts(node(taints=[TAINT])), gpu_cluster(daemonsets={"tolerations": tolerations} if tolerations else {})
        )
    )
    if tolerations:
        assert changed.after == "8 GPUs of the DRA driver"
    else:
        assert changed.after == "nothing"
        assert changed.reasons[0] == (
            "the DRA driver does not run there: daemonsets.tolerations of GPUCluster gpu-cluster do not tolerate the taint "
            "nvidia.com/gpu:NoSchedule"
        )


@pytest.mark.parametrize(
    ("value", "offers"), [("false", "nothing"), ("paused-for-driver-upgrade", "8 GPUs of the DRA driver")]
)
def test_label_keeps_the_dra_driver_off_a_node(value, offers):
    labels = AMPERE | {"nvidia.com/gpu.deploy.dra-driver": value}
    assert only_node(cut_over(on_hosts(node(labels=labels)), gpu_cluster())).after == offers


def test_gpu_cluster_does_nothing_on_a_kubernetes_without_device_classes():
    before = situation({"serverVersion": {"gitVersion": "v1.31.4"}}, node(), driver=ON_HOSTS)
    changed = only_node(cut_over(before, gpu_cluster()))
    assert (changed.after, changed.reasons[0]) == (
        "nothing",
        "the DRA driver does not run there: Kubernetes 1.31 does not serve DeviceClasses",
    )


@pytest.mark.parametrize(
    ("labels", "driver", "offers"),
    [
        (AMPERE, ON_HOSTS, "14 1g.5gb of the DRA driver"),
        (AMPERE, {}, "nothing"),
        (HOPPER, {}, "2 GPUs of the DRA driver"),
    ],
    ids=["the driver stays", "before Hopper MIG stays on", "from Hopper on MIG is off"],
)
def test_mig_devices_do_not_survive_a_new_driver_without_a_mig_manager(labels, driver, offers):
    before = situation(VERSION, cut("1g.5gb", 14, labels), driver=driver)
    changed = only_node(cut_over(before, gpu_cluster(), nvidia_driver()))
    assert (changed.before, changed.after) == ("14 nvidia.com/mig-1g.5gb", offers)
    said = "MIG devices do not survive that the driver is loaded anew, and there is no MIG manager to make them again"
    assert (said in changed.reasons) is (driver == {})


def test_label_of_the_mig_manager_is_read_by_nothing():
    found = cut_over(on_hosts(cut("1g.5gb", 14)), gpu_cluster())
    assert "the label nvidia.com/mig.config stays on 1 node, and no MIG manager reads it" in found.remarks


def test_deleted_cluster_policy_leaves_nothing():
    found = plan(situation(VERSION, node(), bound("a")), deleted=[POLICY])
    changed = only_node(found)
    assert (changed.after, changed.interrupts) == ("nothing", "the driver is taken from the node")
    assert (outcomes(found), found.unknown) == ({"pod team-a/a": Outcome.LOST}, ())


def test_pods_go_on_where_hosts_have_the_driver():
    found = plan(on_hosts(node(), bound("a")), deleted=[POLICY])
    assert (only_node(found).after, found.disrupted, outcomes(found)) == ("nothing", (), {"pod team-a/a": Outcome.LOST})


def test_devices_of_another_dra_driver_stay_when_the_cluster_policy_goes():
    before = on_hosts(node(gpus=2, **{GPU: "2"}), k8s.resource_slice(k8s.gpus(2)))
    assert only_node(plan(before, deleted=[POLICY])).after == "2 GPUs of the DRA driver"


@pytest.mark.parametrize(
    ("component", "offers", "unknown"),
    [
        ("devicePlugin", "nothing", ()),
        ("driver", "nothing", ()),
        ("gfd", "8 nvidia.com/gpu", ()),
        ("dcgmExporter", None, ()),
        ("toolkit", None, ("ClusterPolicy cluster-policy: the effect of spec.toolkit.enabled is not predicted",)),
    ],
)
def test_components_that_are_disabled(component, offers, unknown):
    spec = policy()["spec"]
    disabled = policy(**{component: {**spec.get(component, {}), "enabled": False}})
    found = plan(situation(VERSION, node()), disabled)
    assert ([each.after for each in found.nodes], found.unknown) == ([offers] if offers else [], unknown)


def test_device_plugin_that_is_enabled_beside_a_dra_driver_hands_gpus_out_twice():
    nothing = {"name": "plugin", "default": "whole"}
    before = situation(
        VERSION,
        node(gpus=2, **{GPU: "0"}),
        k8s.resource_slice(k8s.gpus(2)),
        devicePlugin={"config": nothing, "enabled": False},
    )
    found = plan(before, policy())
    assert only_node(found).after == "2 nvidia.com/gpu; 2 GPUs of the DRA driver"
    assert found.remarks == ("keep the device plugin or the DRA driver off node-1: both would hand out the same GPUs",)


def test_device_plugin_of_somebody_else_stays_beside_a_gpu_cluster():
    before = bare_situation(VERSION, k8s.empty_list("ClusterPolicy", "nvidia.com/v1"), node())
    found = plan(before, gpu_cluster())
    assert only_node(found).after == "8 nvidia.com/gpu; 8 GPUs of the DRA driver"
    assert any("both would hand out the same GPUs" in each for each in found.remarks)
    labels = after_of(before, gpu_cluster(), deleted=()).get("Node", "node-1")["metadata"]["labels"]
    assert labels["nvidia.com/gpu.product"] == "NVIDIA-A100-SXM4-40GB"


def in_gpu_cluster(*objects, gates=None, shares="", labels=None):
    """A cluster whose nodes publish two H100 for a GPUCluster."""
    bare = k8s.node(labels={"nvidia.com/gpu.present": "true", **(labels or {})})
    empty = k8s.empty_list("ClusterPolicy", "nvidia.com/v1")
    return bare_situation(VERSION, empty, bare, k8s.resource_slice(k8s.gpus(2)), gpu_cluster(gates, shares), *objects)


def test_gpu_cluster_that_is_deleted_takes_devices_and_classes_along():
    holder = bound("a", gpus=0), k8s.holding("a", [0], namespace="team-a")
    before = in_gpu_cluster(*holder)
    found = plan(before, deleted=[CLUSTER])
    changed = only_node(found)
    assert (changed.before, changed.after) == ("2 GPUs of the DRA driver", "nothing")
    assert [each.why for each in found.disrupted] == [
        "it holds GPUs, and without the DRA driver their claims are not unprepared, so that pods with claims stay Terminating"
    ]
    view = after_of(before, deleted=[CLUSTER])
    assert (view.list("ResourceSlice"), view.get("DeviceClass", "gpu.nvidia.com")) == ([], None)


@pytest.mark.parametrize(
    ("gates", "shares", "after"),
    [
        (["ConsumableShares"], "4", "2 GPUs (in 4 shares each) of the DRA driver"),
        (["ConsumableShares"], "unlimited", "2 GPUs (shared without a limit) of the DRA driver"),
        (["PassthroughSupport"], "", "2 GPUs, 2 GPUs for virtual machines of the DRA driver"),
    ],
)
def test_changed_gates_and_shares_change_what_is_published(gates, shares, after):
    changed = only_node(plan(in_gpu_cluster(), gpu_cluster(gates, shares)))
    assert (changed.before, changed.after) == ("2 GPUs of the DRA driver", after)


def test_shares_that_are_taken_away_leave_whole_devices():
    shared = plan(in_gpu_cluster(), gpu_cluster(["ConsumableShares"], "4"))
    assert only_node(shared).after.startswith("2 GPUs (in 4 shares each)")
    before = in_gpu_cluster(gates=["ConsumableShares"], shares="4")
    view = after_of(in_gpu_cluster(), gpu_cluster(["ConsumableShares"], "4"), deleted=())
    (slices,) = view.list("ResourceSlice")
    back = bare_situation(VERSION, *(before.view.list("Node")), slices, gpu_cluster(["ConsumableShares"], "4"))
    (device, _) = after_of(back, gpu_cluster(), deleted=()).list("ResourceSlice")[0]["spec"]["devices"]
    assert ("allowMultipleAllocations" in device, device["capacity"]) == (False, {"memory": {"value": "81559Mi"}})


def test_cluster_policy_in_place_of_a_gpu_cluster_brings_the_device_plugin_back():
    found = plan(in_gpu_cluster(), policy(devicePlugin={}), deleted=[CLUSTER])
    changed = only_node(found)
    assert (changed.after, changed.reasons) == (
        "2 nvidia.com/gpu",
        ("the device plugin runs there in place of the DRA driver",),
    )
    view = after_of(in_gpu_cluster(), policy(devicePlugin={}), deleted=[CLUSTER])
    labels = view.get("Node", "node-1")["metadata"]["labels"]
    assert labels["nvidia.com/gpu.product"] == "NVIDIA-H100-80GB-HBM3"


def test_two_that_exclude_each_other_change_no_node():
    found = plan(situation(VERSION, node()), gpu_cluster())
    assert (found.nodes, found.is_harmless) == ((), False)
    (sentence,) = found.unknown
    assert sentence == (
        "delete one of the two: ClusterPolicy cluster-policy and GPUCluster gpu-cluster exclude each other, so the operator "
        "follows neither, and what nodes offer then is unknown"
    )


def test_other_fields_of_a_gpu_cluster_are_named():
    changed = gpu_cluster()
    changed["spec"]["draDriver"] |= {"version": "v0.5.0"}
    changed["spec"]["dcgm"] = {"enabled": True}
    found = plan(in_gpu_cluster(), changed)
    assert (found.nodes, found.unknown) == (
        (),
        ("GPUCluster gpu-cluster: the effect of spec.draDriver.version is not predicted",),
    )
