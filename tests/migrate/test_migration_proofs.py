"""What workloads keep and lose when claims replace the device plugin."""

from collections import Counter

import pytest

from policies.analyses.autoscaling import growth_of_cluster
from policies.analyses.migrate.migrated_cluster import migrated_cluster
from policies.analyses.migrate.proof import PROPERTIES, Cell, prove_migration
from policies.fleet.offers import DriverState
from policies.fleet.offers.published import gated_device
from policies.outcome import Certainty, Outcome
from policies.rules.settings import DEFAULTS, parse_settings
from tests.explain import conftest as k8s
from tests.outcome.clusters import BASE, GPU, bound, gpu_node
from webhook.cluster.manifests import ManifestsView

H100 = {
    "nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3",
    "nvidia.com/gpu.memory": "81559",
    "nvidia.com/gpu.family": "hopper",
    "nvidia.com/gpu.compute.major": "9",
    "nvidia.com/gpu.compute.minor": "0",
    "nvidia.com/cuda.driver-version.full": "580.95.05",
    "nvidia.com/cuda.runtime-version.full": "13.0",
}
A100 = {**H100, "nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB", "nvidia.com/gpu.family": "ampere"}
EMPTY = (k8s.empty_list("NodePool", "karpenter.sh/v1"), k8s.empty_list("Deployment", "apps/v1"))


def h100(name="node-1", gpus=2, **more):
    return gpu_node(name, gpus, **{**H100, **more})


def proof(*objects):
    return prove_migration(ManifestsView([*BASE, *EMPTY, *objects]), DEFAULTS)


def cells(*objects):
    """The cells of the only workload."""
    (workload,) = proof(*objects).workloads
    return workload.cells


def outcomes(*objects):
    return [cells(*objects)[fact].outcome for fact in PROPERTIES]


def test_workload_that_loses_nothing_keeps_all():
    assert outcomes(h100(), bound("train")) == [Outcome.KEPT] * len(PROPERTIES)
    assert not proof(h100(), bound("train")).loses


def test_cells_say_what_is_kept():
    assert [cells(h100(), bound("train"))[fact].sentence for fact in PROPERTIES] == [
        "fits on 1 node",
        "1 whole NVIDIA-H100-80GB-HBM3",
        "no quota counts it",
        "no pod of lower priority holds what it requests",
        "no autoscaler is seen",
    ]


def test_workload_without_gpus_of_a_device_plugin_is_left_out():
    claim = k8s.claim(stored=True)
    pod = k8s.pod(name="claiming", stored=True, resourceClaims=k8s.claiming(resourceClaimName="gpus"))
    assert proof(h100(), k8s.pod(name="cpu", stored=True), claim, pod).workloads == ()


def test_pods_of_other_namespaces_hold_their_devices():
    other = bound("other", gpus=2) | {}
    other["metadata"]["namespace"] = "team-b"
    pending = k8s.pod({GPU: "1"}, name="train", stored=True)
    found = {each.label: each.cells["fit"] for each in proof(h100(), other, pending).workloads}
    assert found["pod team-a/train"].outcome is Outcome.KEPT
    assert found["pod team-a/train"].sentence == "fits on 1 node"
    assert found["pod team-b/other"].outcome is Outcome.KEPT


def test_devices_of_running_pods_are_not_given_twice():
    pods = [bound(f"train-{number}", owner=f"ReplicaSet/train-{number}") for number in range(2)]
    found = proof(h100(), *pods, k8s.pod({GPU: "1"}, name="pending", stored=True))
    rooms = {each.label: each.cells["fit"].sentence for each in found.workloads}
    assert rooms["pod team-a/pending"] == "fits on 1 node"
    assert found.assumptions[1:] == ()


@pytest.mark.parametrize(
    ("label", "value"),
    [
        ("nvidia.com/gpu.product", "NVIDIA-H100-80GB-HBM3"),
        ("nvidia.com/gpu.memory", "81559"),
        ("nvidia.com/gpu.family", "hopper"),
        ("nvidia.com/gpu.compute.major", "9"),
        ("nvidia.com/cuda.driver-version.full", "580.95.05"),
        ("nvidia.com/cuda.driver-version.major", "580"),
    ],
)
def test_condition_on_a_label_selects_the_predicted_devices(label, value):
    more = {"nvidia.com/cuda.driver-version.major": "580"}
    nodes = h100(**more), gpu_node("node-2", 2, **{**A100, **more, "nvidia.com/gpu.memory": "81920"})
    found = cells(*nodes, bound("train", nodeSelector={label: value}))
    assert (found["fit"].outcome, found["devices"].outcome) == (Outcome.KEPT, Outcome.KEPT)


