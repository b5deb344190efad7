"""What nodes offer after a change: the table of the device plugin's and GPU Feature Discovery's documentation."""

import json
from pathlib import Path

import pytest

from policies.analyses.plan import predict
from tests.explain import conftest as k8s
from tests.plan.nodes import GPU, config_map, gpu_node, plan, policy, situation, time_slicing

PRODUCT, COUNT = "nvidia.com/gpu.product", "nvidia.com/gpu.count"
REPLICAS, STRATEGY = "nvidia.com/gpu.replicas", "nvidia.com/gpu.sharing-strategy"
A100 = "NVIDIA-A100-SXM4-40GB"


def predicted(before, *manifests, name="node-1"):
    """Resources with an amount, and labels of a node after manifests were stored."""
    objects = {
        (each["kind"], each["metadata"].get("namespace", ""), each["metadata"]["name"]): each for each in manifests
    }
    node = predict(before, objects, before.settings).after.view.get("Node", name)
    offered = {key: value for key, value in node["status"]["allocatable"].items() if "/" in key and value != "0"}
    return offered, node["metadata"]["labels"]


@pytest.mark.parametrize(
    ("document", "offered", "labels"),
    [
        (time_slicing(4), {GPU: "32"}, {PRODUCT: f"{A100}-SHARED", REPLICAS: "4", STRATEGY: "time-slicing"}),
        (
            time_slicing(4, renameByDefault=True),
            {f"{GPU}.shared": "32"},
            {PRODUCT: A100, REPLICAS: "4", STRATEGY: "time-slicing"},
        ),
        (time_slicing(2, kind="mps"), {GPU: "16"}, {PRODUCT: f"{A100}-SHARED", REPLICAS: "2", STRATEGY: "mps"}),
        (
            time_slicing(4, resource="nvidia.com/mig-1g.5gb"),
            {GPU: "8"},
            {PRODUCT: A100, REPLICAS: "1", STRATEGY: "none"},
        ),
    ],
    ids=["time-slicing", "renamed", "mps", "another resource"],
)
def test_shared_gpus(document, offered, labels):
    found, found_labels = predicted(situation(gpu_node(), strategy="single"), config_map(whole=document))
    assert found == offered
    assert found_labels.items() >= labels.items()
    assert found_labels[COUNT] == "8"


def test_gpus_that_are_unhealthy_stay_so():
    found, labels = predicted(situation(gpu_node(**{GPU: "7"})), config_map(whole=time_slicing(4)))
    assert (found, labels[COUNT]) == ({GPU: "28"}, "8")


def labelled(config, **rest):
    return gpu_node(labels={"nvidia.com/mig.config": config}, **rest)


@pytest.mark.parametrize(
    ("strategy", "config", "offered", "labels"),
    [
        ("mixed", "all-1g.5gb", {"nvidia.com/mig-1g.5gb": "56"}, {PRODUCT: A100, COUNT: "8", REPLICAS: "0"}),
        ("mixed", "all-3g.20gb", {"nvidia.com/mig-3g.20gb": "16"}, {"nvidia.com/mig-3g.20gb.count": "16"}),
        (
            "mixed",
            "all-balanced",
            {"nvidia.com/mig-1g.5gb": "16", "nvidia.com/mig-2g.10gb": "8", "nvidia.com/mig-3g.20gb": "8"},
            {REPLICAS: "0"},
        ),
        ("single", "all-1g.5gb", {GPU: "56"}, {PRODUCT: f"{A100}-MIG-1g.5gb", COUNT: "56", REPLICAS: "1"}),
        ("single", "all-balanced", {}, {PRODUCT: f"{A100}-MIG-INVALID", COUNT: "0", REPLICAS: "0"}),
        ("none", "all-1g.5gb", {GPU: "8"}, {PRODUCT: A100, COUNT: "8", REPLICAS: "0"}),
    ],
)
def test_gpus_that_mig_cuts(strategy, config, offered, labels):
    found, found_labels = predicted(situation(gpu_node(), strategy=strategy), labelled(config))
    assert found == offered
    assert found_labels.items() >= labels.items()


def test_mig_devices_that_are_shared():
    whole = time_slicing(2, resource="nvidia.com/mig-3g.20gb")
    found, labels = predicted(situation(gpu_node(), whole=whole), labelled("all-3g.20gb"))
    assert found == {"nvidia.com/mig-3g.20gb": "32"}
    assert labels["nvidia.com/mig-3g.20gb.product"] == f"{A100}-MIG-3g.20gb-SHARED"
    assert labels["nvidia.com/mig-3g.20gb.replicas"] == "2"


