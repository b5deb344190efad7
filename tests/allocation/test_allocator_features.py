"""Features by the names of their gates, and the implementation that they select."""

from __future__ import annotations

import pytest

from policies.dra.allocation.features import DEFAULTS, Features, Implementation


def test_the_defaults_are_those_of_kubernetes_1_36():
    assert (
        Features.from_names(
            [
                "DRAAdminAccess",
                "DRAConsumableCapacity",
                "DRADeviceBindingConditions+DRAResourceClaimDeviceStatus",
                "DRADeviceTaints",
                "DRAPartitionableDevices",
                "DRAPrioritizedList",
            ]
        )
        == Features()
        == DEFAULTS
    )


def test_a_mapping_of_gates_is_read_by_what_is_on():
    assert Features.from_names({"DRAAdminAccess": True, "DRADeviceTaints": False}) == Features.from_names(
        ["DRAAdminAccess"]
    )


@pytest.mark.parametrize(
    ("gates", "on"),
    [
        (["DRADeviceBindingConditions", "DRAResourceClaimDeviceStatus"], True),
        (["DRADeviceBindingConditions"], False),
        (["DRAResourceClaimDeviceStatus"], False),
    ],
    ids=["both", "one", "the other"],
)
def test_binding_conditions_need_two_gates(gates, on):
    assert Features.from_names(gates).binding_conditions is on


def test_an_unknown_gate_is_refused():
    with pytest.raises(ValueError, match=r"^unknown feature DRASomething; the allocator knows DRAAdminAccess, "):
        Features.from_names(["DRASomething"])


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
    assert Features.from_names(gates).implementation is implementation