@pytest.mark.parametrize(("replicas", "outcome"), [("1", Outcome.KEPT), ("0", Outcome.LOST)])
def test_gpus_with_mig_that_the_plugin_hands_out_whole_are_lost(replicas, outcome):
    """Under the strategy none, only `gpu.replicas: "0"` tells that MIG is on; the driver then publishes no whole GPU."""
    node = h100(**{"nvidia.com/gpu.count": "2", "nvidia.com/gpu.replicas": replicas})
    assert cells(node, bound("train"))["fit"].outcome is outcome


def test_condition_that_conversion_refuses_is_left_with_the_reason():
    node = h100(**{"nvidia.com/gpu.count": "2"})
    (workload,) = proof(node, bound("train", nodeSelector={"nvidia.com/gpu.count": "2"})).workloads
    assert workload.left.startswith(
        "Remove nvidia.com/gpu.count from nodeSelector, or select by nvidia.com/gpu.product, "
    )
    assert workload.left.endswith("; spec.nodeSelector[nvidia.com/gpu.count] [GA307]")
    assert workload.cells["fit"].outcome is Outcome.LOST
    assert workload.loses


def test_mig_devices_of_the_single_strategy_are_kept():
    labels = {
        **A100,
        "nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB-MIG-1g.10gb",
        "nvidia.com/gpu.memory": "9728",
        "nvidia.com/mig.strategy": "single",
    }
    node = h100(gpus=7, **labels, **{"nvidia.com/gpu.count": "7"})
    found = cells(node, bound("train"))
    assert [found[fact].outcome for fact in PROPERTIES] == [Outcome.KEPT] * len(PROPERTIES)


def test_mig_devices_are_predicted_by_profile():
    labels = {**A100, "nvidia.com/mig-1g.10gb.product": "NVIDIA-A100-SXM4-80GB-MIG-1g.10gb"}
    node = k8s.node("node-1", {"nvidia.com/gpu.present": "true", **labels}, allocatable={"nvidia.com/mig-1g.10gb": "7"})
    pod = k8s.pod({"nvidia.com/mig-1g.10gb": "1"}, name="train", stored=True, nodeName="node-1")
    found = cells(node, pod | {"status": {"phase": "Running"}})
    assert [found[fact].outcome for fact in PROPERTIES] == [Outcome.KEPT] * len(PROPERTIES)


def test_mig_device_under_the_name_of_a_gpu_stays_one_without_the_device_plugin():
    product = {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3-MIG-1g.10gb", "nvidia.com/gpu.memory": "9984"}
    found = cells(h100(gpus=28, **product, **{"nvidia.com/mig.strategy": "single"}), bound("train"))
    assert [found[fact].outcome for fact in PROPERTIES] == [Outcome.KEPT] * len(PROPERTIES)
    assert found["devices"].sentence == "1 MIG 1g.10gb of NVIDIA-H100-80GB-HBM3"


def test_node_that_shares_its_gpus_keeps_the_device_plugin():
    node = h100(**{"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3-SHARED", "nvidia.com/gpu.replicas": "4"})
    found = proof(node, bound("train"))
    (workload,) = found.workloads
    assert (workload.cells["fit"].outcome, workload.left != "") == (Outcome.KEPT, True)
    assert found.assumptions == ("1 node shares GPUs, so the device plugin stays: node-1",)


def test_prediction_is_an_assumption():
    assert proof(h100(), bound("train")).assumptions == (
        "the devices of 1 node without ResourceSlices are predicted from node labels: node-1",
    )


def test_published_devices_are_not_predicted():
    found = proof(k8s.resource_slice(k8s.gpus(2)), h100(), bound("train"))
    assert found.assumptions == ()
    assert found.workloads[0].cells["fit"].outcome is Outcome.KEPT


def test_pod_that_holds_more_than_its_node_shows_is_an_assumption():
    assert (
        "1 pod holds more GPUs than the node shows: team-a/train"
        in proof(h100(gpus=1), bound("train", gpus=2)).assumptions
    )


def test_resourcequota_of_the_device_plugin_limits_claims_no_more():
    quota = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "gpus", "namespace": "team-a"},
        "spec": {"hard": {"requests.nvidia.com/gpu": "4"}},
    }
    assert proof(h100(), bound("train"), quota).workloads[0].left.endswith("[GA312]")
    lenient = parse_settings(
        {
            "apiVersion": "gpu-admission.io/v1alpha1",
            "kind": "GPUAdmissionPolicy",
            "metadata": {"name": "default"},
            "spec": {"rules": [{"rule": "GA312", "severity": "warn"}]},
        }
    )
    view = ManifestsView([*BASE, *EMPTY, h100(), bound("train"), quota])
    assert prove_migration(view, lenient).workloads[0].cells["quota"] == Cell(
        Outcome.LOST,
        "ResourceQuota gpus limits requests.nvidia.com/gpu, which claims do not use",
    )
    quota["spec"]["hard"]["gpu.nvidia.com.deviceclass.resource.k8s.io/devices"] = "4"
    assert cells(h100(), bound("train"), quota)["quota"].outcome is Outcome.KEPT