def test_gpus_that_are_whole_again():
    labels = {
        "nvidia.com/mig.config": "all-3g.20gb",
        "nvidia.com/mig-3g.20gb.count": "4",
        "nvidia.com/mig-3g.20gb.product": f"{A100}-MIG-3g.20gb",
        REPLICAS: "0",
    }
    node = gpu_node(gpus=2, labels=labels, **{"nvidia.com/mig-3g.20gb": "4"})
    found, after = predicted(
        situation(node), gpu_node(gpus=2, labels={**labels, "nvidia.com/mig.config": "all-disabled"})
    )
    assert found == {GPU: "2"}
    assert not [label for label in after if label.startswith("nvidia.com/mig-")]


def test_gpus_of_the_single_strategy_that_are_whole_again():
    labels = {PRODUCT: f"{A100}-MIG-1g.5gb", COUNT: "14", "nvidia.com/mig.config": "all-1g.5gb"}
    before = situation(gpu_node(labels=labels, **{GPU: "14"}), strategy="single")
    found, after = predicted(
        before, gpu_node(labels={**labels, "nvidia.com/mig.config": "all-disabled"}, **{GPU: "14"})
    )
    assert (found, after[PRODUCT], after[COUNT]) == ({GPU: "2"}, A100, "2")


def test_some_gpus_of_a_node_are_cut_by_a_configuration_of_ones_own():
    entries = [
        {"devices": [2, 3, 4, 5, 6, 7], "mig-enabled": False},
        {"devices": [0, 1], "mig-enabled": True, "mig-devices": {"3g.20gb": 2}},
    ]
    document = {"version": "v1", "mig-configs": {"two": entries}}
    own = config_map("mig", **{"config.yaml": document})
    before = situation(gpu_node(), own, migManager={"config": {"name": "mig"}})
    found, _ = predicted(before, labelled("two"))
    assert found == {GPU: "6", "nvidia.com/mig-3g.20gb": "4"}


def own_layout(*entries):
    return config_map("mig", **{"config.yaml": {"version": "v1", "mig-configs": {"own": list(entries)}}})


@pytest.mark.parametrize("profiles", [{"3g.21gb": 2}, {"3g.20gb": 1, "3g.40gb": 1}])
def test_profile_that_the_gpus_lack_leaves_those_of_its_entry_without_devices(profiles):
    entries = [
        {"devices": [0, 1], "mig-enabled": True, "mig-devices": profiles},
        {"devices": [2, 3], "mig-enabled": True, "mig-devices": {"1g.5gb": 7}},
    ]
    before = situation(gpu_node(gpus=5), own_layout(*entries), migManager={"config": {"name": "mig"}})
    found, _ = predicted(before, labelled("own", gpus=5))
    assert found == {"nvidia.com/mig-1g.5gb": "14", GPU: "1"}


def test_entries_for_gpus_that_the_node_lacks_cut_the_others():
    entries = [{"devices": list(range(8)), "mig-enabled": True, "mig-devices": {"1g.5gb": 7}}]
    before = situation(gpu_node(gpus=4), own_layout(*entries), migManager={"config": {"name": "mig"}})
    assert predicted(before, labelled("own", gpus=4))[0] == {"nvidia.com/mig-1g.5gb": "28"}


def test_node_with_more_gpus_than_its_labels_count_is_unknown():
    entries = [{"devices": "all", "mig-enabled": True, "mig-devices": {"1g.5gb": 7}}]
    before = situation(gpu_node(gpus=4, **{GPU: "8"}), own_layout(*entries), migManager={"config": {"name": "mig"}})
    found = plan(before, gpu_node(gpus=4, labels={"nvidia.com/mig.config": "own"}, **{GPU: "8"}))
    assert [each.unknown for each in found.nodes] == ["its labels do not say which GPUs it has"]


def test_node_on_which_mig_parted_fails_is_unknown():
    entries = [
        {"devices": "all", "mig-enabled": False},
        {"devices": [0], "mig-enabled": True, "mig-devices": {"3g.20gb": 2}},
    ]
    own = config_map("mig", **{"config.yaml": {"version": "v1", "mig-configs": {"two": entries}}})
    found = plan(situation(gpu_node(), own, migManager={"config": {"name": "mig"}}), labelled("two"))
    words = "MIG mode is currently enabled, but the configuration specifies it should be disabled"
    assert [each.unknown for each in found.nodes] == [f"mig-parted fails on GPU 0: {words}"]
    assert not found.is_harmless


@pytest.mark.parametrize(
    "spec",
    [
        {"devicePlugin": {"enabled": False}},
        {"sandboxWorkloads": {"enabled": True, "defaultWorkload": "vm-passthrough"}},
        {"default": "missing"},
    ],
    ids=["disabled", "for machines", "a document that does not exist"],
)
def test_node_offers_nothing(spec):
    found, _ = predicted(situation(gpu_node()), policy(**spec))
    assert found == {}


