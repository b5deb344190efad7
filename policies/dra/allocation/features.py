"""The feature gates that change which devices a claim gets, and the implementation they select."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

__all__ = ["DEFAULTS", "ON_SINCE", "Features", "Implementation"]


class Implementation(Enum):
    """Kubernetes has its allocator three times, and uses the oldest that knows every feature that is on."""

    STABLE = "stable"
    INCUBATING = "incubating"
    EXPERIMENTAL = "experimental"


@dataclass(frozen=True, slots=True)
class Features:
    """The features of the allocator; the defaults are what Kubernetes 1.36 has on by default.

    Source: k8s.io/dynamic-resource-allocation/structured/internal/types.go.
    """

    admin_access: bool = True
    consumable_capacity: bool = True
    binding_conditions: bool = True
    device_taints: bool = True
    list_type_attributes: bool = False
    partitionable_devices: bool = True
    prioritized_list: bool = True

    @property
    def implementation(self) -> Implementation:
        """Which of its allocators Kubernetes uses with these features.

        Source: k8s.io/dynamic-resource-allocation/structured/allocator.go and the SupportedFeatures of each.
        """
        if self.list_type_attributes:
            return Implementation.EXPERIMENTAL
        if self.consumable_capacity or self.binding_conditions:
            return Implementation.INCUBATING
        return Implementation.STABLE


DEFAULTS = Features()


ON_SINCE = {
    "DRAAdminAccess": (1, 34),
    "DRAPrioritizedList": (1, 34),
    "DRAConsumableCapacity": (1, 36),
    "DRADeviceTaints": (1, 36),
    "DRAExtendedResource": (1, 36),
    "DRAPartitionableDevices": (1, 36),
    "DRADeviceBindingConditions": (1, 36),
}
"""The version in which a feature gate came on by default. Source: k8s.io/kubernetes pkg/features/kube_features.go."""