def test_gpuquota_counts_the_same():
    quota = {
        "apiVersion": "gpu-admission.io/v1alpha1",
        "kind": "GPUQuota",
        "metadata": {"name": "gpu", "namespace": "team-a"},
        "spec": {"limits": [{"name": "all", "gpus": 1}, {"name": "mem", "memory": "100Gi"}]},
    }
    found = cells(h100(), bound("train"), quota)["quota"]
    text = "the GPUQuota counts the same: all 1 GPU and mem 79.6 GiB"
    assert found == Cell(Outcome.KEPT, text, Certainty.PREDICTED)


def test_cluster_gpuquota_counts_the_same():
    quota = {
        "apiVersion": "gpu-admission.io/v1alpha1",
        "kind": "ClusterGPUQuota",
        "metadata": {"name": "research"},
        "spec": {"namespaceSelector": {}, "limits": [{"name": "all", "gpus": 1}]},
    }
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team-a"}}
    found = cells(h100(), bound("train"), quota, namespace)["quota"]
    text = "GPUQuotaGroup research counts the same: all 1 GPU"
    assert found == Cell(Outcome.KEPT, text, Certainty.PREDICTED)


def test_cells_say_whether_they_rest_on_devices_that_no_node_publishes_yet():
    found = {key: cell.certainty for key, cell in cells(h100(), bound("train")).items()}
    predicted = {key for key, certainty in found.items() if certainty is Certainty.PREDICTED}
    assert predicted == {"fit", "devices"}
    published = cells(h100(), bound("train"), k8s.resource_slice(k8s.gpus(2)))
    assert {published[key].certainty for key in predicted} == {Certainty.SEEN}


def test_preemption_of_lower_pods_is_lost():
    low = bound("low", priority=1, priorityClassName="low")
    low["metadata"]["namespace"] = "team-b"
    high = k8s.pod({GPU: "1"}, name="high", stored=True, priority=1000, priorityClassName="high")
    classes = [
        {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}, "value": value}
        for name, value in (("low", 1), ("high", 1000))
    ]
    found = {each.label: each.cells["preemption"] for each in proof(h100(), low, high, *classes).workloads}
    assert found["pod team-a/high"].outcome is Outcome.LOST
    assert found["pod team-b/low"].outcome is Outcome.KEPT


def node_pool(**spec):
    return {"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "gpus"}, "spec": spec}


AUTO_MODE = {
    "template": {"spec": {"nodeClassRef": {"group": "eks.amazonaws.com", "kind": "NodeClass", "name": "default"}}}
}


def deployment(name, image, **env):
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": "kube-system"},
        "spec": {
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {
                    "containers": [
                        {
                            "name": "main",
                            "image": image,
                            "env": [{"name": key, "value": value} for key, value in env.items()],
                        }
                    ]
                },
            },
        },
    }