def test_taint_that_the_operator_no_longer_tolerates():
    taint = {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}
    before = situation(gpu_node(taints=[taint]))
    found, _ = predicted(before, policy(daemonsets={"tolerations": [{"key": "other", "operator": "Exists"}]}))
    assert found == {}


def test_document_is_chosen_by_the_label_of_the_node():
    nodes = gpu_node(), gpu_node("node-2", labels={"nvidia.com/device-plugin.config": "shared"})
    change = config_map(whole="version: v1\n", shared=time_slicing(4))
    before = situation(*nodes)
    assert predicted(before, change)[0] == {GPU: "8"}
    assert predicted(before, change, name="node-2")[0] == {GPU: "32"}


def test_node_that_is_configured_as_before_is_left_alone():
    node = gpu_node(gpus=8, **{GPU: "7"})
    found = plan(situation(node), config_map(whole="version: v1\n", other=time_slicing(4)))
    assert (found.nodes, found.is_harmless) == ((), True)


def test_devices_of_the_dra_driver_are_like_those_of_other_nodes():
    part = k8s.gpu(0, memory="19968Mi", product="NVIDIA A100-SXM4-40GB")
    part["attributes"] |= {"type": {"string": "mig"}, "profile": {"string": "3g.20gb"}}
    slices = [
        k8s.resource_slice(k8s.gpus(2, product="NVIDIA A100-SXM4-40GB")),
        k8s.resource_slice([{**part, "name": "gpu-0-mig-a"}], "node-2"),
    ]
    off = {"nvidia.com/gpu.deploy.device-plugin": "false"}
    nodes = [gpu_node(gpus=2, labels=off, cpu="8"), gpu_node("node-2", gpus=1, labels=off, cpu="8")]
    before = situation(*nodes, *slices)
    change = gpu_node(gpus=2, labels={**off, "nvidia.com/mig.config": "all-3g.20gb"}, cpu="8")
    found = predict(before, {("Node", "", "node-1"): change}, before.settings)
    (node,) = found.nodes
    assert (node.before, node.after) == ("2 GPUs of the DRA driver", "4 3g.20gb of the DRA driver")
    (devices,) = [
        each["spec"]["devices"]
        for each in found.after.view.list("ResourceSlice")
        if each["spec"]["nodeName"] == "node-1"
    ]
    assert [each["name"] for each in devices[:2]] == ["gpu-0-mig-3g20gb-9-0", "gpu-0-mig-3g20gb-9-4"]
    assert devices[0]["capacity"]["memory"] == {"value": "19968Mi"}
    assert devices[0]["attributes"]["parentUUID"] == {"string": "GPU-0"}


H100 = json.loads((Path(__file__).parents[1] / "hardware" / "h100.json").read_text())


def test_cut_changes_no_device_where_the_driver_makes_them_on_demand():
    labels = {**H100["nodeLabels"], "nvidia.com/gpu.present": "true", "nvidia.com/gpu.deploy.device-plugin": "false"}
    slices = k8s.resource_slice([], count=2), k8s.resource_slice(H100["devicesWithDynamicMIG"], count=2)
    slices[0]["spec"]["sharedCounters"] = H100["sharedCountersWithDynamicMIG"]
    slices[1]["metadata"]["name"] += "-devices"
    before = situation(k8s.node("node-1", labels, allocatable={"cpu": "8"}), *slices)
    change = k8s.node("node-1", {**labels, "nvidia.com/mig.config": "all-1g.10gb"}, allocatable={"cpu": "8"})
    found = predict(before, {("Node", "", "node-1"): change}, before.settings)
    (node,) = found.nodes
    assert (node.before, node.unknown) == (node.after, "")
    assert node.after == "1 GPU whole or cut on demand of the DRA driver"
    assert "DynamicMIG" in node.reasons[-1]
    assert [each for each in found.after.view.list("ResourceSlice") if each["spec"]["nodeName"] == "node-1"] == [
        *slices
    ]


