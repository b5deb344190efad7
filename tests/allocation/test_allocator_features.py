"""Feature gates by name, and the implementation that they select."""

from __future__ import annotations

import pytest

from policies.devices.allocation.reading import DEFAULTS, Implementation
from tests.allocations import features_named


def test_the_defaults_are_those_of_kubernetes_1_36():
    assert (
        features_named(
            [
                "DRAAdminAccess",
                "DRAConsumableCapacity",
                "DRADeviceBindingConditions+DRAResourceClaimDeviceStatus",
                "DRADeviceTaints",
                "DRAPartitionableDevices",
                "DRAPrioritizedList",
            ]
        )
        == DEFAULTS
    )


@pytest.mark.parametrize(
    ("gates", "implementation"),
    [
        ([], Implementation.STABLE),
        (["DRAAdminAccess", "DRADeviceTaints", "DRAPartitionableDevices", "DRAPrioritizedList"], Implementation.STABLE),
        (["DRAConsumableCapacity"], Implementation.INCUBATING),
        (["DRADeviceBindingConditions+DRAResourceClaimDeviceStatus"], Implementation.INCUBATING),
        (["DRAListTypeAttributes"], Implementation.EXPERIMENTAL),
    ],
    ids=["nothing", "stable features", "capacity", "conditions", "lists"],
)
def test_the_oldest_implementation_that_knows_all_features_is_used(gates, implementation):
    assert features_named(gates).implementation is implementation
