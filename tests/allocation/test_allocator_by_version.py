"""Clusters with the allocations and errors of Kubernetes' own packages of 1.36.2 and of 1.37, by feature gates.

1.37 is missing where it says the same as 1.36. The results of 1.37 are those of its code of July 2026 with the changes that
were merged until its release.
"""

import json
from pathlib import Path

import pytest

from policies.devices.allocation.allocator import Allocator
from policies.devices.allocation.pools import SliceIndex
from policies.devices.allocation.reading import DEFAULTS, AllocationError, Features
from tests.allocation.share_ids import without_share_ids
from tests.allocations import usage_of
from webhook.cluster.manifests import ManifestsView

MEASURED = json.loads(Path(__file__).with_name("measured_allocations_by_version.json").read_text())
GATES = {
    "AdminAccess": "DRAAdminAccess",
    "ConsumableCapacity": "DRAConsumableCapacity",
    "DeviceBindingAndStatus": "DRADeviceBindingConditions",
    "DeviceTaints": "DRADeviceTaints",
    "FractionalCapacityRange": "DRAFractionalCapacityRange",
    "ListTypeAttributes": "DRAListTypeAttributes",
    "PartitionableDevices": "DRAPartitionableDevices",
    "PrioritizedList": "DRAPrioritizedList",
}


def features(case, version):
    on = MEASURED["features"][case["features"]]
    gates = {gate: name in on for name, gate in GATES.items()}
    if version == "1.36":
        del gates["DRAFractionalCapacityRange"]
    view = ManifestsView([{"serverVersion": {"gitVersion": f"v{version}.0"}, "featureGates": gates}])
    return Features.of_cluster(view)


def outcome(case, version):
    """The allocation or the error, as the measurement has it."""
    allocator = Allocator(
        SliceIndex(case["slices"]),
        claims=case["claims"],
        classes=MEASURED["classes"][case["classes"]],
        usage=usage_of(
            case.get("allocatedDevices", ()), case.get("allocatedShared", ()), case.get("allocatedCapacity", {})
        ),
        features=features(case, version),
    )
    try:
        return {"results": without_share_ids(allocator.allocate(MEASURED["nodes"][case["node"]]))}
    except AllocationError as error:
        return {"error": str(error)}


@pytest.mark.parametrize("version", ["1.36", "1.37"])
def test_claims_get_what_a_version_of_kubernetes_gives_them(version):
    expected = {number: case.get(version, case["1.36"]) for number, case in enumerate(MEASURED["cases"])}
    found = {number: outcome(case, version) for number, case in enumerate(MEASURED["cases"])}
    assert {number: each for number, each in found.items() if each != expected[number]} == {}


def test_allocator_of_an_unknown_version_is_that_of_1_36():
    assert Features.of_cluster(ManifestsView([])) == DEFAULTS
