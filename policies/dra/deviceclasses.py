"""DeviceClasses: which devices of NVIDIA's driver an object selects, and the extended resource it stands for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.kubernetes.paths import lookup

if TYPE_CHECKING:
    from collections.abc import Iterable

    from policies.kubernetes.objects import Object

__all__ = [
    "GPU_CLASS",
    "MIG_CLASS",
    "SHIPPED_TYPES",
    "TYPES",
    "extended_resource_name",
    "selected_types",
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


_MOST_TEXT = 12 * 1024
"""Characters of selectors that are looked at; what is beyond them is taken to leave all types."""


def _shipped_text(driver: str, type_: str) -> str:
    return f"device.driver == '{driver}' && device.attributes['{driver}'].type == '{type_}'"


_SHIPPED_TEXTS = {
    **{_shipped_text("gpu.nvidia.com", type_): type_ for type_ in ("gpu", "mig", "vfio")},
    _shipped_text("compute-domain.nvidia.com", "daemon"): "daemon",
    f"{_shipped_text('compute-domain.nvidia.com', 'channel')} && "
    "device.attributes['compute-domain.nvidia.com'].id == 0": "channel",
}
"""Source: github.com/kubernetes-sigs/dra-driver-nvidia-gpu deployments/helm templates/deviceclass-*.yaml."""


def selector_texts(device_class: Object) -> tuple[str, ...] | None:
    """The CEL expressions of a class, all of which its devices match; None where they have another shape."""
    items = lookup(device_class, ("spec", "selectors"))
    if items is None:
        return ()
    texts = [lookup(item, ("cel", "expression")) for item in items] if isinstance(items, list) else [None]
    return tuple(text for text in texts if isinstance(text, str)) if None not in texts else None


def selected_types(expressions: Iterable[str]) -> frozenset[str]:
    """The types, of `TYPES`, that devices which match all of the expressions can have, whatever else they are.

    NVIDIA's own texts are known by heart, so that the CEL engine is loaded only where somebody wrote another.
    """
    types, left = TYPES, _MOST_TEXT
    for text in expressions:
        if not types:
            break
        shipped = _SHIPPED_TEXTS.get(" ".join(text.replace('"', "'").split()))
        if shipped is None:
            from policies.dra.selected_types import possible_types  # noqa: PLC0415 - loads the CEL engine

            left -= len(text)
            types &= possible_types(text) if left >= 0 else TYPES
        else:
            types &= {shipped}
    return types


def extended_resource_name(device_class: Object) -> str | None:
    """The extended resource that the class stands for since Kubernetes 1.36 (KEP-5004), if any."""
    name = lookup(device_class, ("spec", "extendedResourceName"))
    return name if isinstance(name, str) else None
