"""The GPU resources that a pod requests, with the labels and the DRA devices that describe them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from policies.fleet import extended_requests
from policies.fleet.known_classes import has_nvidia_class_name, known_classes
from policies.nvidia.identifiers import GPU_RESOURCE
from policies.nvidia.labels import Subject
from policies.nvidia.predicates.predicate import attribute_of
from policies.nvidia.resources import IMPLICIT_PREFIX, GPUResource, parse_resource

if TYPE_CHECKING:
    from policies.dra.device_groups import DeviceGroup
    from policies.fleet.known_classes import DeviceType
    from policies.kubernetes.pods import Pod
    from policies.view import ClusterView

__all__ = ["RequestedGPU", "requested_gpus"]

_WHOLE_GPU = GPUResource(GPU_RESOURCE, mig=False, profile=None, shared=False)


@dataclass(frozen=True, slots=True)
class RequestedGPU:
    """A requested resource that stands for GPUs."""

    name: str
    labels: GPUResource | None
    """The resource whose labels describe its GPUs; None if no label does."""
    devices: Subject | None
    """The devices of its DeviceClass; None if no DeviceClass hands it out."""

    def can_get(self, group: DeviceGroup) -> bool:
        """True if it stands for devices of this group."""
        if self.devices is None or group.type != self.devices.kind:
            return False
        profile = self.devices.profile
        return profile is None or attribute_of(group.first, "profile") == str(profile)


def requested_gpus(pod: Pod, view: ClusterView) -> tuple[RequestedGPU, ...]:
    """The GPU resources that a pod requests, in the order of its containers, each once.

    A resource counts if it is one of the device plugin, if it stands for devices of one type, or if it names a class that
    is named like NVIDIA's and does not select devices of another driver only.
    """
    types = {
        request.name: device_type(request.name, view)
        for request in extended_requests(pod.document, view)
        if not request.is_unlisted
    }
    return tuple(
        _requested_gpu(name, found)
        for name, found in types.items()
        if found is not None
        or parse_resource(name) is not None
        or (name.startswith(IMPLICIT_PREFIX) and has_nvidia_class_name(name.removeprefix(IMPLICIT_PREFIX)))
    )


def device_type(resource: str, view: ClusterView) -> DeviceType | None:
    """The type of devices that an extended resource stands for by a DeviceClass; None if none or mixed.

    Source: KEP-5004.
    """
    classes = known_classes(view)
    types = map(classes.probable_type, classes.standing_for(resource))
    return next((each for each in types if each is not None), None)


def _requested_gpu(name: str, devices: DeviceType | None) -> RequestedGPU:
    labels = parse_resource(name) or (_WHOLE_GPU if devices == "gpu" else None)
    profile = labels.profile if labels else None
    return RequestedGPU(name, labels, Subject(devices, profile if devices == "mig" else None) if devices else None)