def test_mig_that_is_turned_on_makes_an_ampere_gpu_into_partitions():
    product = "NVIDIA A100-SXM4-40GB"
    labels = {"nvidia.com/gpu.compute.major": "8", "nvidia.com/gpu.deploy.device-plugin": "false"}
    whole = k8s.gpus(1, memory="40Gi", product=product)
    cut = k8s.gpu(1, product=product, consumesCounters=[])
    before = situation(gpu_node(gpus=2, labels=labels, cpu="8"), k8s.resource_slice([*whole, cut]))
    change = gpu_node(gpus=2, labels={**labels, "nvidia.com/mig.config": "all-1g.5gb"}, cpu="8")
    found = predict(before, {("Node", "", "node-1"): change}, before.settings)
    slices = [each["spec"] for each in found.after.view.list("ResourceSlice") if each["spec"]["nodeName"] == "node-1"]
    assert {each["pool"]["resourceSliceCount"] for each in slices} == {len(slices)}
    assert {device["attributes"]["type"]["string"] for each in slices for device in each["devices"]} == {"mig"}
    assert {"gpu-0-counter-set", "gpu-1-counter-set"} == {
        counters["name"] for each in slices for counters in each.get("sharedCounters", ())
    }


SIZES = {"memory": "4864", "multiprocessors": "14", "slices.gi": "1", "engines.copy": "1"}


def test_cut_that_does_not_change_keeps_its_labels_and_measured_values():
    prefix = "nvidia.com/mig-1g.5gb"
    whole = {"count": "14", "product": f"{A100}-MIG-1g.5gb", "replicas": "1", "sharing-strategy": "none", **SIZES}
    own = {f"{prefix}.{name}": value for name, value in whole.items()}
    node = gpu_node(gpus=4, labels={**own, "nvidia.com/mig.strategy": "mixed"}, **{prefix: "14", GPU: "2"})
    found, labels = predicted(situation(node), config_map(whole=time_slicing(2)))
    assert found == {GPU: "4", prefix: "14"}
    assert labels.items() >= own.items()


def test_new_cut_has_the_sizes_that_another_node_shows():
    labels = {
        PRODUCT: "NVIDIA-B200-MIG-1g.23gb",
        COUNT: "7",
        "nvidia.com/gpu.memory": "22784",
        "nvidia.com/mig.config": "all-1g.23gb",
    }
    cut = gpu_node("node-2", labels=labels, **{GPU: "7"})
    before = situation(gpu_node(gpus=1, product="NVIDIA-B200", memory="183359"), cut, strategy="single")
    change = gpu_node(gpus=1, product="NVIDIA-B200", memory="183359", labels={"nvidia.com/mig.config": "all-1g.23gb"})
    assert predicted(before, change)[1]["nvidia.com/gpu.memory"] == "22784"


def test_gpus_with_mig_are_offered_whole_under_the_strategy_none_and_as_devices_under_another():
    node = gpu_node(labels={REPLICAS: "0", "nvidia.com/mig.config": "all-1g.5gb"})
    before = situation(node, strategy="none")
    assert predicted(before, policy(strategy="single"))[0] == {GPU: "56"}


@pytest.mark.parametrize(
    ("strategy", "config", "document", "words"),
    [
        ("mixed", "compute", "version: v1", "MIG profile '1c.3g.20gb' does not match any resource patterns"),
        ("single", "seven", time_slicing(kind="mps"), "sharing using MPS is not supported for MIG devices"),
        ("mixed", "off", time_slicing(kind="mps"), "using --mig-strategy=mixed is not supported with MPS"),
        ("single", "two", "version: v1", "more than one MIG device type present on node"),
        ("single", "empty", "version: v1", "device 0 has no MIG devices configured"),
    ],
)
def test_plugin_that_exits_offers_nothing_and_is_named(strategy, config, document, words):
    layouts = {
        "compute": {"1c.3g.20gb": 6},
        "seven": {"1g.5gb": 7},
        "two": {"1g.5gb": 3, "3g.20gb": 1},
        "empty": {},
    }
    configs = {
        name: [{"devices": "all", "mig-enabled": True, "mig-devices": devices}] for name, devices in layouts.items()
    }
    configs["off"] = [{"devices": "all", "mig-enabled": False}]
    own = config_map("mig", **{"config.yaml": {"version": "v1", "mig-configs": configs}})
    before = situation(gpu_node(), own, strategy=strategy, migManager={"config": {"name": "mig"}})
    found = plan(before, labelled(config), config_map(whole=document))
    (node,) = found.nodes
    assert (node.after, node.refusal, found.is_harmless) == ("nothing", words, False)
    assert node.reasons[-1] == f"the device plugin exits with: {words}"


def test_compute_instances_are_offered_under_the_single_strategy():
    configs = {"compute": [{"devices": "all", "mig-enabled": True, "mig-devices": {"1c.3g.20gb": 6}}]}
    own = config_map("mig", **{"config.yaml": {"version": "v1", "mig-configs": configs}})
    before = situation(gpu_node(), own, strategy="single", migManager={"config": {"name": "mig"}})
    assert predicted(before, labelled("compute"))[0] == {GPU: "48"}
