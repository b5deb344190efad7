"""GPUs of DRA: counted from slices, held by allocated claims."""

from __future__ import annotations

import pytest

from policies.rules.settings import Quotas
from tests.explain.conftest import taint_rule
from tests.published import shared_device
from tests.usage.usage_objects import PRODUCT, claim, device, devices, node, reasons, report, resource_slice, totals

SETS = [{"name": "gpu-0", "counters": {f"slice-{number}": {"value": "1"} for number in range(8)}}]


def part(name, profile, first, size, kind="mig"):
    """A form of a GPU that can be divided, which takes so many of its eight memory slices."""
    consumed = [{"counterSet": "gpu-0", "counters": {f"slice-{first + each}": {"value": "1"} for each in range(size)}}]
    return device(name, kind, attributes={"profile": profile} if profile else {}, consumesCounters=consumed)


PARTS = [
    part("whole", "", 0, 8, "gpu"),
    part("half-0", "3g.40gb", 0, 4),
    part("half-1", "3g.40gb", 4, 4),
    *(part(f"seventh-{each}", "1g.10gb", each, 1) for each in range(4)),
]
DIVISIBLE = (
    node(),
    resource_slice((), count=2, suffix="-counters", sharedCounters=SETS),
    resource_slice(PARTS, count=2, suffix="-devices"),
)


def test_claims_hold_what_is_allocated():
    found = report(node(), resource_slice(devices(8)), claim("gpu-0", "gpu-3"))
    assert totals(found) == {PRODUCT: ("8", "2", "6", "0")}
    (held,) = found.holders
    assert (held.holder.pods, held.holder.claim, [each.devices for each in held.holdings]) == (
        ("train",),
        "gpus",
        [("gpu-0",), ("gpu-3",)],
    )


def test_admin_access_holds_nothing():
    found = report(node(), resource_slice(devices(1)), claim("gpu-0", adminAccess=True))
    assert (totals(found), found.holders) == ({PRODUCT: ("1", "0", "1", "0")}, ())


def test_claim_without_a_pod_holds_its_devices():
    found = report(node(), resource_slice(devices(1)), claim("gpu-0", pods=()))
    assert [(each.holder.pods, each.holder.claim) for each in found.holders] == [((), "gpus")]
    assert [(each.namespace, each.pods) for each in found.namespaces] == [("team-a", 0)]


def test_claim_of_a_pod_group_names_the_group():
    found = report(node(), resource_slice(devices(1)), claim("gpu-0", pods=("ring",), resource="podgroups"))
    assert [each.holder.pod_groups for each in found.holders] == [("ring",)]


def test_gpu_counts_once_however_it_can_be_divided():
    assert totals(report(*DIVISIBLE)) == {PRODUCT: ("1", "0", "1", "0")}


def test_part_of_a_divided_gpu_leaves_the_rest_free():
    found = report(*DIVISIBLE, claim("half-0"))
    assert totals(found) == {PRODUCT: ("1", "1/2", "1/2", "0")}
    assert [str(kind) for each in found.holders for kind, _ in each.amounts] == [f"{PRODUCT} MIG 3g.40gb"]


def test_rest_that_no_device_fits_is_unusable():
    small = [each for each in PARTS if not each["name"].startswith("seventh")]
    forms = resource_slice([*small, part("other", "1g.10gb", 5, 1)], count=2, suffix="-devices")
    found = report(*DIVISIBLE[:2], forms, claim("half-0", "other"))
    assert totals(found) == {PRODUCT: ("1", "9/14", "0", "5/14")}
    assert reasons(found) == [
        (
            "fragmented",
            "what is left of a divided GPU is too small for every MIG device that the driver publishes",
            "5/14",
        )
    ]


def test_parts_never_add_up_to_more_than_the_gpu():
    found = report(*DIVISIBLE, claim("half-1", "seventh-0", "seventh-1", "seventh-2", "seventh-3"))
    assert totals(found) == {PRODUCT: ("1", "1", "0", "0")}


def test_shares_of_a_device_count_as_parts_of_it():
    shared = shared_device(device(), "4")
    found = report(node(), resource_slice([shared]), claim("gpu-0", shareID="a", consumedCapacity={"shares": "1"}))
    assert totals(found) == {PRODUCT: ("1", "1/4", "3/4", "0")}


def test_gpu_that_is_passed_through_counts_once():
    bus = {"resource.kubernetes.io/pciBusID": "0000:00:05.0"}
    forms = [device(attributes=bus), device("vfio-0", "vfio", attributes=bus)]
    assert totals(report(node(), resource_slice(forms), claim("vfio-0"))) == {PRODUCT: ("1", "1", "0", "0")}


def test_gpu_that_mig_divides_is_no_gpu_for_virtual_machines():
    bus = {"resource.kubernetes.io/pciBusID": "0000:00:05.0"}
    halves = [device(name, "mig", attributes={**bus, "profile": "3g.40gb"}) for name in ("half-0", "half-1")]
    whole = {"resource.kubernetes.io/pciBusID": "0000:00:06.0"}
    others = [device(attributes=whole), device("vfio-0", "vfio", attributes=whole)]
    found = report(node(), resource_slice([*halves, *others, device("vfio-1", "vfio", attributes=bus)]))
    assert totals(found) == {PRODUCT: ("1", "0", "1", "0"), f"{PRODUCT} MIG 3g.40gb": ("2", "0", "2", "0")}


