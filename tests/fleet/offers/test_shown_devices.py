"""What labels say of a resource is what the model of offers made them of."""

import pytest

from policies.fleet.gpu_nodes import node_facts
from policies.fleet.offers import Cut, Hardware, NodeState
from policies.fleet.offers.offer import label_offer, plugin_offer
from policies.fleet.offers.shown import LabelledResource, ShownSharing, labelled_devices
from policies.nvidia.identifiers import GPU_RESOURCE
from policies.nvidia.mig import MIGProfile
from policies.nvidia.mig_products import product_named
from policies.nvidia.plugin_configs import PluginConfig

A100 = "NVIDIA-A100-SXM4-40GB"
SMALL = MIGProfile(1, 5)
HARDWARE = Hardware(A100, 2, 40960, product_named(A100))
WHOLE, CUT = Cut.of([None, None]), Cut.of([{SMALL: 7}, {SMALL: 7}])


def shared(resource, *, is_renamed=False, kind="timeSlicing"):
    resources = [{"name": resource, "replicas": 4}]
    return PluginConfig({"sharing": {kind: {"resources": resources, "renameByDefault": is_renamed}}})


def shown_devices(cut, strategy, config=PluginConfig(None)):  # noqa: B008 - immutable
    state = NodeState(cut, strategy, config)
    resources = {name: str(count) for name, count in plugin_offer(HARDWARE.gpus, state).resources.items()}
    node = {
        "metadata": {"name": "a", "labels": dict(label_offer(HARDWARE, state).labels)},
        "status": {"allocatable": resources},
    }
    return node_facts(node).traits


@pytest.mark.parametrize(
    ("cut", "strategy", "name", "profile", "memory"),
    [
        (WHOLE, "none", GPU_RESOURCE, None, 40960),
        (CUT, "single", GPU_RESOURCE, SMALL, 4864),
        (CUT, "mixed", "nvidia.com/mig-1g.5gb", SMALL, 4864),
    ],
)
def test_device_of_a_resource_is_what_the_node_hands_out(cut, strategy, name, profile, memory):
    ((shown_name, device),) = shown_devices(cut, strategy).shown_devices.items()
    assert (shown_name, device.product, device.profile, device.memory) == (name, A100, profile, memory)
    assert not device.is_shared


@pytest.mark.parametrize("kind", ["timeSlicing", "mps"])
@pytest.mark.parametrize(("is_renamed", "name"), [(False, GPU_RESOURCE), (True, "nvidia.com/gpu.shared")])
def test_share_is_told_by_product_or_by_name(kind, is_renamed, name):
    traits = shown_devices(WHOLE, "none", shared(GPU_RESOURCE, is_renamed=is_renamed, kind=kind))
    strategy = "mps" if kind == "mps" else "time-slicing"
    assert {each: device.sharing for each, device in traits.shown_devices.items()} == {name: ShownSharing(4, strategy)}
    assert traits.plugin_product.shared


def test_share_of_a_mig_device_has_the_replicas_of_its_own_resource():
    traits = shown_devices(CUT, "mixed", shared("nvidia.com/mig-1g.5gb"))
    assert traits.shown_devices["nvidia.com/mig-1g.5gb"].sharing == ShownSharing(4, "time-slicing")
    assert not traits.plugin_product.shared


def test_strategy_alone_tells_that_a_node_shares_and_not_by_which_name():
    labels = {"nvidia.com/gpu.product": A100, "nvidia.com/gpu.sharing-strategy": "mps", "nvidia.com/gpu.replicas": "4"}
    node = {"metadata": {"name": "a", "labels": labels}, "status": {"allocatable": {GPU_RESOURCE: "8"}}}
    device = node_facts(node).traits.shown_devices[GPU_RESOURCE]
    assert (device.is_shared, device.sharing.replicas) == (True, 1)


@pytest.mark.parametrize("value", ["", "-1", "four", "1234567890", "٤"])
def test_label_that_is_no_number_says_nothing(value):
    shown = LabelledResource(GPU_RESOURCE, {"nvidia.com/gpu.count": value, "nvidia.com/gpu.memory": value})
    assert (shown.device_count, shown.memory) == (None, None)


def test_devices_of_the_mixed_strategy_are_counted_without_those_that_are_gone():
    labels = {"nvidia.com/mig-1g.5gb.count": "7", "nvidia.com/mig-2g.10gb.count": "0", "nvidia.com/mig-x.count": "1"}
    assert labelled_devices(labels) == {SMALL: 7}


@pytest.mark.parametrize(
    ("labels", "amounts", "expected"),
    [
        ({"replicas": "0", "count": "4"}, {"allocatable": "12", "capacity": "16"}, 4),
        ({"replicas": "0", "count": "4"}, {"allocatable": "16"}, 4),
        ({"replicas": "0", "count": "4"}, {"allocatable": "3", "capacity": "4"}, 1),
        ({"replicas": "1", "count": "4"}, {"allocatable": "16"}, 1),
        ({"replicas": "0", "count": "0"}, {"allocatable": "16"}, 1),
    ],
    ids=["unhealthy", "no-capacity", "whole", "labelled", "mig-invalid"],
)
def test_shares_that_labels_hide_are_known_by_the_capacity(labels, amounts, expected):
    named = {f"nvidia.com/gpu.{name}": value for name, value in labels.items()}
    status = {field: {"nvidia.com/gpu": amount} for field, amount in amounts.items()}
    node = {"metadata": {"name": "a", "labels": named}, "status": status}
    assert node_facts(node).traits.hidden_shares == expected
