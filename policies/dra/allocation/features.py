"""The feature gates that change which devices a claim gets, and the implementation they select."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum

__all__ = ["DEFAULTS", "ON_SINCE", "Features", "Implementation"]

_FIELDS = {
    "DRAAdminAccess": "admin_access",
    "DRAConsumableCapacity": "consumable_capacity",
    "DRADeviceBindingConditions+DRAResourceClaimDeviceStatus": "binding_conditions",
    "DRADeviceTaints": "device_taints",
    "DRAListTypeAttributes": "list_type_attributes",
    "DRAPartitionableDevices": "partitionable_devices",
    "DRAPrioritizedList": "prioritized_list",
}
_PAIR = frozenset({"DRADeviceBindingConditions", "DRAResourceClaimDeviceStatus"})
"""The two gates that, only together, switch binding conditions on."""


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

    @classmethod
    def from_names(cls, names: Iterable[str] | Mapping[str, bool]) -> Features:
        """The features with these names on and all others off.

        Names are those of feature gates; `DRADeviceBindingConditions+DRAResourceClaimDeviceStatus` can be given as two.

        Raises:
            ValueError: a name is of no feature that the allocator knows.
        """
        if isinstance(names, str):
            names = [names]
        on = {name for name, enabled in names.items() if enabled} if isinstance(names, Mapping) else set(names)
        if on >= _PAIR:
            on.add("+".join(sorted(_PAIR)))
        on -= _PAIR
        unknown = sorted(on - _FIELDS.keys())
        if unknown:
            raise ValueError(f"unknown feature {unknown[0]}; the allocator knows {', '.join(_FIELDS)}")
        return cls(**{field: name in on for name, field in _FIELDS.items()})

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
