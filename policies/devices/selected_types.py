"""Selected types: the types of devices that all selectors of a class or request leave."""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.devices.deviceclasses import SHIPPED_TYPES, TYPES

if TYPE_CHECKING:
    from collections.abc import Iterable

    from policies.kubernetes.objects import Object


_MOST_TEXT = 12 * 1024
"""Characters of selectors that are read; further selectors exclude no type."""


def shipped_expression(driver: str, type_: str) -> str:
    """The selector of the DeviceClass that NVIDIA ships for a type of devices."""
    return f"device.driver == '{driver}' && device.attributes['{driver}'].type == '{type_}'"


_SHIPPED_TEXTS = {
    **{shipped_expression("gpu.nvidia.com", type_): type_ for type_ in ("gpu", "mig", "vfio")},
    shipped_expression("compute-domain.nvidia.com", "daemon"): "daemon",
    f"{shipped_expression('compute-domain.nvidia.com', 'channel')} && "
    "device.attributes['compute-domain.nvidia.com'].id == 0": "channel",
}
"""Source: github.com/kubernetes-sigs/dra-driver-nvidia-gpu deployments/helm templates/deviceclass-*.yaml."""


def shipped_class(name: str) -> Object:
    """A DeviceClass of `SHIPPED_TYPES` as the GPU Operator writes it, without `extendedResourceName`.

    Source: github.com/NVIDIA/gpu-operator manifests/state-dra-driver/0400_deviceclass-gpu.yaml to 0430_deviceclass-vfio-gpu.yaml.
    """
    expression = next(text for text, type_ in _SHIPPED_TEXTS.items() if type_ == SHIPPED_TYPES[name])
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceClass",
        "metadata": {"name": name},
        "spec": {"selectors": [{"cel": {"expression": expression}}]},
    }


def selected_types(expressions: Iterable[str]) -> frozenset[str]:
    """The types, of `TYPES`, of the devices that can match all of the expressions.

    NVIDIA's own texts are in a table, so that the CEL engine is loaded only for other texts.
    """
    types, left = TYPES, _MOST_TEXT
    for text in expressions:
        if not types:
            break
        shipped = _SHIPPED_TEXTS.get(" ".join(text.replace('"', "'").split()))
        if shipped is None:
            from policies.devices.possible_types import possible_types

            left -= len(text)
            types &= possible_types(text) if left >= 0 else TYPES
        else:
            types &= {shipped}
    return types
