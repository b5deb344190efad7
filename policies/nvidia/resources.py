"""Extended resources: the names under which the device plugin hands out GPUs."""

from __future__ import annotations

from dataclasses import dataclass

from policies.kubernetes.caches import remember_short
from policies.nvidia.identifiers import GPU_RESOURCE, VENDOR_PREFIX
from policies.nvidia.mig import MIGProfile

__all__ = ["IMPLICIT_PREFIX", "GPUResource", "parse_resource"]

IMPLICIT_PREFIX = "deviceclass.resource.kubernetes.io/"
"""The prefix under which every DeviceClass is an extended resource since Kubernetes 1.36 (KEP-5004)."""

_MIG = "nvidia.com/mig-"
_SHARED = ".shared"


@dataclass(frozen=True, slots=True)
class GPUResource:
    """An extended resource that stands for GPUs.

    Source: github.com/NVIDIA/k8s-device-plugin api/config/v1 (`gpu`, `mig-<profile>`, suffix `.shared` when
    `renameByDefault` is set).
    """

    name: str
    mig: bool
    profile: MIGProfile | None
    """For MIG resources; None where the name holds no profile that exists in this form."""
    shared: bool


def parse_resource(name: str) -> GPUResource | None:
    """What a resource name of the device plugin stands for; None for every other resource."""
    return _parse(name) if name.startswith(VENDOR_PREFIX) else None


@remember_short(256)
def _parse(name: str) -> GPUResource | None:
    base, shared = (name.removesuffix(_SHARED), True) if name.endswith(_SHARED) else (name, False)
    if base == GPU_RESOURCE:
        return GPUResource(name, mig=False, profile=None, shared=shared)
    if base.startswith(_MIG):
        return GPUResource(name, mig=True, profile=MIGProfile.from_label(base.removeprefix(_MIG)), shared=shared)
    return None
