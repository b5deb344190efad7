"""Sums that add up: held, free and unusable devices are all that exist, also where a GPU is given out twice."""

from hypothesis import given
from hypothesis import strategies as st

from tests.usage.usage_objects import (
    PRODUCT,
    claim,
    device,
    devices,
    node,
    pod,
    report,
    resource_slice,
)

NAMES = [f"gpu-{number}" for number in range(3)]


@st.composite
def clusters(draw):
    """A node with the device plugin, one with DRA, one with both, pods and claims with any devices, and broken ones."""
    objects = []
    for name, has_plugin, has_slices in (("a", True, False), ("b", False, True), ("c", True, True)):
        gpus, capacity = draw(st.integers(1, 4)), draw(st.integers(1, 5))
        shared = {
            "nvidia.com/gpu.product": "Tesla-T4-SHARED",
            "nvidia.com/gpu.replicas": "2",
            "nvidia.com/gpu.sharing-strategy": "time-slicing",
        }
        objects.append(
            node(
                name,
                gpus=gpus if has_plugin else 0,
                capacity={"nvidia.com/gpu": str(capacity)} if has_plugin else {},
                labels=shared if draw(st.booleans()) else {},
                unschedulable=draw(st.booleans()),
            )
        )
        if has_slices:
            mig = device("gpu-9-mig-1g", "mig", attributes={"profile": "1g.10gb", "parentUUID": "GPU-9"})
            found = [*devices(draw(st.integers(1, 3))), *([mig] if draw(st.booleans()) else [])]
            objects.append(resource_slice(found, name, count=draw(st.integers(1, 2))))
        counts = draw(st.lists(st.integers(0, 3), max_size=3))
        objects += (pod(f"pod-{name}-{number}", count, node_name=name) for number, count in enumerate(counts))
        for number in range(draw(st.integers(0, 3))):
            held = draw(st.lists(st.sampled_from([*NAMES, "gpu-9-mig-1g"]), unique=True, max_size=3))
            objects.append(claim(*held, name=f"claim-{name}-{number}", pods=(f"user-{number}",), pool=name))
    return objects


@given(clusters())
def test_held_free_and_unusable_are_the_total_in_every_line(objects):
    found = report(*objects)
    for line in (*found.gpus, *found.products, *found.totals):
        assert line.total == line.held + line.free + line.unusable
        assert min(line.held, line.free, line.unusable) >= 0
    assert sum(each.twice + each.missing for each in found.totals) == sum(each.over for each in found.gpus)


def test_gpu_with_two_holders_is_one_held_gpu_beside_a_free_one():
    found = report(node(), resource_slice(devices(3)), claim("gpu-0", name="a"), claim("gpu-0", name="b"))
    assert [each.sentence for each in found.totals] == ["3 GPUs: 1 held, 2 free; 1 given out twice"]
    assert [each.held_words for each in found.gpus] == ["1 of 3 GPUs held, 1 given out twice"]
    assert found.problems == (f"1 of 3 {PRODUCT} of node node-1 is given out twice",)


def test_held_gpus_that_no_node_shows_are_told_apart():
    found = report(node(), resource_slice(devices(1)), claim("gpu-9"))
    assert [each.sentence for each in found.totals] == ["1 GPU: 0 held, 1 free; 1 held that no node shows"]


def test_whole_gpu_of_which_a_mig_device_is_held_too_is_given_out_twice():
    counters = [{"counterSet": "gpu-0", "counters": {"memory-slice-0": {"value": "1"}}}]
    both = [
        device("gpu-0", consumesCounters=counters),
        device("gpu-0-mig-1g", "mig", attributes={"profile": "1g.10gb"}, consumesCounters=counters),
    ]
    held = (claim("gpu-0", name="a"), claim("gpu-0-mig-1g", name="b"))
    ((gpus,),) = [gpus for _, gpus in report(node(), resource_slice(both), *held).nodes]
    assert gpus.held_words == "1 of 1 GPUs held, 0.1 given out twice"


def test_shares_are_told_with_the_gpus_that_they_are_of():
    labels = {
        "nvidia.com/gpu.product": "Tesla-T4-SHARED",
        "nvidia.com/gpu.replicas": "4",
        "nvidia.com/gpu.sharing-strategy": "time-slicing",
    }
    found = report(node(gpus=16, labels=labels), pod(gpus=16))
    assert [each.sentence for each in found.totals] == ["16 shares (4 GPUs x 4): 16 held, 0 free"]
    assert [each.held_words for each in found.gpus] == ["16 of 16 shares (4 GPUs x 4) held"]
