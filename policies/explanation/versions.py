"""Older versions of resource.k8s.io, read in the shape of v1."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from policies.kubernetes.paths import lookup

if TYPE_CHECKING:
    from policies.kubernetes.objects import Object

__all__ = ["slice_as_v1"]

_V1 = "resource.k8s.io/v1"
_FLAT = "resource.k8s.io/v1beta1"


def slice_as_v1(document: Object) -> Object:
    """A ResourceSlice as v1 writes it; the object given is not changed.

    Source: k8s.io/api/resource/v1beta1/types.go: a device has its fields under `basic`.
    """
    devices = lookup(document, ("spec", "devices"))
    if document.get("apiVersion") != _FLAT or not isinstance(devices, list):
        return document
    flattened = [_device(device) for device in devices]
    return {**document, "apiVersion": _V1, "spec": {**document["spec"], "devices": flattened}}


def _device(device: Any) -> Any:
    basic = lookup(device, ("basic",))
    if not isinstance(basic, dict):
        return device
    return {**{key: value for key, value in device.items() if key != "basic"}, **basic}
