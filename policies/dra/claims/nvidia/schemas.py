"""The kinds of configs that NVIDIA's drivers read, with their fields.

Source: github.com/kubernetes-sigs/dra-driver-nvidia-gpu api/nvidia.com/resource/v1beta1.
"""

from __future__ import annotations

from policies.schema import Field, parse_schema

__all__ = ["API_VERSION", "DRIVERS", "SCHEMAS", "SINCE", "TYPES_OF_DRIVER", "TYPE_OF"]

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
