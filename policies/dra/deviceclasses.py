"""DeviceClasses: the ones that NVIDIA's driver ships, and whether an object is still one of them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Literal

from policies.kubernetes.paths import lookup

if TYPE_CHECKING:
    from policies.kubernetes.objects import Object

__all__ = ["GPU_CLASS", "MIG_CLASS", "device_type", "extended_resource_name"]

GPU_CLASS = "gpu.nvidia.com"
MIG_CLASS = "mig.nvidia.com"

_SHIPPED = re.compile(
    r"device\.driver == 'gpu\.nvidia\.com' && device\.attributes\['gpu\.nvidia\.com'\]\.type == '(gpu|mig)'"
)


def device_type(device_class: Object) -> Literal["gpu", "mig"] | None:
    """The `type` of the devices a class selects, where its selector is NVIDIA's shipped text; otherwise None.

    Source: github.com/kubernetes-sigs/dra-driver-nvidia-gpu deployments/helm templates/deviceclass-*.yaml.
    """
    expressions = lookup(device_class, ("spec", "selectors"))
    if not isinstance(expressions, list) or len(expressions) != 1:
        return None
    text = lookup(expressions[0], ("cel", "expression"))
    match = _SHIPPED.fullmatch(" ".join(text.replace('"', "'").split())) if isinstance(text, str) else None
    if match is None:
        return None
    return "gpu" if match.group(1) == "gpu" else "mig"


def extended_resource_name(device_class: Object) -> str | None:
    """The extended resource that the class stands for since Kubernetes 1.36 (KEP-5004), if any."""
    name = lookup(device_class, ("spec", "extendedResourceName"))
    return name if isinstance(name, str) else None