@pytest.mark.parametrize(
    ("found", "outcome"),
    [
        (node_pool(), Outcome.LOST),
        (node_pool(replicas=3), Outcome.KEPT),
        (deployment("scaler", "registry.k8s.io/autoscaling/cluster-autoscaler:v1.36.0"), Outcome.UNKNOWN),
        (deployment("web", "nginx:1"), Outcome.KEPT),
    ],
    ids=["karpenter", "static-pool", "cluster-autoscaler", "none"],
)
def test_autoscaling_depends_on_the_autoscaler(found, outcome):
    assert cells(h100(), bound("train"), found)["autoscaling"].outcome is outcome


@pytest.mark.parametrize(
    ("version", "outcome", "sentence"),
    [
        ("v1.36.0", Outcome.KEPT, "EKS Auto Mode creates nodes for pods with claims (NodePool gpus)"),
        (
            "v1.35.2",
            Outcome.LOST,
            "EKS Auto Mode creates no nodes for pods with claims before Kubernetes 1.36 (NodePool gpus)",
        ),
        (
            "",
            Outcome.UNKNOWN,
            (
                "EKS Auto Mode creates nodes for pods with claims from Kubernetes 1.36 on, and the version is unknown "
                "(NodePool gpus)"
            ),
        ),
    ],
)
def test_node_pools_of_auto_mode_grow_for_claims_on_newer_clusters(version, outcome, sentence):
    view = ManifestsView([{"serverVersion": {"gitVersion": version}}] if version else [])
    assert growth_of_cluster(view, [node_pool(**AUTO_MODE)]) == (outcome, sentence)


@pytest.mark.parametrize(("value", "outcome"), [("false", Outcome.UNKNOWN), ("true", Outcome.LOST)])
def test_karpenter_that_heeds_claims_may_create_nodes(value, outcome):
    karpenter = deployment("karpenter", "public.ecr.aws/karpenter/controller:1.15.0", IGNORE_DRA_REQUESTS=value)
    assert growth_of_cluster(ManifestsView([karpenter]), [node_pool()]).outcome is outcome


def test_pool_that_does_not_grow_for_claims_outweighs_one_that_does():
    view = ManifestsView([{"serverVersion": {"gitVersion": "v1.36.0"}}])
    growth = growth_of_cluster(view, [node_pool(**AUTO_MODE), node_pool()])
    assert growth.outcome is Outcome.LOST
    assert growth.sentence.startswith("Karpenter creates no nodes for pods with claims unless")


def test_autoscaling_is_unknown_without_node_pools():
    view = ManifestsView([*BASE, h100(), bound("train")])
    (workload,) = prove_migration(view, DEFAULTS).workloads
    assert workload.cells["autoscaling"].outcome is Outcome.UNKNOWN


def test_one_namespace_is_compared_in_the_whole_cluster():
    other = bound("other", gpus=2)
    other["metadata"]["namespace"] = "team-b"
    view = ManifestsView([*BASE, *EMPTY, h100(), other, k8s.pod({GPU: "1"}, name="train", stored=True)])
    (workload,) = prove_migration(view, DEFAULTS, "team-a").workloads
    # If the devices of team-b were free afterwards, the outcome would be "gained".
    assert (workload.label, workload.cells["fit"].outcome) == ("pod team-a/train", Outcome.KEPT)


