"""What a pod's GPU resources stand for: which labels describe them, and which devices of a DRA driver."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from policies.dra.deviceclasses import GPU_CLASS, MIG_CLASS, device_type, extended_resource_name
from policies.kubernetes.objects import name_of
from policies.kubernetes.quantities import QuantityError, parse_quantity
from policies.nvidia.labels import Subject
from policies.nvidia.predicates.predicate import attribute_of
from policies.nvidia.resources import IMPLICIT_PREFIX, GPUResource, asks_for_gpu, parse_resource
from policies.view import UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Mapping

    from policies.dra.inventory import DeviceGroup
    from policies.kubernetes.pods import Pod
    from policies.view import ClusterView

__all__ = ["AskedGPU", "asked_gpus", "types_by_resource"]

DeviceType = Literal["gpu", "mig"]

_WHOLE_GPU = GPUResource("nvidia.com/gpu", mig=False, profile=None, shared=False)


@dataclass(frozen=True, slots=True)
class AskedGPU:
    """A resource that a pod asks for, and that brings it GPUs."""

    name: str
    labels: GPUResource | None
    """The resource whose labels describe what it gets; None where no label does."""
    devices: Subject | None
    """The devices that it stands for where a DeviceClass hands it out; None where none does."""

    def can_get(self, group: DeviceGroup) -> bool:
        """Whether devices of a DRA driver are what it stands for."""
        if self.devices is None or group.type != self.devices.kind:
            return False
        profile = self.devices.profile
        return profile is None or attribute_of(group.device, "profile") == str(profile)


def asked_gpus(pod: Pod, view: ClusterView) -> tuple[AskedGPU, ...]:
    """The GPU resources that a pod asks for, in the order of its containers, each once."""
    types = view.derive(types_by_resource)
    names = dict.fromkeys(
        name
        for container in pod.all_containers
        for name, amount in (*container.limits.items(), *container.requests.items())
        if (asks_for_gpu(name) or name in types) and _is_some(amount)
    )
    return tuple(_asked(name, types.get(name)) for name in names)


def types_by_resource(view: ClusterView) -> Mapping[str, DeviceType]:
    """The devices that extended resources stand for by DeviceClasses, by name. Use it by `view.derive`.

    Without a view of the classes, those that NVIDIA's driver ships are taken to be there, as it ships them.

    Source: KEP-5004.
    """
    classes = view.list("DeviceClass")
    if classes is UNKNOWN:
        return {IMPLICIT_PREFIX + GPU_CLASS: "gpu", IMPLICIT_PREFIX + MIG_CLASS: "mig"}
    types: dict[str, DeviceType] = {}
    for device_class in sorted(classes, key=name_of):
        found = device_type(device_class)
        if found is not None:
            types[IMPLICIT_PREFIX + name_of(device_class)] = found
            if resource := extended_resource_name(device_class):
                types.setdefault(resource, found)
    return types


def _is_some(amount: Any) -> bool:
    """Whether something is asked for; what is no amount the API server refuses."""
    try:
        return parse_quantity(amount) > 0
    except QuantityError:
        return False


def _asked(name: str, devices: DeviceType | None) -> AskedGPU:
    labels = parse_resource(name) or (_WHOLE_GPU if devices == "gpu" else None)
    profile = labels.profile if labels else None
    return AskedGPU(name, labels, Subject(devices, profile if devices == "mig" else None) if devices else None)
