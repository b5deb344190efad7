"""The labels of GPU Feature Discovery by cut, strategy and sharing, and what they say of hardware."""

import pytest

from policies.fleet.offers import Cut, Hardware, NodeState, read_hardware
from policies.fleet.offers.offer import label_offer
from policies.nvidia.mig import MIGProfile
from policies.nvidia.mig_products import product_named
from policies.nvidia.plugin_configs import PluginConfig
from tests.fleet.offers.reference import counts
from tests.fleet.offers.test_offered_resources import GPU, sharing

A100 = "NVIDIA-A100-SXM4-40GB"
FIXED = {"nvidia.com/gpu.family": "ampere", "nvidia.com/mig.capable": "true"}
OFF, EMPTY, BOTH = [None] * 4, [{}] * 4, [counts("1g.5gb 7"), None]
SEVEN = [counts("1g.5gb 7")] * 4
TWO_KINDS = [counts("3g.20gb 1 2g.10gb 1")] * 4
OF_ONE = {
    "memory": "4864",
    "multiprocessors": "14",
    "slices.gi": "1",
    "slices.ci": "1",
    "engines.copy": "1",
    **{f"engines.{name}": "0" for name in ("decoder", "encoder", "jpeg", "ofa")},
}


def offer(by_gpu, strategy="none", document=None, product=A100, memory=40960):
    hardware = Hardware(product, len(by_gpu), memory, product_named(product), FIXED)
    return label_offer(hardware, NodeState(Cut.of(by_gpu), strategy, PluginConfig(document)))


def gpu(product, count, replicas, strategy="none", memory="40960", **more):
    """Labels of `nvidia.com/gpu`, and `mps.capable`."""
    found = {"product": product, "count": count, "replicas": replicas, "sharing-strategy": strategy, "memory": memory}
    return {f"{GPU}.{name}": value for name, value in {**found, **more}.items()} | {"nvidia.com/mps.capable": "false"}


@pytest.mark.parametrize(
    ("by_gpu", "strategy", "document", "labels"),
    [
        (OFF, "none", None, gpu(A100, "4", "1")),
        (OFF, "none", sharing(), gpu(f"{A100}-SHARED", "4", "4", "time-slicing")),
        (OFF, "none", sharing(renameByDefault=True), gpu(A100, "4", "4", "time-slicing")),
        (OFF, "single", sharing("mps"), gpu(f"{A100}-SHARED", "4", "4", "mps") | {"nvidia.com/mps.capable": "true"}),
        (SEVEN, "none", None, gpu(A100, "4", "0")),
        (SEVEN, "none", sharing(), gpu(A100, "4", "0")),
        (SEVEN, "single", None, gpu(f"{A100}-MIG-1g.5gb", "28", "1", **OF_ONE)),
        (SEVEN, "single", sharing(), gpu(f"{A100}-MIG-1g.5gb-SHARED", "28", "4", "time-slicing", **OF_ONE)),
        (TWO_KINDS, "single", None, gpu(f"{A100}-MIG-INVALID", "0", "0", "", "0")),
        (EMPTY, "single", sharing(), gpu(f"{A100}-MIG-INVALID", "0", "0", "", "0")),
        (EMPTY, "mixed", None, gpu(A100, "4", "0")),
    ],
)
def test_labels_of_the_resource_of_gpus(by_gpu, strategy, document, labels):
    expected = FIXED | labels | ({"nvidia.com/mig.strategy": strategy} if strategy != "none" else {})
    assert offer(by_gpu, strategy, document).labels == expected


def test_labels_of_mig_devices_under_the_mixed_strategy():
    found = offer(BOTH, "mixed", sharing(resource="nvidia.com/mig-1g.5gb", replicas=2)).labels
    prefix = "nvidia.com/mig-1g.5gb."
    base = {"product": f"{A100}-MIG-1g.5gb-SHARED", "count": "7", "replicas": "2", "sharing-strategy": "time-slicing"}
    assert {name.removeprefix(prefix): value for name, value in found.items() if name.startswith(prefix)} == {
        **base,
        **OF_ONE,
    }
    assert (found[f"{GPU}.count"], found[f"{GPU}.replicas"]) == ("2", "1")


@pytest.mark.parametrize("strategy", ["none", "single"])
def test_no_label_is_written_where_mps_meets_mig(strategy):
    found = offer(SEVEN, strategy, sharing("mps"))
    assert (found.labels, found.refusal) == ({}, "MPS sharing is not supported for mig devices")


def test_resource_that_is_listed_twice_is_labelled_with_its_first_number():
    resources = [{"name": GPU, "replicas": 2}, {"name": GPU, "replicas": 4}]
    found = offer(OFF, "none", {"sharing": {"timeSlicing": {"resources": resources}}})
    assert found.labels[f"{GPU}.replicas"] == "2"


def test_memory_of_a_mig_device_that_was_never_measured_is_an_estimate():
    found = offer([counts("1g.23gb 7")], "mixed", product="NVIDIA-B200", memory=183359)
    memory = "nvidia.com/mig-1g.23gb.memory"
    assert found.predicted == {memory}
    assert abs(int(found.labels[memory]) - 22784) <= 0.02 * 22784


@pytest.mark.parametrize(
    ("by_gpu", "strategy"),
    [(OFF, "none"), (OFF, "single"), (OFF, "mixed"), (SEVEN, "single"), (SEVEN, "mixed"), (TWO_KINDS, "mixed")],
)
def test_hardware_is_read_back_from_its_labels(by_gpu, strategy):
    node = {"metadata": {"labels": offer(by_gpu, strategy).labels}}
    hardware, cut = read_hardware(node)
    assert (hardware.product, hardware.gpus) == (A100, 4)
    assert (cut.whole, cut.devices) == (Cut.of(by_gpu).whole, Cut.of(by_gpu).devices)


def test_cut_is_unknown_where_the_labels_call_it_invalid():
    assert read_hardware({"metadata": {"labels": offer(TWO_KINDS, "single").labels}}) is None


def test_measured_memory_is_kept():
    labels = offer(SEVEN, "mixed").labels | {"nvidia.com/mig-1g.5gb.memory": "4800"}
    hardware, _ = read_hardware({"metadata": {"labels": labels}})
    assert hardware.size(MIGProfile.parse("1g.5gb")).memory == 4800
