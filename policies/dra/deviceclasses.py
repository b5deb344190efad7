"""DeviceClasses: those of NVIDIA's driver, the selectors of one, and the extended resource it stands for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.kubernetes.paths import lookup

if TYPE_CHECKING:
    from policies.kubernetes.objects import Object

__all__ = [
    "GPU_CLASS",
    "MIG_CLASS",
    "SHIPPED_TYPES",
    "TYPES",
    "extended_resource_name",
    "selector_texts",
]

GPU_CLASS = "gpu.nvidia.com"
MIG_CLASS = "mig.nvidia.com"

SHIPPED_TYPES = {
    GPU_CLASS: "gpu",
    MIG_CLASS: "mig",
    "vfio.gpu.nvidia.com": "vfio",
    "compute-domain-default-channel.nvidia.com": "channel",
    "compute-domain-daemon.nvidia.com": "daemon",
}
"""The classes that NVIDIA's driver ships, and the type of their devices."""

TYPES = frozenset({*SHIPPED_TYPES.values(), "other"})
"""The types of devices: the values of NVIDIA's attribute `type`, and `other` for devices of other drivers."""


def selector_texts(device_class: Object) -> tuple[str, ...] | None:
    """The CEL expressions of a class, all of which its devices match; None where they have another shape."""
    items = lookup(device_class, ("spec", "selectors"))
    if items is None:
        return ()
    texts = [lookup(item, ("cel", "expression")) for item in items] if isinstance(items, list) else [None]
    return tuple(text for text in texts if isinstance(text, str)) if None not in texts else None


def extended_resource_name(device_class: Object) -> str | None:
    """The extended resource that the class stands for since Kubernetes 1.36 (KEP-5004), if any."""
    name = lookup(device_class, ("spec", "extendedResourceName"))
    return name if isinstance(name, str) else None
