"""Feature gates: what the scheduler of this cluster knows, going by its version."""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.dra.allocation.features import Features
from policies.dra.claims.facts import Facts

if TYPE_CHECKING:
    from policies.settings import GPUAdmissionPolicy
    from policies.view import ClusterView

__all__ = ["features_of"]


def features_of(view: ClusterView, settings: GPUAdmissionPolicy) -> Features:
    """What is on by default in the cluster's version; in one that is not known, what 1.36 has on."""
    facts = Facts(view, settings)
    return Features(
        admin_access=facts.offers("DRAAdminAccess") is not False,
        consumable_capacity=facts.offers("DRAConsumableCapacity") is not False,
        binding_conditions=facts.offers("DRADeviceBindingConditions") is not False,
        device_taints=facts.offers("DRADeviceTaints") is not False,
        partitionable_devices=facts.offers("DRAPartitionableDevices") is not False,
        prioritized_list=facts.offers("DRAPrioritizedList") is not False,
    )
