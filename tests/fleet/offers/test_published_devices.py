"""The devices of the DRA driver, beside those of a real H100 and of nodes that are cut anew."""

import json
from pathlib import Path

import pytest

from policies.fleet.offers import Cut, DriverState, NodeState, read_hardware
from policies.fleet.offers.published import device_name, published_slices
from tests.fleet.offers.reference import counts

H100 = json.loads((Path(__file__).parents[2] / "hardware" / "h100.json").read_text())
NODE = {"metadata": {"labels": H100["nodeLabels"]}}
UNLABELLED = (
    "uuid",
    "parentUUID",
    "addressingMode",
    "resource.kubernetes.io/pciBusID",
    "resource.kubernetes.io/pcieRoot",
)
"""Attributes that no label tells."""
DYNAMIC = frozenset({"DynamicMIG"})


def labelled(devices):
    """Devices by name, without what no label tells."""
    return {
        each["name"]: {
            **each,
            "attributes": {name: value for name, value in each["attributes"].items() if name not in UNLABELLED},
        }
        for each in devices
    }


def published(cut, driver, devices=()):
    hardware, _ = read_hardware(NODE, devices)
    return published_slices(hardware, NodeState(Cut.of(cut), driver=driver))


def test_device_of_a_real_gpu_follows_from_its_labels():
    (found,) = published([None], DriverState())
    assert labelled(found.devices) == labelled(H100["devices"])


def test_partitions_of_a_real_gpu_follow_from_its_labels():
    counters, found = published([None], DriverState(DYNAMIC))
    assert labelled(found.devices) == labelled(H100["devicesWithDynamicMIG"])
    assert list(counters.counters) == H100["sharedCountersWithDynamicMIG"]


def test_counters_and_devices_share_a_slice_on_kubernetes_1_34():
    (found,) = published([None], DriverState(DYNAMIC, is_combined=True))
    assert (len(found.devices), len(found.counters)) == (len(H100["devicesWithDynamicMIG"]), 1)


def test_gpu_that_is_not_cut_anew_keeps_its_device():
    (found,) = published([None], DriverState(), H100["devices"])
    assert list(found.devices) == H100["devices"]


def test_mig_devices_have_the_place_and_the_attributes_of_their_gpu():
    (found,) = published([counts("1g.10gb 1 3g.40gb 1")], DriverState(), H100["devices"])
    small, large = found.devices
    assert (small["name"], large["name"]) == ("gpu-0-mig-1g10gb-19-3", "gpu-0-mig-3g40gb-9-4")
    assert large["capacity"]["memory"] == {"value": "40448Mi"}
    assert [name for name in large["capacity"] if name.startswith("memorySlice")] == [
        f"memorySlice{number}" for number in (4, 5, 6, 7)
    ]
    whole = H100["devices"][0]["attributes"]
    assert large["attributes"]["parentUUID"] == whole["uuid"]
    assert large["attributes"]["resource.kubernetes.io/pciBusID"] == whole["resource.kubernetes.io/pciBusID"]


def test_gpu_with_mig_and_without_devices_is_not_published():
    (found,) = published([{}], DriverState(), H100["devices"])
    assert found.devices == ()


def test_compute_instances_stop_the_driver():
    assert published([counts("1c.3g.40gb 6")], DriverState()) == (
        "the driver does not start with compute instances such as 1c.3g.40gb"
    )


@pytest.mark.parametrize(
    ("shares", "capacity"),
    [
        (
            "memory",
            {"memory": ("81559Mi", "81559Mi", {"min": "1Mi", "max": "81559Mi", "step": "1Mi"})},
        ),
        ("unlimited", {"memory": ("81559Mi", "0", {"min": "0", "max": "81559Mi", "step": "1Mi"})}),
        (
            "4",
            {
                "memory": ("81559Mi", "0", {"min": "0", "max": "81559Mi", "step": "1Mi"}),
                "shares": ("4", "1", {"min": "1", "max": "4", "step": "1"}),
            },
        ),
    ],
)
def test_shares_have_request_policies(shares, capacity):
    (found,) = published([None], DriverState(frozenset({"ConsumableShares"}), shares))
    (device,) = found.devices
    assert device["allowMultipleAllocations"] is True
    assert {
        name: (each["value"], each["requestPolicy"]["default"], each["requestPolicy"]["validRange"])
        for name, each in device["capacity"].items()
    } == capacity


@pytest.mark.parametrize(
    ("label", "name"),
    [
        ("NVIDIA-A100-SXM4-40GB", "NVIDIA A100-SXM4-40GB"),
        ("NVIDIA-A100-80GB-PCIe", "NVIDIA A100 80GB PCIe"),
        ("NVIDIA-A100-PCIE-40GB", "NVIDIA A100-PCIE-40GB"),
        ("NVIDIA-H100-80GB-HBM3", "NVIDIA H100 80GB HBM3"),
        ("NVIDIA-H20-3e", "NVIDIA H20-3e"),
        ("NVIDIA-B300-SXM6-AC", "NVIDIA B300 SXM6 AC"),
        ("Tesla-V100-SXM2-32GB", "Tesla V100-SXM2-32GB"),
        ("NVIDIA-RTX-PRO-6000-Blackwell-Server-Edition", "NVIDIA RTX PRO 6000 Blackwell Server Edition"),
    ],
)
def test_product_is_spelled_as_the_driver_spells_it(label, name):
    assert device_name(label) == name
