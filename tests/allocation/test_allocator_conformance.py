"""Kubernetes' own test cases, if they lie beside the repository; see ../shared/conformance/README.md.

They are not ours to copy. The cases of test_allocator_measured_results.py are ours, and always run.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from policies.devices.allocation.reading import AllocationError
from tests.allocation.share_ids import without_share_ids
from tests.allocations import allocate

CASES = Path(__file__).parents[3] / "shared" / "conformance" / "allocator.json"


def read_cases():
    if not CASES.is_file():
        reason = f"Kubernetes' cases are kept beside the repository, in {CASES.parent}, and are not there"
        return [pytest.param({}, marks=pytest.mark.skip(reason=reason), id="absent")]
    return [pytest.param(case, id=case["name"]) for case in json.loads(CASES.read_text())]


def without_lister(error: str) -> str:
    """The error without the words of the lister of classes: Kubernetes' tests have one of their own."""
    return re.sub(r': (deviceclass\.resource\.k8s\.io|) "[^"]*" not found$', ": not found", error)


@pytest.mark.parametrize("case", read_cases())
def test_claims_get_what_kubernetes_gives_them(case):
    def answer():
        return allocate(
            claims=case["claims"],
            node=case["node"],
            slices=case["slices"],
            classes=case["classes"],
            allocated=case["allocatedDevices"],
            allocated_shared=case["allocatedSharedDeviceIDs"],
            allocated_capacity=case["allocatedCapacity"],
            features=case["features"],
        )

    if case["error"]:
        with pytest.raises(AllocationError) as failed:
            answer()
        assert without_lister(str(failed.value)) == without_lister(case["error"])
    else:
        assert without_share_ids(answer()) == without_share_ids(case["results"])
