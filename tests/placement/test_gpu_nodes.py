"""GPU nodes: how they are recognised, what they offer, and which of them a pod selects."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.fleet.gpu_nodes import GPUNodes, gpu_nodes, narrows_gpus, node_facts
from policies.kubernetes.bounds import LONGEST_KEY
from policies.kubernetes.view import UNKNOWN
from policies.nvidia.products import Product
from webhook.cluster.manifests import ManifestsView

ALL = ("f1", "f2", "f3", "f4", "f5", "f6", "gpucluster")


def names(nodes):
    return [node.name for node in nodes]


def bare(allocatable=None, **labels):
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "bare", "labels": labels},
        "status": {"allocatable": allocatable},
    }


def test_gpu_nodes_are_unknown_while_nodes_are():
    assert gpu_nodes(ManifestsView()) is UNKNOWN


def test_fixtures_are_gpu_nodes_but_those_that_say_nothing(cluster):
    nodes = gpu_nodes(cluster(*ALL))
    assert names(nodes.nodes) == [
        "a100-whole-1",
        "a100-mixed-1",
        "a100-single-1",
        "h100-time-sliced-1",
        "t4-mps-1",
        "gb200-1",
    ]
    assert nodes.others == 2


def test_offers_are_amounts_above_zero(cluster):
    (node,) = gpu_nodes(cluster("f2")).nodes
    assert node.offers == {"nvidia.com/mig-1g.5gb": 16, "nvidia.com/mig-2g.10gb": 8, "nvidia.com/mig-3g.20gb": 8}


def test_products_that_nodes_hand_out_are_counted(cluster, node):
    nodes = gpu_nodes(cluster("f1", node("f1", "a100-whole-2"), "f5"))
    assert nodes.plugin_products == {Product("NVIDIA-A100-SXM4-40GB"): 2, Product("Tesla-T4", shared=True): 1}
    assert nodes.handing_out_gpus == {"NVIDIA-A100-SXM4-40GB": 2, "Tesla-T4-SHARED": 1}


def test_products_of_the_nodes_that_a_pod_selects_are_counted(cluster, node):
    nodes = gpu_nodes(cluster("f1", node("f1", "a100-whole-2"), "f5"))
    spec = {"nodeSelector": {"nvidia.com/gpu.family": "turing"}}
    assert nodes.selected_products(spec) == {Product("Tesla-T4", shared=True): 1}


def test_offers_are_counted_by_nodes(cluster):
    assert gpu_nodes(cluster("f1", "f2", "f3")).offers == {
        "nvidia.com/gpu": 2,
        "nvidia.com/mig-1g.5gb": 1,
        "nvidia.com/mig-2g.10gb": 1,
        "nvidia.com/mig-3g.20gb": 1,
    }


@pytest.mark.parametrize(
    ("document", "offers"),
    [
        pytest.param(bare({"nvidia.com/hostdev": "4"}), {"nvidia.com/hostdev": 4}, id="any resource of NVIDIA's"),
        pytest.param(
            bare({"deviceclass.resource.kubernetes.io/gpu.nvidia.com": 2}),
            {"deviceclass.resource.kubernetes.io/gpu.nvidia.com": 2},
            id="implicit name",
        ),
        pytest.param(bare(**{"nvidia.com/gpu.present": "true"}), {}, id="label of the operator"),
        pytest.param(bare(**{"nvidia.com/gpu.product": "Tesla-T4"}), {}, id="label of GPU Feature Discovery"),
        pytest.param(
            bare({"nvidia.com/gpu": "many", "nvidia.com/mig-1g.5gb": "1"}),
            {"nvidia.com/mig-1g.5gb": 1},
            id="what is no amount is passed over",
        ),
    ],
)
def test_gpu_node_offers_something_or_says_that_it_has_a_gpu(cluster, document, offers):
    (node,) = gpu_nodes(cluster(document)).nodes
    assert node.offers == offers


@pytest.mark.parametrize(
    "document",
    [
        bare({"cpu": "4", "amd.com/gpu": "8"}),
        bare({"nvidia.com/gpu": "0"}),
        bare(**{"nvidia.com/gpu.present": "false"}),
        bare("nvidia.com/gpu"),
        {"kind": "Node", "apiVersion": "v1"},
    ],
)
def test_other_nodes_are_only_counted(cluster, document):
    nodes = gpu_nodes(cluster(document))
    assert (nodes.nodes, nodes.others) == ((), 1)


@pytest.mark.parametrize(
    ("spec", "selected"),
    [
        pytest.param({}, ["a100-whole-1", "a100-mixed-1", "h100-time-sliced-1"], id="no selector"),
        pytest.param({"nodeSelector": {"nvidia.com/gpu.family": "hopper"}}, ["h100-time-sliced-1"], id="node selector"),
        pytest.param(
            {"nodeSelector": {"nvidia.com/gpu.family": "ampere", "nvidia.com/mig.strategy": "mixed"}},
            ["a100-mixed-1"],
            id="two labels",
        ),
        pytest.param({"nodeSelector": {"nvidia.com/gpu.family": "volta"}}, [], id="nothing"),
        pytest.param({"nodeName": "a100-mixed-1"}, ["a100-mixed-1"], id="named"),
        pytest.param({"nodeName": "elsewhere"}, [], id="named elsewhere"),
    ],
)
def test_selectors_of_a_pod_choose_among_them(cluster, spec, selected):
    assert names(gpu_nodes(cluster("f1", "f2", "f4")).select(spec)) == selected


def test_required_affinity_chooses_among_them(cluster):
    terms = [{"matchExpressions": [{"key": "nvidia.com/gpu.memory", "operator": "Gt", "values": ["50000"]}]}]
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}
    selected = gpu_nodes(cluster("f1", "f4", "f5", "f6")).select({"affinity": affinity})
    assert names(selected) == ["h100-time-sliced-1", "gb200-1"]


def test_they_are_read_once(cluster):
    view = cluster("f1")
    assert gpu_nodes(view) is gpu_nodes(view)


@given(st.lists(st.sampled_from("abc"), max_size=70), st.sampled_from("abcd"))
def test_selection_is_that_of_each_node_alone(zones, zone):
    documents = (bare(**{"nvidia.com/gpu.present": "true", "zone": each}) for each in zones)
    nodes = GPUNodes(tuple(map(node_facts, documents)))
    selected = nodes.select({"nodeSelector": {"zone": zone}})
    assert selected == tuple(node for node in nodes.nodes if node.labels["zone"] == zone)


def test_like_nodes_share_their_traits(cluster, node):
    one, other, third = gpu_nodes(cluster("f1", node("f1", "a100-whole-2", {"example.com/rack": "7"}), "f5")).nodes
    assert one.traits is other.traits
    assert one.traits != third.traits


def test_nodes_are_found_by_their_traits(cluster):
    nodes = gpu_nodes(cluster("f1", "f6", bare({"cpu": "4"})))
    assert names(nodes.nodes_with(lambda traits: not traits.has_device_plugin)) == ["bare"]
    assert nodes.nodes_with(lambda traits: traits.kubelet == "v0") == ()


def test_products_are_shared_where_the_label_of_the_strategy_says_so(cluster):
    labels = {"nvidia.com/gpu.product": "Tesla-T4", "nvidia.com/gpu.sharing-strategy": "mps"}
    nodes = gpu_nodes(cluster(bare({"nvidia.com/gpu": "4"}, **labels)))
    assert nodes.plugin_products == {Product("Tesla-T4", shared=True): 1}


def test_products_of_all_nodes_are_counted_for_a_pod_that_selects_none(cluster):
    nodes = gpu_nodes(cluster("f1", "f5"))
    assert nodes.selected_products({}) == nodes.plugin_products


def test_resources_of_the_device_plugin_are_told_from_others(cluster):
    (node,) = gpu_nodes(cluster(bare({"nvidia.com/gpu": "1", "nvidia.com/hostdev": "1"}))).nodes
    assert node.traits.plugin_resources == {"nvidia.com/gpu"}


def test_one_gpu_is_the_largest_offer_where_no_node_has_more(cluster):
    nodes = gpu_nodes(cluster(bare({"nvidia.com/gpu": "1"})))
    assert nodes.largest_offers == {"nvidia.com/gpu": ("bare", 1)}


@pytest.mark.parametrize(
    ("key", "values"),
    [
        ("nvidia.com/gpu.product", {"NVIDIA-A100-SXM4-40GB", "Tesla-T4-SHARED"}),
        ("nvidia.com/gpu.family", None),
    ],
)
def test_labels_of_products_are_collected(cluster, key, values):
    assert gpu_nodes(cluster("f1", "f5")).product_labels.get(key) == values


@pytest.mark.parametrize(("version", "parsed"), [("v1.36.2", (1, 36)), ("1.9", (1, 9)), ("unknown", UNKNOWN)])
def test_version_of_the_kubelet_is_read(cluster, version, parsed):
    document = bare({"nvidia.com/gpu": "1"})
    document["status"]["nodeInfo"] = {"kubeletVersion": version}
    (node,) = gpu_nodes(cluster(document)).nodes
    assert node.traits.kubelet_version == parsed


def test_resource_is_remembered_while_the_plugin_restarts(cluster):
    document = bare({"nvidia.com/gpu": "0"}, **{"nvidia.com/gpu.present": "true"})
    document["status"]["capacity"] = {"nvidia.com/gpu": "8"}
    (node,) = gpu_nodes(cluster(document)).nodes
    assert (node.offers, node.traits.plugin_resources) == ({}, {"nvidia.com/gpu"})


def test_resources_of_other_vendors_are_known_with_an_amount_of_zero(cluster):
    nodes = gpu_nodes(cluster(bare({"cpu": "4", "amd.com/gpu": "0"})))
    assert nodes.extended_resources == {"amd.com/gpu"}


@pytest.mark.parametrize(
    ("key", "narrows"),
    [
        ("nvidia.com/gpu.product", True),
        ("nvidia.com/mig-1g.5gb.product", True),
        ("nvidia.com/gpu.count", False),
        ("example.com/gpu.product", False),
        (f"nvidia.com/mig-{'1' * LONGEST_KEY}.product", False),
    ],
)
def test_label_that_says_which_gpu_a_pod_gets_narrows(key, narrows):
    assert narrows_gpus(key) is narrows
