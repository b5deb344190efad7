"""Mapped classes: DeviceClasses that stand for an extended resource, or whose names are one.

Source: KEP-5004; k8s.io/dynamic-resource-allocation deviceclass/extendedresourcecache.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.dra.deviceclasses import GPU_CLASS, extended_resource_name
from policies.kubernetes.objects import name_of
from policies.kubernetes.paths import lookup
from policies.nvidia.resources import parse_resource
from policies.view import UNKNOWN, ClusterView, Unknown

if TYPE_CHECKING:
    from collections.abc import Mapping

    from policies.kubernetes.objects import Object

__all__ = ["class_for", "mapped_classes", "usual_class"]


def mapped_classes(view: ClusterView) -> Mapping[str, str] | Unknown:
    """The name of the DeviceClass that stands for each extended resource by `extendedResourceName`.

    Of two classes with one resource the one that was created later counts, and of equally old ones the first by name.
    """
    return view.derive(_mapped)


def class_for(resource: str, view: ClusterView) -> str | Unknown | None:
    """The DeviceClass whose devices are exactly those of a resource; None where there is none.

    That is the class that stands for it, or else the one that NVIDIA's driver or its documentation names so.
    """
    mapped = mapped_classes(view)
    if mapped is UNKNOWN:
        return UNKNOWN
    if resource in mapped:
        return mapped[resource]
    usual = usual_class(resource)
    return usual if view.get("DeviceClass", usual) is not None else None


def usual_class(resource: str) -> str:
    """The name that such a class has by convention: that of the MIG profile, or of all whole GPUs.

    Source: github.com/kubernetes-sigs/dra-driver-nvidia-gpu demo/specs/extended-resources.
    """
    parsed = parse_resource(resource)
    if parsed is not None and parsed.profile is not None:
        return f"mig-{parsed.profile.label.replace('.', '-').lower()}.gpu.nvidia.com"
    return GPU_CLASS


def _mapped(view: ClusterView) -> dict[str, str] | Unknown:
    classes = view.list("DeviceClass")
    if classes is UNKNOWN:
        return UNKNOWN
    last_counts = sorted(sorted(classes, key=name_of, reverse=True), key=_created)
    return {resource: name_of(each) for each in last_counts if (resource := extended_resource_name(each))}


def _created(device_class: Object) -> str:
    return str(lookup(device_class, ("metadata", "creationTimestamp")) or "")
