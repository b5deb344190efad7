"""The kinds of configs that NVIDIA's drivers read: their fields, and the releases that added them.

Source: github.com/kubernetes-sigs/dra-driver-nvidia-gpu api/nvidia.com/resource/v1beta1.
"""

from __future__ import annotations

import re

from policies.kubernetes.schema import Field, parse_schema

__all__ = ["API_VERSION", "DRIVERS", "SCHEMAS", "SINCE", "TYPES_OF_DRIVER", "TYPE_OF", "is_older"]

API_VERSION = "resource.nvidia.com/v1beta1"

TYPE_OF = {
    "GpuConfig": "gpu",
    "MigDeviceConfig": "mig",
    "VfioDeviceConfig": "vfio",
    "ComputeDomainChannelConfig": "channel",
    "ComputeDomainDaemonConfig": "daemon",
}
"""The type of the devices that a kind of config is for."""

DRIVERS = {
    "gpu.nvidia.com": ("GpuConfig", "MigDeviceConfig", "VfioDeviceConfig"),
    "compute-domain.nvidia.com": ("ComputeDomainChannelConfig", "ComputeDomainDaemonConfig"),
}
"""The kinds that each driver reads."""

TYPES_OF_DRIVER = {driver: frozenset(TYPE_OF[kind] for kind in kinds) for driver, kinds in DRIVERS.items()}

SINCE = {
    ("VfioDeviceConfig", ""): "25.12.0",
    ("VfioDeviceConfig", "iommu"): "0.4.0",
    ("GpuConfig", "sharing.mpsConfig.multiUser"): "0.5.0",
    ("MigDeviceConfig", "sharing.mpsConfig.multiUser"): "0.5.0",
}
"""The releases of the driver that were the first to have a kind, or a field of one. After 25.12 came 0.4."""

_BLOCKS = {
    "kind": """
apiVersion: string
kind: string
""",
    "mps": """
mpsConfig: object
  defaultActiveThreadPercentage: integer
  defaultPinnedDeviceMemoryLimit: quantity
  defaultPerDevicePinnedMemoryLimit: {quantity}
  multiUser: boolean
""",
}

_TEXTS = {
    "GpuConfig": """
+ kind
sharing: object
  strategy: string
  timeSlicingConfig: object
    interval: string
  + mps
""",
    "MigDeviceConfig": """
+ kind
sharing: object
  strategy: string
  + mps
""",
    "VfioDeviceConfig": """
+ kind
iommu: object
  backendPolicy: string
  enableAPIDevice: boolean
""",
    "ComputeDomainChannelConfig": """
+ kind
domainID: string
allocationMode: string
""",
    "ComputeDomainDaemonConfig": """
+ kind
domainID: string
""",
}

SCHEMAS: dict[str, Field] = {kind: parse_schema(text, _BLOCKS) for kind, text in _TEXTS.items()}


_RELEASE = re.compile(r"v?(\d{1,6})\.(\d{1,6})")
_FIRST_YEAR = 24


def is_older(release: str, other: str) -> bool:
    """True if a release came before another; False where one of them cannot be read."""
    one, two = _release_order(release), _release_order(other)
    return one is not None and two is not None and one < two


def _release_order(release: str) -> tuple[bool, int, int] | None:
    match = _RELEASE.match(release)
    if match is None:
        return None
    major, minor = int(match[1]), int(match[2])
    return major < _FIRST_YEAR, major, minor
