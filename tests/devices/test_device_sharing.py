"""How the driver shares devices, and the parts that claims take."""

from fractions import Fraction

import pytest

from policies.devices.device_sharing import (
    ALONE,
    SharingMode,
    consumed_capacity,
    held_parts,
    requested_parts,
    sharing_of,
)
from policies.kubernetes.resourceslices import Device
from tests.fleet.offers.reference import needs_reference, runs
from tests.published import shared_device

DRIVER = "gpu.nvidia.com"


def gpu(shares, **capacity):
    amounts = {"memory": "80Gi", **capacity}
    body = {"name": "gpu-0", "capacity": {name: {"value": value} for name, value in amounts.items() if value}}
    return Device(DRIVER, "a", "gpu-0", "a", shared_device(body, shares))


@pytest.mark.parametrize(
    ("device", "mode", "shares"),
    [
        (gpu(""), SharingMode.NONE, 0),
        (gpu("4"), SharingMode.SHARES, 4),
        (gpu("memory"), SharingMode.MEMORY, 0),
        (gpu("unlimited"), SharingMode.UNLIMITED, 0),
        (gpu("4", memory=""), SharingMode.UNLIMITED, 0),
        (gpu("no word of the driver"), SharingMode.MEMORY, 0),
    ],
)
def test_mode_follows_from_the_capacity_that_the_driver_publishes(device, mode, shares):
    sharing = sharing_of(device)
    assert (sharing.mode, sharing.shares) == (mode, shares)


def test_device_whose_capacity_cannot_be_read_goes_to_no_claim():
    device = Device(
        DRIVER, "a", "gpu-0", "a", {"allowMultipleAllocations": True, "capacity": {"memory": {"value": "?"}}}
    )
    assert sharing_of(device).mode is SharingMode.NONE
    assert requested_parts(device, None) is None


@pytest.mark.parametrize("shares", ["4", "memory", "unlimited"])
def test_mig_device_is_held_by_one_claim_in_every_mode_because_it_takes_all_multiprocessors(shares):
    device = gpu(shares, multiprocessors="14", encoders="0")
    assert max(requested_parts(device, None).values()) == 1
    assert requested_parts(device, {"multiprocessors": "7"})["multiprocessors"] == Fraction(1, 2)


def test_result_without_a_share_holds_a_shared_device_alone():
    result = {"device": "gpu-0", "consumedCapacity": {"memory": "0"}}
    assert held_parts(gpu("unlimited"), consumed_capacity(result)) == ALONE
    assert held_parts(gpu("unlimited"), consumed_capacity({**result, "shareID": "a"})) == {"memory": 0}


def test_holders_of_a_shared_device_without_capacities_take_no_part_of_it():
    assert held_parts(gpu("4", memory=""), consumed_capacity({"device": "gpu-0", "shareID": "a"})) == {}


@pytest.mark.parametrize(
    ("shares", "consumed", "parts"),
    [
        ("4", {"shares": "3", "memory": "0"}, {"shares": Fraction(3, 4)}),
        ("4", {"memory": "0"}, {"shares": Fraction(1, 4), "memory": 0}),
        ("memory", {"memory": "20Gi"}, {"memory": Fraction(1, 4)}),
        ("memory", {"memory": "0"}, {"memory": 1}),
    ],
)
def test_holder_takes_what_its_allocation_says_or_the_default_of_a_later_mode(shares, consumed, parts):
    assert held_parts(gpu(shares), consumed) == parts


@needs_reference
def test_modes_are_those_of_the_reference_slices():
    wrong, seen = [], set()
    for model in ("A100-SXM4-40GB", "H100-SXM5-80GB"):
        for name, run in runs(f"{model}.json").items():
            for each in run.get("dra", {}).get("slices", ()) if "shares" in name else ():
                for item in each["spec"].get("devices") or ():
                    device, wanted = Device(DRIVER, "a", item["name"], "a", item), run["consumableShares"]
                    sharing, default = sharing_of(device), requested_parts(device, None)
                    found = str(sharing.shares) if sharing.mode is SharingMode.SHARES else str(sharing.mode)
                    is_mig = "multiprocessors" in item["capacity"]
                    part = 1 if is_mig else {"4": Fraction(1, 4), "memory": 1, "unlimited": 0}[wanted]
                    seen.add((wanted, is_mig))
                    if (found, max(default.values())) != (wanted, part):
                        wrong.append((name, item["name"], found, default))
    assert wrong == []
    assert len(seen) == 6