def test_assumptions_count_nodes_and_pods():
    sharing = {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3-SHARED", "nvidia.com/gpu.replicas": "4"}
    nodes = [h100("node-1", 1), h100("node-2", 1), h100("node-3", **sharing), h100("node-4", **sharing)]
    pods = [bound("a", gpus=2), bound("b", "node-2", gpus=2)]
    assert proof(*nodes, *pods).assumptions == (
        "the devices of 2 nodes without ResourceSlices are predicted from node labels: node-1 and node-2",
        "2 nodes share GPUs, so the device plugin stays: node-3 and node-4",
        "2 pods hold more GPUs than the node shows: team-a/a and team-a/b",
    )


def test_absurd_number_of_gpus_is_bounded():
    found = proof(h100(gpus=10**12), bound("train"))
    assert found.workloads[0].cells["fit"].outcome is Outcome.KEPT


def test_cluster_without_the_driver_is_compared_as_if_it_had_it():
    classes = k8s.empty_list("DeviceClass", "resource.k8s.io/v1")
    view = ManifestsView([*BASE[1:], classes, *EMPTY, h100(), bound("train")])
    (workload,) = prove_migration(view, DEFAULTS).workloads
    assert (workload.left, [workload.cells[fact].outcome for fact in PROPERTIES]) == (
        "",
        [Outcome.KEPT] * len(PROPERTIES),
    )


@pytest.mark.parametrize(
    ("index", "said"), [(0, "unknown without DeviceClasses"), (-1, "unknown without ResourceSlices")]
)
def test_devices_are_unknown_without_what_says_them(index, said):
    base = [each for each in BASE if each is not BASE[index]]
    (workload,) = prove_migration(ManifestsView([*base, *EMPTY, h100(), bound("train")]), DEFAULTS).workloads
    assert (workload.cells["devices"].outcome, workload.cells["devices"].sentence) == (Outcome.UNKNOWN, said)


def test_slice_with_devices_of_a_wrong_type_is_compared():
    broken = k8s.resource_slice(k8s.gpus(2))
    broken["spec"]["devices"] = [1, None]
    assert cells(broken, h100(), bound("train"))["devices"].outcome is Outcome.LOST


TIME_SLICED = {
    "nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3-SHARED",
    "nvidia.com/gpu.replicas": "4",
    "nvidia.com/gpu.count": "2",
    "nvidia.com/gpu.sharing-strategy": "time-slicing",
}


def shared_slice(shares, node="node-2"):
    """The GPUs of a node whose driver has `consumableShares`."""
    driver = DriverState(frozenset({"ConsumableShares"}), shares)
    found = k8s.resource_slice(k8s.gpus(2, product="NVIDIA H100 80GB HBM3", memory="81559Mi"), node)
    found["spec"]["devices"] = [
        gated_device({**each, "attributes": {**each["attributes"], "uuid": {"string": each["name"]}}}, driver)
        for each in found["spec"]["devices"]
    ]
    return found


def shared_cluster(shares, *objects):
    return proof(h100(gpus=8, **TIME_SLICED), gpu_node("node-2", 0), shared_slice(shares), *objects)


@pytest.mark.parametrize(
    ("shares", "devices"),
    [
        ("4", "1 quarter of NVIDIA-H100-80GB-HBM3"),
        ("memory", "1 quarter of NVIDIA-H100-80GB-HBM3"),
        ("unlimited", "1 share of NVIDIA-H100-80GB-HBM3 (unlimited)"),
    ],
)
def test_pods_that_share_a_gpu_keep_their_share_where_the_driver_shares(shares, devices):
    (workload,) = shared_cluster(shares, bound("train")).workloads
    assert (workload.left, workload.loses, workload.cells["devices"].sentence) == ("", False, devices)


@pytest.mark.parametrize("shares", ["4", "memory"])
def test_running_pods_hold_their_shares_after_the_migration_and_no_more(shares):
    running = [bound(f"run-{number}") for number in range(9)]
    view = ManifestsView([*BASE, *EMPTY, h100(gpus=8, **TIME_SLICED), shared_slice(shares), *running])
    after = migrated_cluster(view, ["team-a"])
    results = [
        result
        for claim in after.view.known_objects("ResourceClaim")
        for result in claim["status"]["allocation"]["devices"]["results"]
    ]
    assert Counter(each["device"] for each in results) == {"gpu-0": 4, "gpu-1": 4}
    assert {each["consumedCapacity"]["memory"] for each in results} == {"20389Mi" if shares == "memory" else "0"}
    assert after.unplaced == ("team-a/run-8",)


def test_smaller_share_of_the_driver_is_a_change():
    (workload,) = shared_cluster("10", bound("train")).workloads
    assert workload.cells["devices"].outcome is Outcome.CHANGED
    assert workload.cells["devices"].sentence.startswith("1 pod would get 1 share of 1/10 of NVIDIA-H100-80GB-HBM3")


def test_larger_share_of_the_driver_is_not_given():
    (workload,) = shared_cluster("2", bound("train")).workloads
    assert "is one of 4 shares of a GPU, and the DRA driver divides a GPU into 2" in workload.left
    assert workload.cells["fit"].outcome is Outcome.LOST


def test_shares_of_one_pod_are_of_different_gpus_afterwards():
    (workload,) = shared_cluster("4", bound("train", gpus=2)).workloads
    assert (workload.left, workload.cells["devices"].sentence) == ("", "2 quarters of NVIDIA-H100-80GB-HBM3")
    (left,) = shared_cluster("4", bound("train", gpus=3)).workloads
    assert "a claim cannot hold two of one GPU" in left.left
