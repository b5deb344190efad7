"""Feature gates of dynamic resource allocation: since when they are on."""

from __future__ import annotations

__all__ = ["ON_SINCE"]

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
