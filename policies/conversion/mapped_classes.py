"""Mapped classes: the DeviceClass that a resource of the device plugin becomes when it is renamed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.dra.deviceclasses import GPU_CLASS
from policies.fleet.known_classes import known_classes
from policies.nvidia.resources import parse_resource
from policies.view import UNKNOWN

if TYPE_CHECKING:
    from policies.view import ClusterView, Unknown

__all__ = ["class_for", "usual_class"]


def class_for(resource: str, view: ClusterView) -> str | Unknown | None:
    """The DeviceClass whose devices are exactly those of a resource; None where there is none.

    That is the class that stands for it, or else the one that NVIDIA's driver or its documentation names so.
    """
    classes = known_classes(view)
    if not classes.are_listed:
        return UNKNOWN
    mapped = classes.standing_for(resource)
    if mapped:
        return mapped[0]
    usual = usual_class(resource)
    return usual if usual in classes else None


def usual_class(resource: str) -> str:
    """The name that such a class has by convention: that of the MIG profile, or of all whole GPUs.

    Source: github.com/kubernetes-sigs/dra-driver-nvidia-gpu demo/specs/extended-resources.
    """
    parsed = parse_resource(resource)
    if parsed is not None and parsed.profile is not None:
        return f"mig-{parsed.profile.label.replace('.', '-').lower()}.gpu.nvidia.com"
    return GPU_CLASS
