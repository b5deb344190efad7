"""The number of devices that a claim can hold."""

import pytest

from policies.rules.decision import Severity

MANY = "spec.devices.requests: number of requested devices {} exceeds the claim limit of 32, so no pod can get them; split the claim: a pod can have several"


def other(count, name="other"):
    return {"name": name, "exactly": {"deviceClassName": "gpu.nvidia.com", "count": count}}


@pytest.mark.parametrize(
    ("count", "others", "total"),
    [
        (32, [], None),
        (33, [], 33),
        (16, [other(16)], None),
        (16, [other(17)], 33),
        (1, [other(8, f"r{n}") for n in range(4)], 33),
    ],
)
def test_more_than_32_devices_are_reported(said, asking, count, others, total):
    assert said("GA227", asking(count=count, others=others)) == ([MANY.format(total)] if total else [])


def test_smallest_alternative_counts(said, asking):
    def listed(*counts):
        alternatives = [{"name": f"a{n}", "deviceClassName": "gpu.nvidia.com", "count": n} for n in counts]
        return {"name": "any", "firstAvailable": alternatives}

    assert said("GA227", asking(count=30, others=[listed(8, 2)])) == []
    assert said("GA227", asking(count=30, others=[listed(8, 3)])) == [MANY.format(33)]


def test_all_counts_as_one(said, asking):
    assert said("GA227", asking(allocationMode="All", others=[other(31)])) == []


def test_too_many_are_refused(examined, asking):
    import yaml

    assert [found.severity for found in examined(yaml.safe_dump(asking(count=33)))] == [Severity.DENY]


@pytest.mark.parametrize("count", [-40, 2**70, True, "33"])
def test_invalid_count_is_left_to_other_rules(said, asking, count):
    assert said("GA227", asking(count=count)) == []


@pytest.mark.parametrize(
    ("sizes", "others", "expected"),
    [
        ((32,), [], None),
        (
            (8, 33),
            [],
            (
                "allocationMode: is 33 devices on node-1, and a claim can hold 32, so no pod gets it there; request a count, or "
                "select fewer devices"
            ),
        ),
        (
            (32,),
            [other(1)],
            (
                "allocationMode: is 32 devices on node-0, with those of other requests 33, and a claim can hold 32, so no pod gets "
                "it there; request a count, or select fewer devices"
            ),
        ),
    ],
)
def test_all_of_a_node_with_too_many_is_reported(said, asking, device_class, gpu, on_node, sizes, others, expected):
    nodes = [on_node(f"node-{n}", *(gpu(f"gpu-{m}") for m in range(size))) for n, size in enumerate(sizes)]
    claim = asking(allocationMode="All", others=others)
    assert said("GA227", claim, device_class(), *nodes) == ([expected] if expected else [])
