"""Random clusters and claims, with the allocations and errors measured on Kubernetes 1.36.2's own packages.

The features are those that 1.36 has on by default; all cases have the node and the classes in common.
"""

import json
from pathlib import Path

import pytest

from policies.devices.allocation.reading import AllocationError
from tests.allocation.share_ids import without_share_ids
from tests.allocations import allocate

MEASURED = json.loads(Path(__file__).with_name("measured_allocations.json").read_text())


def allocations(case):
    return allocate(
        claims=case["claims"],
        node=MEASURED["node"],
        slices=case["slices"],
        classes=MEASURED["classes"],
        allocated=case["allocatedDevices"],
    )


def having(key):
    cases = [(number, case) for number, case in enumerate(MEASURED["cases"]) if key in case["expect"]]
    return pytest.mark.parametrize("case", [pytest.param(case, id=str(number)) for number, case in cases])


@having("results")
def test_claims_get_the_devices_that_kubernetes_gives_them(case):
    assert without_share_ids(allocations(case)) == without_share_ids(case["expect"]["results"])


@having("error")
def test_allocation_that_fails_says_why_as_kubernetes_does(case):
    with pytest.raises(AllocationError) as failed:
        allocations(case)
    assert str(failed.value) == case["expect"]["error"]
