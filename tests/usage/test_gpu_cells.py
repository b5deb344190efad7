"""Cells: each GPU with its parts, from left to right."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.analyses.usage.cells import MOST_CELLS, node_cells
from policies.rules.settings import Quotas
from tests.published import shared_device
from tests.usage.usage_objects import PRODUCT, claim, device, devices, node, pod, report, resource_slice

NOTHING = {"memory": "0"}
"""The capacity that a claim for a GPU takes by default if the driver shares it without limit."""
A100 = "NVIDIA A100-SXM4-80GB"
SETS = [{"name": "gpu-0-counter-set", "counters": {f"memory-slice-{each}": {"value": "1"} for each in range(8)}}]


def cells_of(*objects, name="node-1", **options):
    found = dict(report(*objects, **options).nodes)
    return node_cells(found[name])


def shown(cell):
    """Its name, its state, and its parts as `start-end label holder`."""
    parts = [
        f"{float(part.start):g}-{float(part.start + part.width):g} {part.label} "
        f"{part.holder.words if part.holder else part.reason.kind if part.reason else 'free'}"
        for part in cell.parts
    ]
    return cell.name, str(cell.state), parts


def static_mig(name, profile, first, size, parent="GPU-a"):
    found = device(f"gpu-0-mig-{name}", "mig", A100, "9728Mi", {"profile": profile, "parentUUID": parent})
    found["capacity"] |= {f"memorySlice{first + each}": {"value": "1"} for each in range(size)}
    return found


def dynamic_mig(name, profile, first, size):
    counters = {f"memory-slice-{first + each}": {"value": "1"} for each in range(size)}
    consumed = [{"counterSet": "gpu-0-counter-set", "counters": counters}]
    attributes = {"profile": profile} if profile else {}
    return device(name, "mig" if profile else "gpu", A100, attributes=attributes, consumesCounters=consumed)


DYNAMIC = (
    node(),
    resource_slice((), count=2, suffix="-counters", sharedCounters=SETS),
    resource_slice(
        [
            dynamic_mig("gpu-0", "", 0, 8),
            dynamic_mig("gpu-0-mig-3g40gb-9-0", "3g.40gb", 0, 4),
            dynamic_mig("gpu-0-mig-1g10gb-19-6", "1g.10gb", 6, 1),
        ],
        count=2,
        suffix="-devices",
    ),
)


def test_gpu_of_dra_shows_who_holds_it():
    cells = cells_of(node(), resource_slice(devices(2)), claim("gpu-1"))
    assert [shown(each) for each in cells] == [
        ("gpu-0", "free", ["0-1  free"]),
        ("gpu-1", "held", ["0-1  team-a/train"]),
    ]


def test_cells_are_in_the_order_of_numbers():
    cells = cells_of(node(), resource_slice(devices(12)))
    assert [each.name for each in cells] == [f"gpu-{number}" for number in range(12)]


def test_mig_devices_that_exist_lie_on_their_memory_slices():
    slices = [static_mig("2g20gb-14-0", "2g.20gb", 0, 2), static_mig("3g40gb-9-4", "3g.40gb", 4, 4)]
    (cell,) = cells_of(node(), resource_slice(slices), claim("gpu-0-mig-3g40gb-9-4"))
    assert cell.divisions == 8
    assert shown(cell) == ("gpu-0", "partly-held", ["0-0.25 2g.20gb free", "0.5-1 3g.40gb team-a/train"])


def test_divided_gpu_without_a_free_device_is_held():
    """Slices that belong to no MIG device cannot be had."""
    slices = [static_mig("3g40gb-9-4", "3g.40gb", 4, 4)]
    (cell,) = cells_of(node(), resource_slice(slices), claim("gpu-0-mig-3g40gb-9-4"))
    assert str(cell.state) == "held"


def test_mig_devices_of_two_gpus_are_two_cells():
    slices = [static_mig("3g40gb-9-0", "3g.40gb", 0, 4), static_mig("1", "3g.40gb", 0, 4, "GPU-b")]
    assert len(cells_of(node(), resource_slice(slices))) == 2


def test_gpu_that_claims_divide_has_its_rest_free():
    (cell,) = cells_of(*DYNAMIC, claim("gpu-0-mig-1g10gb-19-6"))
    assert shown(cell) == (
        "gpu-0",
        "partly-held",
        ["0-0.75  free", "0.75-0.875 1g.10gb team-a/train", "0.875-1  free"],
    )


def test_mig_devices_on_the_same_slices_are_given_out_twice():
    (cell,) = cells_of(*DYNAMIC, claim("gpu-0"), claim("gpu-0-mig-1g10gb-19-6", name="again", pods=("other",)))
    assert (str(cell.state), [part.holder.pods for part in cell.parts]) == ("given-out-twice", [("train",), ("other",)])


def unplaced_mig(name, profile, **options):
    found = static_mig(name, profile, 0, 0, **options)
    return found | {"capacity": {}}


def test_mig_devices_without_memory_slices_lie_side_by_side():
    devices = [unplaced_mig("a", "3g.40gb"), unplaced_mig("b", "1g.10gb")]
    (cell,) = cells_of(node(), resource_slice(devices))
    assert shown(cell) == ("gpu-0", "free", ["0-0.5 3g.40gb free", "0.5-1 1g.10gb free"])
    (cell,) = cells_of(node(), resource_slice(devices), claim("gpu-0-mig-b", pods=("a",)))
    assert shown(cell) == ("gpu-0", "partly-held", ["0-0.5 3g.40gb free", "0.5-1 1g.10gb team-a/a"])


def test_mig_device_without_memory_slices_that_two_claims_hold_is_given_out_twice():
    claims = [claim("gpu-0-mig-a", name=name, pods=(name,)) for name in ("x", "y")]
    (cell,) = cells_of(node(), resource_slice([unplaced_mig("a", "3g.40gb")]), *claims)
    assert shown(cell) == ("gpu-0", "given-out-twice", ["0-0.5 3g.40gb team-a/x", "0.5-1 3g.40gb team-a/y"])


def test_gpus_of_two_pools_with_one_name_are_two_cells():
    other = resource_slice(devices(1), suffix="-other")
    other["spec"]["pool"] |= {"name": "other"}
    cells = cells_of(node(), resource_slice(devices(1)), other, claim("gpu-0", pods=("a",)))
    assert sorted(shown(cell) for cell in cells) == [
        ("gpu-0", "free", ["0-1  free"]),
        ("gpu-0", "held", ["0-1  team-a/a"]),
    ]


def test_free_mig_devices_on_the_same_slices_are_not_given_out():
    devices = [static_mig("a", "3g.40gb", 0, 4), static_mig("b", "3g.40gb", 2, 4)]
    (cell,) = cells_of(node(), resource_slice(devices))
    assert shown(cell) == ("gpu-0", "free", ["0-0.5 3g.40gb free", "0.5-1 3g.40gb free"])


def test_gpu_that_two_claims_hold_is_given_out_twice():
    (cell,) = cells_of(node(), resource_slice(devices(1)), claim("gpu-0"), claim("gpu-0", name="b", pods=("other",)))
    assert shown(cell) == ("gpu-0", "given-out-twice", ["0-0.5  team-a/train", "0.5-1  team-a/other"])


@pytest.mark.parametrize(
    ("setting", "state", "parts"),
    [
        ("", "held", ["0-0.5  team-a/a", "0.5-1  team-a/b"]),
        ("1/4", "partly-held", ["0-0.25  team-a/a", "0.25-0.5  team-a/b", "0.5-1  free"]),
    ],
)
def test_holders_of_a_gpu_that_is_shared_without_limit_lie_side_by_side(setting, state, parts):
    claims = [claim("gpu-0", name=name, pods=(name,), shareID=name, consumedCapacity=NOTHING) for name in ("a", "b")]
    slices = resource_slice([shared_device(device(), "unlimited")])
    (cell,) = cells_of(node(), slices, *claims, settings=Quotas(unlimited_share=setting))
    assert shown(cell) == ("gpu-0", state, parts)


def test_holders_of_a_mig_device_that_they_share_lie_side_by_side():
    mig = device("mig-0", "mig", A100, attributes={"profile": "3g.40gb"})
    slices = {f"memorySlice{number}": {"value": "1"} for number in range(4)}
    mig["capacity"] |= {"multiprocessors": {"value": "42"}, **slices}
    taken = {"multiprocessors": "14", **dict.fromkeys(slices, "0"), **NOTHING}
    claims = [claim("mig-0", name=name, pods=(name,), shareID=name, consumedCapacity=taken) for name in ("a", "b", "c")]
    (cell,) = cells_of(node(), resource_slice([shared_device(mig, "unlimited")]), *claims)
    assert [(part.start, part.width) for part in cell.parts if part.holder] == [
        (Fraction(number, 6), Fraction(1, 6)) for number in range(3)
    ]
    assert not cell.is_over


def test_shares_of_a_gpu_lie_side_by_side():
    shared = shared_device(device(), "4")
    claims = [
        claim("gpu-0", name=name, pods=(name,), shareID=name, consumedCapacity={"shares": "1"}) for name in ("a", "b")
    ]
    (cell,) = cells_of(node(), resource_slice([shared]), *claims)
    assert shown(cell) == (
        "gpu-0",
        "partly-held",
        ["0-0.25  team-a/a", "0.25-0.5  team-a/b", "0.5-1  free"],
    )


def test_tainted_gpu_is_unusable():
    taint = [{"key": "gpu.nvidia.com/xid", "value": "79", "effect": "NoSchedule"}]
    cells = cells_of(node(), resource_slice([device(taints=taint), device("gpu-1")]))
    assert [shown(each) for each in cells] == [
        ("gpu-0", "unusable", ["0-1  deviceTainted"]),
        ("gpu-1", "free", ["0-1  free"]),
    ]


def test_gpus_of_a_cordoned_node_are_unusable_or_held():
    cells = cells_of(node(unschedulable=True), resource_slice(devices(2)), claim("gpu-0"))
    assert [shown(each) for each in cells] == [
        ("gpu-0", "held", ["0-1  team-a/train"]),
        ("gpu-1", "unusable", ["0-1  cordoned"]),
    ]


def test_gpus_of_the_device_plugin_are_filled_in_the_order_of_names():
    cells = cells_of(node(gpus=4), pod("b", 1), pod("a", 2))
    assert [shown(each) for each in cells] == [
        ("", "held", ["0-1  team-a/a"]),
        ("", "held", ["0-1  team-a/a"]),
        ("", "held", ["0-1  team-a/b"]),
        ("", "free", ["0-1  free"]),
    ]


def test_unhealthy_gpu_of_the_device_plugin_is_unusable():
    cells = cells_of(node(gpus=1, capacity={"nvidia.com/gpu": "2"}))
    assert [str(each.state) for each in cells] == ["unusable", "free"]


def test_replicas_are_parts_of_one_gpu():
    labels = {"nvidia.com/gpu.replicas": "4", "nvidia.com/gpu.product": f"{PRODUCT}-SHARED"}
    cells = cells_of(node(gpus=8, labels=labels), pod("a", 1), pod("b", 1))
    assert [shown(each) for each in cells] == [
        ("", "partly-held", ["0-0.25  team-a/a", "0.25-0.5  team-a/b", "0.5-0.75  free", "0.75-1  free"]),
        ("", "free", ["0-0.25  free", "0.25-0.5  free", "0.5-0.75  free", "0.75-1  free"]),
    ]


def test_mig_devices_of_the_device_plugin_are_laid_out_on_gpus():
    labels = {"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB", "nvidia.com/mig.strategy": "mixed"}
    machine = node(labels=labels)
    for field in ("capacity", "allocatable"):
        machine["status"][field] |= {"nvidia.com/mig-3g.40gb": "1", "nvidia.com/mig-1g.10gb": "2"}
    cells = cells_of(machine, pod("a", 1, resource="nvidia.com/mig-1g.10gb"))
    assert [(each.divisions, *shown(each)) for each in cells] == [
        (
            8,
            "",
            "partly-held",
            ["0.25-0.375 1g.10gb team-a/a", "0.375-0.5 1g.10gb free", "0.5-1 3g.40gb free"],
        )
    ]


def test_pods_beyond_the_advertised_gpus_are_given_out_twice():
    cells = cells_of(node(gpus=1), pod("a", 1), pod("b", 1))
    assert [str(each.state) for each in cells] == ["held", "given-out-twice"]


def test_pods_on_gpus_that_dra_offers_too_are_given_out_twice():
    cells = cells_of(node(gpus=2), resource_slice(devices(2)), pod("a", 1), claim("gpu-0"))
    assert [(each.name, str(each.state)) for each in cells] == [
        ("gpu-0", "held"),
        ("gpu-1", "free"),
        ("", "given-out-twice"),
    ]


def test_gpus_are_unknown_while_claims_are():
    cells = cells_of(node(), resource_slice(devices(1)), without=["ResourceClaim"])
    assert [str(each.state) for each in cells] == ["unknown"]


def test_too_many_devices_have_no_cells():
    assert cells_of(node(gpus=MOST_CELLS + 1)) == ()
    assert len(cells_of(node(gpus=MOST_CELLS))) == MOST_CELLS


@pytest.mark.parametrize("count", [MOST_CELLS + 1, 9 * 10**18, 10**40])
def test_mig_devices_of_a_pod_that_names_its_node_have_no_cells_if_they_are_too_many(count):
    labels = {"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB", "nvidia.com/mig.strategy": "mixed"}
    machine = node(labels=labels)
    for field in ("capacity", "allocatable"):
        machine["status"][field] |= {"nvidia.com/mig-3g.40gb": "1", "nvidia.com/mig-1g.10gb": "2"}
    cells = cells_of(machine, pod("greedy", count, resource="nvidia.com/mig-1g.10gb"))
    assert [shown(each) for each in cells] == [("", "free", ["0-1 3g.40gb free"])]


def test_too_many_devices_that_are_given_out_twice_have_the_most_cells():
    cells = cells_of(node(gpus=2), resource_slice(devices(2)), pod("greedy", 10**40))
    assert len([each for each in cells if each.is_over]) == MOST_CELLS


def test_gpu_with_too_many_shares_has_no_cell():
    def cells(shares):
        labels = {"nvidia.com/gpu.replicas": str(shares), "nvidia.com/gpu.product": f"{PRODUCT}-SHARED"}
        return cells_of(node(gpus=shares, labels=labels))

    assert [len(cells(shares)) for shares in (MOST_CELLS, MOST_CELLS + 1, 10**8)] == [1, 0, 0]


@pytest.mark.parametrize("counters", [7, "x", [], {"memory-slice-x": 1, "memory-slice-999": 2}, None])
def test_invalid_counters_are_no_slices(counters):
    mig = device("gpu-0-mig-a", "mig", A100, attributes={"profile": "1g.10gb"})
    mig["consumesCounters"] = [{"counterSet": "gpu-0-counter-set", "counters": counters}]
    (cell,) = cells_of(node(), resource_slice([mig]))
    assert len(cell.parts) == 1


MIG = [static_mig(f"1g10gb-19-{each}", "1g.10gb", each, 1) for each in range(7)]


@given(
    kind=st.sampled_from(["whole", "mig", "plugin"]),
    held=st.lists(st.integers(0, 6), max_size=5, unique=True),
    cordoned=st.booleans(),
)
def test_cells_hold_what_the_report_counts(kind, held, cordoned):
    machine = node(gpus=7 if kind == "plugin" else 0, unschedulable=cordoned)
    if kind == "plugin":
        objects = [machine, *(pod(f"p{each}", 1) for each in held)]
    else:
        found = MIG if kind == "mig" else devices(7)
        objects = [machine, resource_slice(found), *(claim(found[each]["name"], name=f"c{each}") for each in held)]
    made = report(*objects)
    cells = node_cells(made.nodes[0][1])
    parts = [part for cell in cells for part in cell.parts]
    assert sum(part.holder is not None for part in parts) == sum(use.held for use in made.products)
    assert sum(part.is_free for part in parts) == sum(use.free for use in made.products)
    assert sum(part.reason is not None for part in parts) == sum(use.unusable for use in made.products)
    for cell in cells:
        ends = [Fraction(0)]
        for part in cell.parts:
            assert part.start >= ends[-1]
            ends.append(part.start + part.width)
        assert ends[-1] <= 1