def test_tainted_device_is_unusable():
    taint = [{"key": "gpu.nvidia.com/xid", "value": "79", "effect": "NoSchedule"}]
    found = report(node(), resource_slice([device(taints=taint), device("gpu-1")]))
    assert totals(found) == {PRODUCT: ("2", "0", "1", "1")}
    assert reasons(found) == [("deviceTainted", "the device has the taint gpu.nvidia.com/xid=79:NoSchedule", "1")]


def test_device_that_a_rule_taints_is_unusable():
    found = report(node(), resource_slice(devices(2)), taint_rule(device="gpu-0"))
    assert totals(found) == {PRODUCT: ("2", "0", "1", "1")}
    text = "the device has the taint example.com/repair:NoSchedule of DeviceTaintRule repair"
    assert reasons(found) == [("deviceTainted", text, "1")]


def test_devices_of_an_incomplete_pool_are_unusable():
    found = report(node(), resource_slice(devices(2), count=2))
    assert reasons(found) == [("pool", "the driver has not published all slices of its pool", "2")]


def test_held_device_that_no_slice_shows_is_reported():
    found = report(node(), resource_slice(devices(1)), claim("gpu-9"))
    assert totals(found)["unknown product"] == ("0", "0", "0", "0")
    assert found.problems == ("pods and claims hold 1 device (unknown product) that node node-1 does not show",)


def test_device_that_two_claims_hold_is_reported():
    found = report(node(), resource_slice(devices(1)), claim("gpu-0"), claim("gpu-0", name="again"))
    assert found.problems == (f"1 of 1 {PRODUCT} of node node-1 is given out twice",)


@pytest.mark.parametrize("driver", ["compute-domain.nvidia.com", "gpu.example.com"])
def test_devices_of_other_drivers_are_no_gpus(driver):
    other = resource_slice(devices(2))
    other["spec"]["driver"] = driver
    assert report(node(), other, claim("gpu-0", driver=driver)).gpus == ()


@pytest.mark.parametrize(("setting", "held", "free"), [("", "1", "0"), ("1/8", "3/8", "5/8"), ("1/2", "1", "0")])
def test_gpu_that_is_shared_without_limit_is_never_held_more_than_once(setting, held, free):
    claims = [
        claim("gpu-0", name=name, pods=(name,), shareID=name, consumedCapacity={"memory": "0"})
        for name in ("a", "b", "c")
    ]
    slices = resource_slice([shared_device(device(), "unlimited")])
    found = report(node(), slices, *claims, settings=Quotas(unlimited_share=setting))
    assert totals(found) == {PRODUCT: ("1", held, free, "0")}
    assert [each.holder.pods for each in found.holders] == [("a",), ("b",), ("c",)]
    assert found.problems == ()


@pytest.mark.parametrize("strategy", ["TimeSlicing", "MPS"])
def test_pods_that_share_a_gpu_by_one_claim_hold_it_together(strategy):
    """The config of the claim divides the GPU between its pods; it is one claim."""
    shared = claim("gpu-0", pods=("a", "b", "c"))
    sharing = {"kind": "GpuConfig", "sharing": {"strategy": strategy}}
    shared["spec"]["devices"]["config"] = [{"opaque": {"driver": "gpu.nvidia.com", "parameters": sharing}}]
    found = report(node(), resource_slice([device()]), shared)
    (holder,) = found.holders
    assert (holder.holder.pods, holder.gpus) == (("a", "b", "c"), 1)
    assert totals(found) == {PRODUCT: ("1", "1", "0", "0")}


def test_namespace_holds_no_more_of_a_gpu_that_is_shared_without_limit_than_there_is():
    claims = [claim("gpu-0", name=name, shareID=name, consumedCapacity={"memory": "0"}) for name in ("a", "b")]
    found = report(node(), resource_slice([shared_device(device(), "unlimited")]), *claims, namespace="team-a")
    assert [each.held_by_namespace for each in found.products] == [1]


def test_gpu_whose_shares_and_memory_go_to_different_claims_is_not_over():
    taken = {"a": {"shares": "1", "memory": "61169Mi"}, "b": {"shares": "3", "memory": "0"}}
    claims = [claim("gpu-0", name=name, shareID=name, consumedCapacity=amounts) for name, amounts in taken.items()]
    found = report(node(), resource_slice([shared_device(device(), "4")]), *claims)
    assert totals(found) == {PRODUCT: ("1", "1", "0", "0")}


def test_gpu_of_which_claims_hold_more_shares_than_it_has_is_over():
    claims = [claim("gpu-0", name=name, shareID=name, consumedCapacity={"shares": "3"}) for name in ("a", "b")]
    found = report(node(), resource_slice([shared_device(device(), "4")]), *claims)
    assert totals(found) == {PRODUCT: ("1", "1", "0", "0")}
    assert found.problems == (f"0.5 of 1 {PRODUCT} of node node-1 is given out twice",)
