"""The GPUs that a pod gets on nodes that fit: each row is of one kind, and says which."""

from __future__ import annotations

import pytest

from policies.analyses.explain.explanations import why_sentences
from policies.devices.allocation.allocator import Allocator
from tests.plan.nodes import gpu_node

GPU = "nvidia.com/gpu"
H100 = "NVIDIA-H100-80GB-HBM3"
T4 = "Tesla-T4"
QUARTERS = {
    "nvidia.com/gpu.product": f"{T4}-SHARED",
    "nvidia.com/gpu.replicas": "4",
    "nvidia.com/gpu.sharing-strategy": "time-slicing",
}
SINGLE_MIG = {"nvidia.com/gpu.product": f"{H100}-MIG-1g.10gb", "nvidia.com/mig.strategy": "single"}


def h100(name, **rest):
    return gpu_node(name, 8, product=H100, memory="81559", **rest)


def t4(name, **rest):
    return gpu_node(name, 1, product=T4, memory="15360", **rest)


def rows(answer):
    """The number of nodes, what a pod gets, and the text of each row that fits."""
    return [(group.count, group.gets, *why_sentences(group)) for group in answer.groups if group.fits]


def test_nodes_of_a_device_plugin_are_split_by_what_a_pod_gets(ask, k8s):
    nodes = [t4("node-1", labels=QUARTERS, **{GPU: "4"}), h100("node-2"), h100("node-3")]
    assert rows(ask(k8s.pod({GPU: "1"}), *nodes)) == [
        (2, (f"1 whole {H100}",), f"It would get 1 whole {H100}."),
        (1, (f"1 quarter of {T4} (time-slicing)",), f"It would get 1 quarter of {T4} (time-slicing)."),
    ]


def test_mig_devices_of_the_single_strategy_are_no_whole_gpus(ask, k8s):
    node = h100("node-1", labels=SINGLE_MIG, **{GPU: "56"})
    assert rows(ask(k8s.pod({GPU: "2"}), node)) == [
        (1, (f"2 MIG 1g.10gb of {H100}",), f"It would get 2 MIG 1g.10gb of {H100}.")
    ]


def test_devices_of_claims_are_named_beside_what_they_are(ask, k8s):
    nodes = [t4("node-1"), k8s.node("node-2"), k8s.resource_slice(k8s.gpus(2), "node-2")]
    served = k8s.device_class() | {"spec": {**k8s.device_class()["spec"], "extendedResourceName": GPU}}
    version = {"apiVersion": "v1", "kind": "Version", "gitVersion": "v1.36.0"}
    assert rows(ask(k8s.pod({GPU: "1"}), *nodes, served, version)) == [
        (1, (f"1 whole {T4}",), f"It would get 1 whole {T4}."),
        (1, (f"1 whole {H100}",), f"It would get 1 whole {H100} ({GPU}: gpu-0)."),
    ]


def test_outcomes_are_those_of_the_first_node_of_each_row(ask, k8s):
    nodes = [k8s.node("node-1"), k8s.resource_slice(k8s.gpus(2), "node-1")]
    nodes += [k8s.node("node-2"), k8s.resource_slice(k8s.gpus(2, product="Tesla T4"), "node-2")]
    answer = ask(k8s.claim(), *nodes)
    assert [group.nodes for group in answer.groups] == [("node-1",), ("node-2",)]
    for group in answer.groups:
        assert [(each.state, each.devices) for each in group.outcomes] == [
            ("chosen", ("gpu-0",)),
            ("usable", ("gpu-1",)),
        ]


def test_node_with_a_choice_of_products_is_shown_once_with_the_pick(ask, k8s):
    devices = [k8s.gpu(0, product="Tesla T4"), k8s.gpu(1)]
    assert rows(ask(k8s.claim(), k8s.node(), k8s.resource_slice(devices))) == [
        (1, (f"1 whole {T4}",), f"It would get 1 whole {T4} (gpu: gpu-0).")
    ]


def test_each_kind_of_a_pod_is_listed(ask, k8s):
    mig = k8s.gpu(1, memory="9984Mi")
    mig["attributes"] |= {"type": {"string": "mig"}, "profile": {"string": "1g.10gb"}}
    anything = k8s.device_class("any", "device.driver == 'gpu.nvidia.com'")
    answer = ask(
        k8s.claim({"deviceClassName": "any", "count": 2}),
        k8s.node(),
        k8s.resource_slice([k8s.gpu(0), mig]),
        anything,
    )
    assert rows(answer) == [
        (
            1,
            (f"1 MIG 1g.10gb of {H100}", f"1 whole {H100}"),
            f"It would get 1 MIG 1g.10gb of {H100} and 1 whole {H100} (gpu: gpu-0 and gpu-1).",
        )
    ]


@pytest.mark.parametrize(("count", "words"), [("1", "1 whole GPU"), ("2", "2 whole GPUs")])
def test_gpus_of_an_unknown_product_are_named_so(ask, k8s, count, words):
    node = h100("node-1", labels={"nvidia.com/gpu.product": ""})
    assert rows(ask(k8s.pod({GPU: count}), node)) == [
        (1, (f"{words} of an unknown product",), f"It would get {words} of an unknown product.")
    ]


def test_pod_without_gpus_gets_none_and_has_one_row(ask, k8s):
    assert rows(ask(k8s.pod({"cpu": "1"}), t4("node-1"), h100("node-2"))) == [(2, ())]


def test_nodes_that_do_not_fit_give_nothing(ask, k8s):
    (group,) = ask(k8s.pod({GPU: "9"}), h100("node-1")).groups
    assert (group.fits, group.gets) == (False, ())


def test_nodes_of_one_shape_are_solved_once_for_each_kind(ask, k8s, monkeypatch):
    objects = []
    for number in range(40):
        product = ("Tesla T4", "NVIDIA H100 80GB HBM3")[number % 2]
        name = f"node-{number}"
        objects += [k8s.node(name), k8s.resource_slice(k8s.gpus(2, product=product), name)]
    solved = []
    allocate = Allocator.allocate
    monkeypatch.setattr(Allocator, "allocate", lambda *call: solved.append(call) or allocate(*call))
    answer = ask(k8s.claim(), *objects)
    assert [row[:2] for row in rows(answer)] == [(20, (f"1 whole {T4}",)), (20, (f"1 whole {H100}",))]
    assert len(solved) < 10
